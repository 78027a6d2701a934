"""Neighbours routed to factors (DisenConv), node by node: per edge a few numbers are kept at most.

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


@numba.njit(nogil=True, cache=True)
def routed(x, u, pointers, neighbours, out, lengths, first, last):
    """``x_ik + sum_j p_ijk x_jk`` at length one, ``p_ijk = softmax over k of <x_jk, u_ik>``; and
    the lengths that it had ``[N, F]``."""
    p = np.empty(x.shape[1], x.dtype)
    for i in range(first, last):
        out[i] = x[i]
        for e in range(pointers[i], pointers[i + 1]):
            x_j = x[neighbours[e]]
            _dots(x_j, u[i], p)
            _softmax(p)
            _add(out[i], p, x_j)
        _to_length_one(out[i], lengths[i])


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
def _before_length_one(g, out, lengths, along):
    """The gradient ``g`` of factors at length one becomes that of what they were before."""
    _dots(g, out, along)
    for k in range(len(lengths)):
        for c in range(g.shape[1]):
            g[k, c] = (g[k, c] - along[k] * out[k, c]) / lengths[k]


@numba.njit(nogil=True, cache=True)
def to_nodes(x, u, out, lengths, g, pointers, neighbours, shares, slopes, out_u, first, last):
    """Gradient of u for that of the result; each edge's ``p [E, F]`` and gradient of
    ``<x_jk, u_ik>``, which :func:`to_neighbours` needs, and ``g`` as it is before scaling."""
    factors = x.shape[1]
    along = np.empty(factors, x.dtype)
    for i in range(first, last):
        _before_length_one(g[i], out[i], lengths[i], along)
        out_u[i] = 0
        for e in range(pointers[i], pointers[i + 1]):
            x_j, p, s = x[neighbours[e]], shares[e], slopes[e]
            _dots(x_j, u[i], p)
            _softmax(p)
            _dots(x_j, g[i], s)
            mean = x.dtype.type(0)
            for k in range(factors):
                mean += p[k] * s[k]
            for k in range(factors):
                s[k] = p[k] * (s[k] - mean)
            _add(out_u[i], s, x_j)


@numba.njit(nogil=True, cache=True)
def to_neighbours(u, g, pointers, nodes, edges, shares, slopes, out_x, first, last):
    """Gradient of x: a node's own, and that of all whose neighbour j it is, edge by edge."""
    for j in range(first, last):
        out_x[j] = g[j]
        for at in range(pointers[j], pointers[j + 1]):
            i, e = nodes[at], edges[at]
            _add(out_x[j], shares[e], g[i])
            _add(out_x[j], slopes[e], u[i])
