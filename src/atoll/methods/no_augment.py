"""Fed-GALA without augmentation."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from atoll.methods.base import methods
from atoll.methods.fed_gala import FedGala


@methods.register("no-augment")
@dataclass(frozen=True, kw_only=True)
class NoAugment(FedGala):
    """Fed-GALA without phase 2: links are learnt from, none is added (thesis, Section 5.3)."""

    needs_anchors: ClassVar[bool] = False
    augments: ClassVar[Literal["together", "alone", "never"]] = "never"
