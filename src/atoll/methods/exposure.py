"""Which methods give away more than a trained model does, as it was measured.

``atoll attack`` tells from what was really sent whether two nodes are linked, and which a model was
trained on; the area under the ROC curve is 0.5 where that is chance. What has 0.65 or more, or
gives features away, needs a site's explicit word before it takes part. This is the one place where
such methods stand; figures are those of docs/privacy-leaks.md (Cora, five clients, means over three
seeds), gfl-appnp's by an attack on its moments.
"""

from __future__ import annotations

from dataclasses import fields
from typing import NamedTuple

from atoll.methods.base import Method


class Exposure(NamedTuple):
    """What somebody who sees a method's messages can find out, and how well that went."""

    what: str
    measured: str


_LINKS = "which nodes are linked, from the vectors of nodes that it sends"
_MEMBERS = "which nodes it was trained on, from its models"
MEASURED = {
    "fed-gala": Exposure(_LINKS, "area 0.90"),
    "fed-gala-p": Exposure(_LINKS, "area 0.88"),
    "fed-gnn": Exposure(_LINKS, "area 0.99"),
    "ppfl-gat": Exposure(_LINKS, "area 0.92"),
    "ppfl-deepwalk": Exposure(_LINKS, "area 1.00"),
    "fed-gcn": Exposure("features of nodes, from sums over few neighbours", "cosine 0.70"),
    "gfl-appnp": Exposure("which words a node has, from its moments", "300 of 300 sets of words"),
    "fed-mlp": Exposure(_MEMBERS, "area 0.67"),
    # GraphSAGE sees a node's own features apart from its neighbours'. With fed-avg it shows as
    # much: the built-in policy does not admit that model either.
    "fed-sage": Exposure(_MEMBERS, "area 0.65"),
    "fed-sage-plus": Exposure(_MEMBERS, "area 0.65"),
    # They derive from fed-gala and send no vectors of nodes.
    "no-augment": Exposure(_MEMBERS, "area 0.69"),
    "max-augment": Exposure(_MEMBERS, "area 0.69"),
}


def exposure(method: Method) -> Exposure | None:
    """What a method exposes, also one that derives from or wraps a method that does; else None."""
    names = [getattr(base, "registered_name", "") for base in type(method).__mro__]
    found = MEASURED.get(next((name for name in names if name in MEASURED), ""))
    inner = (getattr(method, spec.name) for spec in fields(method))
    every = (found, *(exposure(part) for part in inner if isinstance(part, Method)))
    return next((one for one in every if one is not None), None)
