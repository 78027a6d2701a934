"""Federated GraphSAGE on subgraphs whose missing neighbours are generated."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.federation.protocol import Federation, Replies, Reply, client_step
from atoll.federation.validation import log
from atoll.methods.base import GlobalModel, Info, Method, methods, pick
from atoll.models.base import Model
from atoll.models.neighbour_generator import (
    NeighbourGenerator,
    Output,
    along,
    class_loss,
    degree_loss,
    feature_loss,
)
from atoll.models.sage import SAGE
from atoll.ops.mending import Impaired, impair, mend, nearest_node
from atoll.ops.proposals import chosen_rows, own_spans, turn_of
from atoll.optimizers.descent import descend
from atoll.optimizers.fit import Penalty
from atoll.rng import CohortRng, server_stream
from atoll.tree import Params, Ragged, Tree, prefixed, ragged, spread, under

# A gradient from one other client alone would give away the row that it points to.
_FEWEST_CLIENTS = 3


@methods.register("fed-sage-plus")
@dataclass(frozen=True, kw_only=True)
class FedSagePlus(GlobalModel):
    """FedSage on subgraphs mended with generated neighbours (FedSage+, Zhang et al., 2021).

    **Generators.** Client i hides a share ``hide`` of its nodes and trains a neighbour generator
    (:class:`NeighbourGenerator`) on what is left, to foretell how many neighbours each node v has
    lost and what they look like:
    ``L_i = degree_weight L^d + feature_weight (L^f + cross L^x) + class_weight L^c`` with

    - ``L^d = 1/n sum_v smoothL1(n~_v - n_v)``, the number of lost neighbours;
    - ``L^f = 1/n sum_v sum_{p <= n~_v} min_{u hidden, u in N(v)} |x_v^p - x_u|^2``;
    - ``L^x = 1/n sum_v sum_{p <= n~_v} sum_{j != i} min_{u in V_j} |x_v^p - x_u|^2``, the nodes of
      the other clients, who alone can compute it;
    - ``L^c``, the cross-entropy of a classifier on the mended graph.

    First ``local_steps`` without ``L^x``, then ``exchanges`` with it. In an exchange every client
    proposes generated rows (``propose``), every client answers with the gradient of the distance
    to its own nearest node for all of them (``compare``), the server passes on the sum of these
    gradients, and clients take a step (``learn``). No features are sent, and only sums of
    gradients: from one answer ``2 (x - x_u)`` alone, whoever knows x could tell ``x_u``. With
    fewer than three clients there is no sum to hide in, so the exchanges are left out.

    **Classifier.** Then each client applies its generator to its whole subgraph, adds the generated
    neighbours (``mend``), and FedAvg goes on as in ``fed-sage``. All this is done before the first
    round's averaging, so the classifier gets every round. Generated nodes have no label and are
    never scored.

    Where the text leaves room or the authors' code differs:

    - In the paper a client sends its generator and embeddings, and gets the gradient of the
      generator's weights from each of the others; here generated rows are sent, as FED-PUB's
      Appendix B.2 has it, which is smaller. The gradient is the same.
    - The authors' code runs in one process, where all features are at hand. It hides half of the
      validation nodes, truncates ``n~_v``, generates from the impaired graph, compares with random
      neighbourhoods of the others, divides distances by the number of features, pulls unused rows
      to zero, and in the exchanges trains fGen alone. Here, as in the text: any node may be hidden,
      ``n~_v`` is rounded, the whole subgraph is mended, the minimum is over all nodes of the other
      client, distances are squared norms and every part learns. The generator takes ``optimizer``
      like the classifier (their code: Adam with 0.001).
    - fGen draws a noise for each neighbour and decodes each by itself, instead of all ``most`` at
      once from one noise through a layer of 2048 units: far smaller, and what is made does not
      depend on a slot.
    - At most ``sample`` rows go round in an exchange, in equal shares; each client picks its own at
      random, and scales the gradient up to stand for all.
    """

    private: ClassVar[frozenset[str]] = Method.private | {
        "generator",
        "generator-optimizer",
        "mended",
    }

    model: Model = field(default_factory=SAGE)
    hide: float = 0.1
    most: int = 5
    latent: int = 128
    local_steps: int = 20
    exchanges: int = 20
    sample: int = 512
    cross: float = 1.0
    degree_weight: float = 1.0
    feature_weight: float = 1.0
    class_weight: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.hide < 1:
            raise AtollError(
                f"method.hide is {self.hide}; the share of hidden nodes must be between 0 and 1."
            )
        for name in ("most", "latent", "sample"):
            if getattr(self, name) < 1:
                raise AtollError(f"method.{name} is {getattr(self, name)}; it must be at least 1.")
        weights = ("cross", "degree_weight", "feature_weight", "class_weight")
        for name in ("local_steps", "exchanges", *weights):
            if getattr(self, name) < 0:
                raise AtollError(f"method.{name} is {getattr(self, name)}; it can't be negative.")

    @property
    def generator(self) -> NeighbourGenerator:
        return NeighbourGenerator(self.latent, self.most)

    def start(self, info: Info, seed: int) -> Tree:
        row: Tree = {"row/blank": torch.zeros(info.features, dtype=info.dtype)}
        return super().start(info, seed) | row | {"done/mending": torch.tensor(False)}

    def join(self, cohort: Cohort, rng: CohortRng) -> Tree:
        generator = self.generator.init(
            cohort.features, cohort.classes, server_stream(rng.seed, 0, "initial generator")
        )
        params_K = spread({name: p.to(cohort.dtype) for name, p in generator.items()}, cohort.k)
        nothing = torch.zeros(0, cohort.features, dtype=cohort.dtype)
        mending: Tree = {
            "mended/counts": Ragged(
                torch.zeros(sum(cohort.sizes), dtype=torch.int64), cohort.sizes
            ),
            "mended/rows": Ragged(nothing, (0,) * cohort.k),
        }
        return (
            self.new_client(cohort, rng)
            | prefixed("generator", params_K)
            | prefixed("generator-optimizer", self.optimizer.init(params_K))
            | mending
        )

    def round(self, fed: Federation, state: Tree, r: int) -> Tree:
        model = prefixed("model", under(state, "model"))
        blank = under(state, "row")["blank"]
        if not bool(state["done/mending"]):
            self._train_generators(fed, blank)
        total = fed.sum("train", shared=model, to=pick(fed, self.fraction), expect=model)
        return total.mean | {"row/blank": blank, "done/mending": torch.tensor(True)}

    def _train_generators(self, fed: Federation, blank: Tensor) -> None:
        """Train the generators and have every client mend its graph."""
        if self.local_steps:
            fed.ask("learn_alone", expect={})
        if self.exchanges and len(fed.clients) < _FEWEST_CLIENTS:
            log.warning(
                "fed-sage-plus leaves out the exchanges: with %d clients the gradients would give "
                "away single nodes.",
                len(fed.clients),
            )
        else:
            for number in range(self.exchanges):
                self._exchange(fed, blank, number)
        fed.ask("mend", expect={})

    def _exchange(self, fed: Federation, blank: Tensor, number: int) -> None:
        quota = max(1, self.sample // len(fed.clients))
        turn: Tree = {"turn/number": torch.tensor(number), "turn/quota": torch.tensor(quota)}
        one_row = blank.new_zeros(0, len(blank))
        proposals = fed.ask("propose", shared=turn, expect={"rows/made": Ragged(one_row, (0,))})
        proposals = _within(fed, proposals, quota)
        made = ragged(proposals.body, "rows/made")
        gradient = torch.zeros_like(made.values)
        if len(made.values):
            total = fed.sum(
                "compare",
                shared={"rows/made": made.values},
                each={"rows/own": own_spans(fed.clients, proposals.clients, made.sizes)},
                expect={"gradient/made": made.values},
            )
            if total.count >= _FEWEST_CLIENTS:
                gradient = under(total.mean, "gradient")["made"] * total.weight
        fed.ask(
            "learn",
            shared=turn,
            each={"gradient/made": Ragged(gradient, made.sizes)},
            to=proposals.clients,
            expect={},
        )

    @client_step
    def learn_alone(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        """Train the generator on the client's own hidden nodes."""
        impaired = impair(cohort, self.hide, rng)

        def loss(p: Params) -> Tensor:
            output = self.generator.generate(p, impaired.cohort, rng)
            return self._own_loss(p, output, impaired)

        return self._improved(state, loss, self.local_steps), Reply({})

    @client_step
    def propose(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        """Some generated rows, for the others to compare with their nodes."""
        impaired, turn = impair(cohort, self.hide, rng), turn_of(rng, shared)
        with torch.no_grad():
            made = self.generator.generate(
                under(state, "generator"), impaired.cohort, turn
            ).generated
        chosen = chosen_rows(made.sizes, shared, turn)
        return state, Reply({"rows/made": Ragged(made.rows[chosen.values], chosen.sizes)})

    @client_step
    def compare(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        """The gradient of ``min_u |x - x_u|^2`` for every row x that is another client's."""
        rows = under(shared, "rows")["made"]
        gradients = []
        for graph, (first, last) in zip(
            cohort.graphs, under(each, "rows")["own"].tolist(), strict=True
        ):
            gradient = 2 * (rows - nearest_node(graph, rows))
            gradient[first:last] = 0
            gradients.append(gradient)
        return state, Reply({"gradient/made": torch.stack(gradients)})

    @client_step
    def learn(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        """One step of the generator, with what the others said of its proposal."""
        impaired, turn = impair(cohort, self.hide, rng), turn_of(rng, shared)
        gradient = ragged(each, "gradient/made")

        def loss(p: Params) -> Tensor:
            output = self.generator.generate(p, impaired.cohort, turn)
            chosen = chosen_rows(output.generated.sizes, shared, turn)
            cross_K = along(output, impaired, chosen, gradient)
            weight = self.feature_weight * self.cross
            return self._own_loss(p, output, impaired) + weight * cross_K

        return self._improved(state, loss, 1), Reply({})

    @client_step
    def mend(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        """Generate the neighbours that the whole subgraph misses."""
        params_K = under(state, "generator")
        with torch.no_grad():
            made = self.generator.generate(params_K, cohort, rng, training=False).generated
        counts = torch.bincount(made.owner, minlength=sum(cohort.sizes))
        mending: Tree = {
            "mended/counts": Ragged(counts, cohort.sizes),
            "mended/rows": Ragged(made.rows, made.sizes),
        }
        return state | mending, Reply({})

    @client_step
    def train(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        params_K = spread(under(shared, "model"), cohort.k, into=under(state, "model"))
        fitted = self.fit(params_K, _mended(cohort, state), state, rng)
        return state | fitted.state, Reply(
            prefixed("model", fitted.params_K), weight=cohort.labelled
        )

    @client_step
    def evaluate(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        return super().evaluate(_mended(cohort, state), state, shared, each, rng)

    def _own_loss(self, p: Params, output: Output, impaired: Impaired) -> Tensor:
        """The terms that need nobody else ``[K]``."""
        train = impaired.cohort.rows("train")
        logits = self.generator.classify(p, impaired, output.generated, train)
        return (
            self.degree_weight * degree_loss(output, impaired)
            + self.feature_weight * feature_loss(output, impaired)
            + self.class_weight * class_loss(logits, impaired.cohort)
        )

    def _improved(self, state: Tree, loss: Penalty, steps: int) -> Tree:
        params_K, optimizer_K, _ = descend(
            under(state, "generator"),
            loss,
            self.optimizer,
            under(state, "generator-optimizer"),
            steps,
        )
        trained = prefixed("generator", params_K)
        return state | trained | prefixed("generator-optimizer", optimizer_K)


def _mended(cohort: Cohort, state: Tree) -> Cohort:
    return mend(cohort, ragged(state, "mended/counts"), ragged(state, "mended/rows"))


def _within(fed: Federation, proposals: Replies, quota: int) -> Replies:
    """The proposals that keep to the quota."""
    made = ragged(proposals.body, "rows/made")
    greedy = [c for c, n in zip(proposals.clients, made.sizes, strict=True) if n > quota]
    for client in greedy:
        fed.reject("propose", client, f"it proposes more than {quota} rows")
    return proposals.without(greedy) if greedy else proposals
