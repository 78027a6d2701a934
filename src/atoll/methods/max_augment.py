"""Fed-GALA without an exchange of embeddings."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from atoll.methods.base import methods
from atoll.methods.fed_gala import FedGala


@methods.register("max-augment")
@dataclass(frozen=True, kw_only=True)
class MaxAugment(FedGala):
    """Fed-GALA whose clients link their anchors by their own embeddings (thesis, Section 5.3).

    A client knows which of its nodes are anchors; the server does not, and no embedding leaves.
    """

    augments: ClassVar[Literal["together", "alone", "never"]] = "alone"
