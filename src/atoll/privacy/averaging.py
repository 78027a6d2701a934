"""A robust mean in place of the server's plain one, for all that is summed or mixed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from atoll.errors import NoReplies
from atoll.federation.calls import Total
from atoll.federation.protocol import Averaging, Federation
from atoll.privacy.protections import Privacy
from atoll.privacy.robust import RULES, needed, robustly
from atoll.tree import Params, flat, nested

if TYPE_CHECKING:
    from atoll.privacy.secure.signing import Peers


class RobustMean(Averaging):
    """Sums become robust means of replies that are seen one by one, as the ledger then says.

    All count the same in them: a weight is what a client says of itself. Those with a weight of
    zero, who have nothing to say, are left out.
    """

    def __init__(self, privacy: Privacy) -> None:
        self.privacy = privacy
        self.rule = RULES[privacy.robust]
        self.used = False

    def total(self, fed: Federation, step: str, request: Mapping[str, Any]) -> Total:
        replies = fed.ask(step, **request)
        counted = torch.nonzero(replies.weight > 0).flatten()
        least = needed(self.privacy.robust, self.privacy.hostile)
        if len(counted) < least:
            raise NoReplies(
                f"{len(counted)} replies to '{step}' are too few for {self.privacy.robust} against "
                f"{self.privacy.hostile} hostile ones, which takes {least}."
            )
        values = {name: leaf[counted] for name, leaf in _plain(replies.body).items()}
        sent = _sent(request, replies.clients, fed, counted)
        alpha = torch.full((1, len(counted)), 1 / len(counted), dtype=torch.float64)
        mean = self.mixed(alpha, values, sent)
        weight = float(replies.weight.sum())
        return Total(nested({name: v[0] for name, v in mean.items()}), weight, len(replies.clients))

    def mixed(self, alpha: Tensor, values: Params, sent: Params) -> Params:
        self.used = True
        return robustly(self.rule, alpha, values, sent, self.privacy.hostile)

    def remark(self) -> str:
        if self.used:
            return ""
        return (
            f"privacy.robust = '{self.privacy.robust}' had nothing to do: the method averages no "
            f"replies, so hostile ones are met by nothing."
        )


def _plain(body: Mapping[str, Any]) -> Params:
    for name, leaf in body.items():
        if not isinstance(leaf, Tensor):
            raise TypeError(f"'{name}' is ragged: a mean needs replies of one shape")
    return dict(body)


def _sent(
    request: Mapping[str, Any], clients: tuple[int, ...], fed: Federation, counted: Tensor
) -> Params:
    """What those who count were sent, by name ``[m, ...]``."""
    shared = flat(request.get("shared") or {})
    sent = {n: v.expand(len(counted), *v.shape) for n, v in shared.items()}
    targets = list(fed.clients if request.get("to") is None else request["to"])
    rows = [targets.index(clients[i]) for i in counted.tolist()]
    each = flat(request.get("each") or {})
    return sent | {n: v[rows] for n, v in each.items() if isinstance(v, Tensor)}


def protect(fed: Federation, privacy: Privacy, epochs: int, peers: Peers | None = None) -> None:
    """Let a federation's server keep to an experiment's protections; clients train ``epochs``.

    ``peers`` are those whose signatures count in secure sums; without any, clients are simulated.
    """
    fed.averaging = averaging_of(privacy, peers)
    fed.per_reply = epochs if privacy.unit == "node" else 1


def averaging_of(privacy: Privacy, peers: Peers | None = None) -> Averaging | None:
    """What the server's mean is replaced by, if it is."""
    if privacy.secure_sum:
        from atoll.privacy.secure.sums import SecureSum

        return SecureSum(privacy.threshold, peers)
    return None if privacy.robust == "none" else RobustMean(privacy)
