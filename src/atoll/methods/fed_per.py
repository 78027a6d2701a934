"""FedAvg with personal layers."""

from collections.abc import Iterable

from atoll.errors import unknown
from atoll.methods.base import register
from atoll.methods.global_model import GlobalModel
from atoll.tree import Params


@register("fed-per")
class FedPer(GlobalModel):
    """Base layers are averaged, the classifier stays personal (Arivazhagan et al., 2019).

    As FED-PUB's Appendix B.2 runs it: only the base layers are shared, weighted by labelled nodes;
    each client keeps its classification layer. ``personal`` names the layer that stays, as the
    beginning of its parameters' names; by default the model's last one (``classifier`` for
    FED-PUB's GCN, ``conv2`` for the original one). The personal layer never leaves: it is in no
    reply, and the server does not have it. All clients start from the same one, made from the
    public seed.
    """

    personal: str = ""

    def public(self, params: Params) -> Params:
        """The base layers."""
        stays = self.personal or last_layer(params)
        if not any(in_layer(name, stays) for name in params):
            raise unknown("layer (method.personal)", stays, {n.rpartition(".")[0] for n in params})
        return {name: p for name, p in params.items() if not in_layer(name, stays)}


def last_layer(names: Iterable[str]) -> str:
    """``classifier`` if ``classifier.bias`` comes last; a model without layers is one layer."""
    return list(names)[-1].rpartition(".")[0]


def in_layer(name: str, layer: str) -> bool:
    return layer == "" or name == layer or name.startswith(layer + ".")
