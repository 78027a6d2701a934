"""Fed-GALA with a proximal term, and with less or nothing of its augmentation."""

from atoll.federation.protocol import Federation
from atoll.methods.base import register
from atoll.methods.fed_gala.method import FedGala, augmented_in
from atoll.tree import Kinds


@register("fed-gala-p")
class FedGalaP(FedGala):
    """Fed-GALA with FedProx's pull, whose mu follows the loss (Fed-GALAp, Tavakoli, 2023).

    It needs losses that are sums. Beside means, a pull that starts from mu = 1 holds the model so
    still that every client counts as converged within some 20 rounds, long before mu has come down.
    """

    paper = ("fed-gala/table-5-2",)

    mu: float = 1.0
    adaptive: bool = True


@register("no-augment")
class NoAugment(FedGala):
    """Fed-GALA without phase 2: links are learnt from, none is added (thesis, Section 5.3)."""

    paper = ("fed-gala/table-5-3",)

    needs_anchors = False
    augments = False


@register("max-augment")
class MaxAugment(FedGala):
    """Fed-GALA whose clients link their anchors by their own embeddings (thesis, Section 5.3).

    A client knows which of its nodes are anchors; the server does not, and no embedding leaves.
    """

    paper = ("fed-gala/table-5-3",)

    def augment_all(self, fed: Federation, server: Kinds, r: int) -> Kinds:
        fed.ask("augment", expect={})
        return augmented_in(r, server)
