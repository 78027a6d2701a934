"""FedAvg with personal layers."""

from atoll.methods.base import register
from atoll.methods.layers import PartlyShared, last_layer, without_layers
from atoll.tree import Params


@register("fed-per")
class FedPer(PartlyShared):
    """Base layers are averaged, the classifier stays personal (Arivazhagan et al., 2019).

    As FED-PUB's Appendix B.2 runs it: only the base layers are shared, weighted by labelled nodes;
    each client keeps its classification layer. ``personal`` names the layer that stays, as the
    beginning of its parameters' names; by default the model's last one (``classifier`` for
    FED-PUB's GCN, ``conv2`` for the original one). The personal layer never leaves: it is in no
    reply, and the server does not have it. All clients start from the same one, made from the
    public seed. ``own_layers`` are further layers that stay.
    """

    paper = ("fed-pub/table-2",)

    personal: str = ""

    def public(self, params: Params) -> Params:
        """The base layers."""
        base = without_layers(params, [self.personal or last_layer(params)], "method.personal")
        further = [layer for layer in self.own_layers if layer != last_layer(params)]
        return without_layers(base, further)
