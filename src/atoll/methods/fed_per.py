"""FedAvg with personal layers."""

from collections.abc import Iterable
from dataclasses import dataclass

from atoll.cohort import Cohort
from atoll.errors import unknown
from atoll.federation.protocol import Federation, Reply, client_step
from atoll.methods.base import Info, Method, initial_model, methods
from atoll.rng import CohortRng
from atoll.tree import Params, Tree, prefixed, spread, under


@methods.register("fed-per")
@dataclass(frozen=True, kw_only=True)
class FedPer(Method):
    """Base layers are averaged, the classifier stays personal (Arivazhagan et al., 2019).

    As FED-PUB's Appendix B.2 runs it: only the base layers are shared, weighted by labelled nodes;
    each client keeps its classification layer. ``personal`` names the layer that stays, as the
    beginning of its parameters' names; by default the model's last one (``classifier`` for
    FED-PUB's GCN, ``conv2`` for the original one). The personal layer never leaves: it is in no
    reply, and the server does not have it. All clients start from the same one, made from the
    public seed.
    """

    personal: str = ""

    def start(self, info: Info, seed: int) -> Tree:
        model = initial_model(self.model, info.features, info.classes, info.dtype, seed)
        return prefixed("model", self.base_of(model))

    def join(self, cohort: Cohort, rng: CohortRng) -> Tree:
        return self.new_client(cohort, rng)

    def round(self, fed: Federation, state: Tree, r: int) -> Tree:
        return fed.sum("train", shared=state, expect=state).mean

    @client_step
    def train(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        own_K = under(state, "model")
        base_K = spread(under(shared, "model"), cohort.k, into=own_K)
        # In the model's own order of names, which is the order the optimizer knows.
        params_K = {name: base_K.get(name, own) for name, own in own_K.items()}
        fitted = self.fit(params_K, cohort, state, rng)
        body = prefixed("model", self.base_of(fitted.params_K))
        return fitted.state, Reply(body, weight=cohort.labelled)

    def base_of(self, params: Params) -> Params:
        """The parameters that are shared."""
        stays = self.personal or last_layer(params)
        if not any(in_layer(name, stays) for name in params):
            raise unknown("layer (method.personal)", stays, {n.rpartition(".")[0] for n in params})
        return {name: p for name, p in params.items() if not in_layer(name, stays)}


def last_layer(names: Iterable[str]) -> str:
    """``classifier`` if ``classifier.bias`` comes last; a model without layers is one layer."""
    return list(names)[-1].rpartition(".")[0]


def in_layer(name: str, layer: str) -> bool:
    return layer == "" or name == layer or name.startswith(layer + ".")
