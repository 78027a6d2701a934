"""Rows that clients propose to each other, in turns: who sends how many, and whose is which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.device import of_numpy
from atoll.federation.calls import Replies
from atoll.federation.protocol import Federation
from atoll.federation.validation import log
from atoll.leaves import Ragged
from atoll.methods.client import Client
from atoll.methods.fed_sage_plus.made import Made
from atoll.rng import CohortRng

# A gradient from one other client alone would give away the row that it points to.
_FEWEST_CLIENTS = 3
# Under which a cohort keeps what its clients have proposed.
_PROPOSED = "proposed in an exchange"


class Proposal(NamedTuple):
    """What generators have made in an exchange, and which rows of it each client proposes."""

    made: Made
    chosen: Ragged


def keep(proposal: Proposal, client: Client, turn: Mapping[str, Tensor]) -> None:
    """Keep what is proposed for the step that learns from the answers.

    With the cohort, not in a client's state: where that step is another process's, it is made anew.
    """
    client.cohort.derived[_PROPOSED] = proposal, _follows_from(client, turn)


def kept(client: Client, turn: Mapping[str, Tensor]) -> Proposal | None:
    """What was proposed in this turn, once, if the generators are still the same."""
    found: Any = forget(client.cohort)
    return found[0] if found is not None and found[1] == _follows_from(client, turn) else None


def forget(cohort: Cohort) -> object:
    """Keep it no longer, and return it."""
    return cohort.derived.pop(_PROPOSED, None)


def _follows_from(client: Client, turn: Mapping[str, Tensor]) -> tuple[int, ...]:
    """When a proposal is made, and where in memory the generators are.

    Training changes these in place, and with them what belongs to their optimizer.
    """
    generator, optimizer = (client.state[kind] for kind in ("generator", "generator_optimizer"))
    places = [(p.data_ptr(), p._version) for p in (*generator.values(), *optimizer.values())]
    when = client.rng.seed, client.rng.round, int(turn["number"][0]), int(turn["quota"][0])
    return *when, *(number for place in places for number in place)


def coins_of(turn: Mapping[str, Tensor], rng: CohortRng) -> CohortRng:
    """The coins of an exchange: what was proposed can be made again when the answer comes."""
    number = int(turn["number"][0])
    return CohortRng(rng.seed, rng.clients, rng.round, f"exchange {number}")


def chosen_rows(sizes: Sequence[int], turn: Mapping[str, Tensor], coins: CohortRng) -> Ragged:
    """Which of its rows each client proposes: at most the quota, in their order."""
    quota = int(turn["quota"][0])
    chosen, first = [], 0
    for size, stream in zip(sizes, coins.streams, strict=True):
        rows = of_numpy(stream.permutation(size)[:quota])
        chosen.append(first + rows.sort().values)
        first += size
    return Ragged.of(chosen)


def can_exchange(fed: Federation) -> bool:
    """Whether there are clients enough for a sum of answers to hide each of them."""
    if len(fed.clients) >= _FEWEST_CLIENTS:
        return True
    log.warning(
        "fed-sage-plus leaves out the exchanges: with %d clients the gradients would give away "
        "single nodes.",
        len(fed.clients),
    )
    return False


def summed_answers(fed: Federation, proposals: Replies) -> Ragged:
    """The sum of all clients' gradients for the proposed rows, for those who proposed them.

    Zero where too few clients answered for a sum to hide what one of them said.
    """
    made: Ragged = proposals["rows"]["made"]
    gradient = torch.zeros_like(made.values)
    if len(made.values):
        total = fed.sum(
            "compare",
            shared={"rows": {"made": made.values}},
            each={"rows": {"own": own_ranges(fed.clients, proposals.clients, made.sizes)}},
            expect={"gradient": {"made": made.values}},
        )
        if total.count >= _FEWEST_CLIENTS:
            gradient = total.mean["gradient"]["made"] * total.weight
    return Ragged(gradient, made.sizes)


def own_ranges(clients: Sequence[int], proposers: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """Which of all proposed rows are each client's own: the first and the one after the last."""
    ranges, first = dict.fromkeys(clients, (0, 0)), 0
    for client, size in zip(proposers, sizes, strict=True):
        ranges[client] = (first, first + size)
        first += size
    return torch.tensor([ranges[client] for client in clients])
