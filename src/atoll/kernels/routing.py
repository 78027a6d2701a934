"""Neighbours routed to factors (DisenConv), node by node.

What a node's routings make depends on its own factors and on those of its neighbours as they
were at first, so that all routings of one node are done one after the other: its neighbours are
read from memory once, and are at hand for the others.

Rows are ``[N, F, d]``; edges are given by node, from ``pointers[i]`` to ``pointers[i + 1]``.
"""

from __future__ import annotations

import numba
import numpy as np

# The sum over a factor's numbers may be taken in any order, which is what lets it fill vectors.
_FAST = {"reassoc", "contract", "nsz"}


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
def _dots(a, b, out):
    """``out_k = <a_k, b_k>`` of two nodes' factors ``[F, d]``."""
    for k in range(len(out)):
        total = a.dtype.type(0)
        for c in range(a.shape[1]):
            total += a[k, c] * b[k, c]
        out[k] = total


@numba.njit(nogil=True, cache=True)
def _softmax(s):
    top = s[0]
    for k in range(1, len(s)):
        top = max(top, s[k])
    total = s.dtype.type(0)
    for k in range(len(s)):
        s[k] = np.exp(s[k] - top)
        total += s[k]
    for k in range(len(s)):
        s[k] /= total


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
def _add(out, p, x):
    """``out_k += p_k x_k`` of a node's factors ``[F, d]``."""
    for k in range(len(p)):
        for c in range(x.shape[1]):
            out[k, c] += p[k] * x[k, c]


@numba.njit(nogil=True, cache=True)
def _to_length_one(x, lengths):
    """Each factor over its length; one that is zero stays so and counts as of length one."""
    _dots(x, x, lengths)
    for k in range(len(lengths)):
        lengths[k] = np.sqrt(lengths[k]) if lengths[k] > 0 else x.dtype.type(1)
        for c in range(x.shape[1]):
            x[k, c] /= lengths[k]


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
def _add_both(out, p, x, s, y):
    """``out_k += p_k x_k + s_k y_k`` of a node's factors."""
    for k in range(len(p)):
        for c in range(x.shape[1]):
            out[k, c] += p[k] * x[k, c] + s[k] * y[k, c]


@numba.njit(nogil=True, cache=True)
def routed(x, pointers, neighbours, routings, made_T, lengths_T, first, last):
    """From ``u_i = x_i`` on, ``u_ik <- x_ik + sum_j p_ijk x_jk`` at length one, so many times, with
    ``p_ijk = softmax over k of <x_jk, u_ik>``.

    What each routing makes ``[T, N, F, d]``, and the lengths that it had ``[T, N, F]``; in two
    places by turns if there is no room for more.
    """
    p = np.empty(x.shape[1], x.dtype)
    for i in range(first, last):
        u = x[i]
        for t in range(routings):
            made = made_T[t % len(made_T), i]
            made[:] = x[i]
            for e in range(pointers[i], pointers[i + 1]):
                x_j = x[neighbours[e]]
                _dots(x_j, u, p)
                _softmax(p)
                _add(made, p, x_j)
            _to_length_one(made, lengths_T[t % len(made_T), i])
            u = made


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
def _before_length_one(g, out, lengths, along):
    """The gradient ``g`` of factors at length one becomes that of what they were before."""
    _dots(g, out, along)
    for k in range(len(lengths)):
        for c in range(g.shape[1]):
            g[k, c] = (g[k, c] - along[k] * out[k, c]) / lengths[k]


@numba.njit(nogil=True, cache=True)
def gradient(x, made_T, lengths_T, g_made, pointers, neighbours, start_K, out_x, first, last):
    """Gradient of x for that of what the last routing made, in ``out_x``, which is zero before.

    Of clients ``first`` to ``last``, whose nodes begin at ``start_K``: a node adds to the rows of
    its neighbours, which are of the same client.
    """
    factors = x.shape[1]
    g, to_u = np.empty_like(x[0]), np.empty_like(x[0])
    p, s = np.empty(factors, x.dtype), np.empty(factors, x.dtype)
    along = np.empty(factors, x.dtype)
    for i in range(start_K[first], start_K[last]):
        g[:] = g_made[i]
        for t in range(len(made_T) - 1, -1, -1):
            u = made_T[t - 1, i] if t else x[i]
            _before_length_one(g, made_T[t, i], lengths_T[t, i], along)
            out_x[i] += g
            to_u[:] = 0
            for e in range(pointers[i], pointers[i + 1]):
                j = neighbours[e]
                _dots(x[j], u, p)
                _softmax(p)
                _dots(x[j], g, s)
                mean = x.dtype.type(0)
                for k in range(factors):
                    mean += p[k] * s[k]
                for k in range(factors):
                    s[k] = p[k] * (s[k] - mean)
                _add(to_u, s, x[j])
                _add_both(out_x[j], p, g, s, u)
            g[:] = to_u
        out_x[i] += g
