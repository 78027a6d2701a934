"""Means of models that a few hostile clients can't move far.

All work on rows of weights ``alpha [n, m]`` over the values of m clients, one result per row: an
average has one row of equal weights, a mixing method one per client or cluster. A row's
*neighbourhood* are the clients with a weight above zero in it; a rule sees one neighbourhood at a
time, with the rows' weights in it, ``share``, which sum to one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import torch
from torch import Tensor

from atoll.device import of_numpy
from atoll.ops.similarity import mixed
from atoll.tree import Params

# share [n, m], values [m, ...], what the clients were sent [m, ...], how many are hostile.
Rule = Callable[[Tensor, Params, Params, int], Params]
_WEISZFELD_STEPS = 64
# No honest update is so many times as long as the median one.
TOO_LONG = 3.0


def robustly(rule: Rule, alpha: Tensor, values: Params, sent: Params, hostile: int) -> Params:
    """One robust mixture per row of ``alpha``; a row without weights is zero.

    Of each neighbourhood, at most ``hostile`` clients whose update is more than :data:`TOO_LONG`
    times as long as the median one are left out, and the rule has as many fewer to reckon with: so
    it costs little where nobody is hostile, and a crude attack nothing more.
    """
    made = {name: v.new_zeros(len(alpha), *v.shape[1:]) for name, v in values.items()}
    for rows, everybody in _neighbourhoods(alpha):
        who = _without_the_longest(everybody, values, sent, hostile)
        share = alpha[rows][:, who].double()
        total = share.sum(1, keepdim=True)
        share = torch.where(total > 0, share / total, torch.full_like(share, 1 / len(who)))
        own, began = _of(values, who), _of(sent, who)
        left = hostile - (len(everybody) - len(who))
        for name, v in rule(share, own, began, left).items():
            made[name][rows] = v.to(made[name].dtype)
    return made


def _without_the_longest(who: Tensor, values: Params, sent: Params, hostile: int) -> Tensor:
    """The clients but those whose updates are far too long, where it is known what an update is."""
    known = {name: v for name, v in values.items() if name in sent}
    if not known:
        return who
    began = _of(sent, who)
    norms = _lengths({n: v - began[n] for n, v in _of(known, who).items()})
    order = norms.argsort(descending=True)[:hostile]
    gone = order[norms[order] > TOO_LONG * norms.median()]
    stays = torch.ones(len(who), dtype=torch.bool)
    stays[gone] = False
    return who[stays]


def _of(tree: Params, who: Tensor) -> Params:
    """Some clients' rows; a number that holds for all is all of them."""
    return {name: v[who] if v.dim() else v for name, v in tree.items()}


def _neighbourhoods(alpha: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows with the same neighbourhood, and who that is."""
    patterns, which = torch.unique(alpha > 0, dim=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        if bool(pattern.any()):
            yield torch.nonzero(which == number).flatten(), torch.nonzero(pattern).flatten()


def norm_clip(share: Tensor, values: Params, sent: Params) -> Params:
    """Updates longer than the median one are shortened to it, then averaged.

    An update is the difference from what a client was sent; values of which nobody was sent any
    count as they are.
    """
    updates = {name: v - sent[name] if name in sent else v for name, v in values.items()}
    norms = _lengths(updates)
    scale = (norms.median() / norms.clamp(min=torch.finfo(norms.dtype).tiny)).clamp(max=1.0)
    shorter = {
        name: u * scale.view(-1, *[1] * (u.dim() - 1)).to(u.dtype) for name, u in updates.items()
    }
    return mixed(share, {n: sent[n] + u if n in sent else u for n, u in shorter.items()})


def trimmed_mean(share: Tensor, values: Params, hostile: int) -> Params:
    """Per coordinate without the ``hostile`` largest and smallest values (Yin et al., 2018).

    Values are counted, not weighed, before weights come in: the result lies between honest values
    whatever weight a hostile client has got itself.
    """
    m = share.shape[1]
    cut = min(hostile, (m - 1) // 2)
    if len(share) == 1 and bool((share == share[0, 0]).all()):  # then whose a value is is no matter
        return {n: _sorted(v)[cut : m - cut].mean(0)[None] for n, v in values.items()}
    made = {}
    for name, v in values.items():
        kept = torch.zeros_like(v).scatter_(0, v.argsort(dim=0)[cut : m - cut], 1.0)
        weights = share.to(v.dtype)
        total = torch.tensordot(weights, kept, dims=1)
        made[name] = torch.tensordot(weights, kept * v, dims=1) / total
    return made


def median(share: Tensor, values: Params) -> Params:
    """The weighted median per coordinate: half of a row's weight lies on either side."""
    made = {}
    for name, v in values.items():
        ordered, order = v.sort(dim=0)
        made[name] = torch.stack([_weighted_median(row[order], ordered) for row in share])
    return made


def _weighted_median(weights: Tensor, ordered: Tensor) -> Tensor:
    """Of values in ascending order ``[m, ...]``; between two where the weights are even."""
    below, slack = weights.cumsum(0), 1e-9
    low = (below < 0.5 - slack).sum(0, keepdim=True)
    high = (below <= 0.5 + slack).sum(0, keepdim=True).clamp(max=len(ordered) - 1)
    return (ordered.gather(0, low) + ordered.gather(0, high))[0] / 2


def geometric_median(share: Tensor, values: Params) -> Params:
    """The point with the least weighted sum of distances (RFA, Pillutla et al., 2022).

    Weiszfeld's steps are taken in the clients' shares of it: all they need is the products of the
    clients' values with each other.
    """
    products = _products(values)
    return mixed(torch.stack([_weiszfeld(row, products) for row in share]), values)


def _weiszfeld(alpha: Tensor, products: Tensor) -> Tensor:
    own = products.diagonal()
    smooth = 1e-6 * float(own.max().clamp(min=1e-30).sqrt())
    share = alpha
    for _ in range(_WEISZFELD_STEPS):
        across = products @ share
        apart = (own - 2 * across + share @ across).clamp(min=0).sqrt().clamp(min=smooth)
        pulled = alpha / apart
        last, share = share, pulled / pulled.sum()
        if float((share - last).abs().max()) < 1e-9:
            break
    return share


def krum(share: Tensor, values: Params, hostile: int) -> Params:
    """The one whose nearest others are nearest (Blanchard et al., 2017), for every row alike."""
    return _only(_krum_order(values, hostile)[:1], share, values)


def multi_krum(share: Tensor, values: Params, hostile: int) -> Params:
    """The mean of all but the ``hostile`` that are farthest from their nearest others."""
    m = share.shape[1]
    return _only(_krum_order(values, hostile)[: m - min(hostile, (m - 1) // 2)], share, values)


def _krum_order(values: Params, hostile: int) -> Tensor:
    """Clients by the sum of squared distances to their ``m - f - 2`` nearest."""
    products = _products(values)
    own = products.diagonal()
    apart = (own[:, None] + own[None] - 2 * products).clamp(min=0)
    near = max(1, len(products) - hostile - 2)
    return apart.sort(dim=1).values[:, 1 : 1 + near].sum(1).argsort()


def _only(chosen: Tensor, share: Tensor, values: Params) -> Params:
    """Mixtures of some clients alone."""
    kept = torch.zeros_like(share)
    kept[:, chosen] = share[:, chosen]
    return mixed(kept / kept.sum(1, keepdim=True), values)


RULES: Mapping[str, Rule] = {
    "norm-clip": lambda share, values, sent, hostile: norm_clip(share, values, sent),
    "median": lambda share, values, sent, hostile: median(share, values),
    "trimmed-mean": lambda share, values, sent, hostile: trimmed_mean(share, values, hostile),
    "krum": lambda share, values, sent, hostile: krum(share, values, hostile),
    "multi-krum": lambda share, values, sent, hostile: multi_krum(share, values, hostile),
    "geometric-median": lambda share, values, sent, hostile: geometric_median(share, values),
}


def needed(rule: str, hostile: int) -> int:
    """How many replies outvote so many hostile ones."""
    return 2 * hostile + (3 if "krum" in rule else 1)


def _lengths(updates: Params) -> Tensor:
    """Of each client's update ``[m]``."""
    parts = [
        torch.linalg.vector_norm(u.reshape(len(u), -1), dim=1, dtype=torch.float64)
        for u in updates.values()
    ]
    length: Tensor = torch.linalg.vector_norm(torch.stack(parts), dim=0)
    return length


def _as_vectors(values: Params) -> Tensor:
    return torch.cat([v.reshape(len(v), -1).double() for v in values.values()], dim=1)


def _products(values: Params) -> Tensor:
    """The products of the clients' values with each other ``[m, m]``, seen from their middle."""
    vectors = _as_vectors(values)
    vectors = vectors - _sorted(vectors)[(len(vectors) - 1) // 2]
    return vectors @ vectors.T


def _sorted(values: Tensor) -> Tensor:
    """Each coordinate's values in ascending order; numpy is several times as fast at it."""
    ordered: Tensor = of_numpy(np.sort(values.cpu().numpy(), axis=0))
    return ordered.to(values.device)
