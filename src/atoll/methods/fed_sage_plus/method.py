"""Federated GraphSAGE on subgraphs whose missing neighbours are generated."""

from dataclasses import field

import torch
from torch import Tensor

from atoll.federation.calls import Reply, client_step
from atoll.federation.protocol import Federation
from atoll.graph import entries
from atoll.kernels.sharing import share
from atoll.leaves import Ragged, RaggedLike
from atoll.methods.base import PRIVATE, Info, register
from atoll.methods.client import Client
from atoll.methods.fed_sage_plus.losses import class_loss, cross_loss, degree_loss, feature_loss
from atoll.methods.fed_sage_plus.made import Output
from atoll.methods.fed_sage_plus.mending import Impaired, impair
from atoll.methods.fed_sage_plus.nearest import columns, from_nearest
from atoll.methods.fed_sage_plus.neighbour_generator import NeighbourGenerator
from atoll.methods.fed_sage_plus.on_mended import OnMendedGraphs
from atoll.methods.fed_sage_plus.proposals import (
    Proposal,
    can_exchange,
    chosen_rows,
    coins_of,
    forget,
    keep,
    kept,
    summed_answers,
)
from atoll.models.base import Model
from atoll.models.sage import SAGE
from atoll.optimizers.fit import Penalty
from atoll.options import option
from atoll.rng import server_stream
from atoll.tree import Kinds, Params, replicated


@register("fed-sage-plus")
class FedSagePlus(OnMendedGraphs):
    """FedSage on subgraphs mended with generated neighbours (FedSage+, Zhang et al., 2021).

    **Generators.** Client i hides a share ``hide`` of its nodes and trains a neighbour generator
    (:class:`NeighbourGenerator`) on what is left, to predict how many neighbours each node v has
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
    - At most ``sample`` rows are proposed in an exchange, in equal shares; each client picks its
      own at random, and scales the gradient up to stand for all.
    """

    paper = ("fed-pub/table-2",)

    tasks = ("nodes", "links")

    private = PRIVATE | {"generator", "generator_optimizer", "mended"}

    model: Model = field(default_factory=SAGE)
    hide: float = option(0.1, above=0, below=1, why="it is the share of nodes that are hidden")
    most: int = option(5, at_least=1)
    latent: int = option(128, at_least=1)
    local_steps: int = option(20, at_least=0)
    exchanges: int = option(20, at_least=0)
    sample: int = option(512, at_least=1)
    cross: float = option(1.0, at_least=0)
    degree_weight: float = option(1.0, at_least=0)
    feature_weight: float = option(1.0, at_least=0)
    class_weight: float = option(1.0, at_least=0)

    @property
    def generator(self) -> NeighbourGenerator:
        return NeighbourGenerator(self.latent, self.most)

    def start(self, info: Info, seed: int) -> Kinds:
        row = torch.zeros(info.features, dtype=info.dtype)
        return super().start(info, seed) | {"mending": {"row": row, "done": torch.tensor(False)}}

    def join(self, client: Client) -> Kinds:
        cohort, coins = client.cohort, server_stream(client.rng.seed, 0, "initial generator")
        generator = self.generator.init(cohort.features, cohort.classes, coins)
        params_K = replicated({name: p.to(client.dtype) for name, p in generator.items()}, client.k)
        return super().join(client) | {
            "generator": params_K,
            "generator_optimizer": self.optimizer.init(params_K),
        }

    def round(self, fed: Federation, server: Kinds, r: int) -> Kinds:
        row, done = server["mending"]["row"], server["mending"]["done"]
        if not bool(done):
            self.train_generators(fed, row)
            server = {**server, "mending": {"row": row, "done": torch.tensor(True)}}
        return super().round(fed, server, r)

    def train_generators(self, fed: Federation, row: Tensor) -> None:
        """Have every client train its generator and mend its graph."""
        if self.local_steps:
            fed.ask("learn_alone", expect={})
        if self.exchanges and can_exchange(fed):
            for number in range(self.exchanges):
                self.exchange(fed, row, number)
        fed.ask("mend", expect={})

    def exchange(self, fed: Federation, row: Tensor, number: int) -> None:
        """Clients propose rows, all answer with gradients, and each learns from their sum."""
        quota = max(1, self.sample // len(fed.clients))
        turn = {"turn": {"number": torch.tensor(number), "quota": torch.tensor(quota)}}
        expect = {"rows": {"made": RaggedLike(row, at_most=quota)}}
        proposals = fed.ask("propose", shared=turn, expect=expect)
        answers = {"gradient": {"made": summed_answers(fed, proposals)}}
        fed.ask("learn", shared=turn, each=answers, to=proposals.clients, expect={})

    @client_step
    def learn_alone(self, client: Client) -> Reply:
        """Train the generator on the client's own hidden nodes."""
        impaired = impair(client.cohort, self.hide, client.rng)

        def loss(p: Params) -> Tensor:
            output = self.generator.generate(p, impaired.cohort, client.rng)
            return self.own_loss(p, output, impaired)

        return self.improve(client, loss, self.local_steps)

    @client_step
    def propose(self, client: Client, turn: Params) -> Reply:
        """Some generated rows, for the others to compare with their nodes."""
        made, chosen = proposal = self.proposal(client, turn)
        keep(proposal, client, turn)
        rows = made.output.generated.rows.detach()
        return Reply(rows={"made": Ragged(rows[chosen.values], chosen.sizes)})

    @client_step
    def compare(self, client: Client, rows: Params) -> Reply:
        """The gradient of ``min_u |x - x_u|^2`` for every row x that is another client's."""
        made_K = rows["made"]
        gradient_K = made_K.new_empty(made_K.shape)
        # What was sent to all alike is turned over once.
        column_K = columns(made_K[:1] if made_K.stride(0) == 0 else made_K).expand(client.k, -1, -1)
        graphs = client.cohort.graphs

        def some(first: int, last: int) -> None:
            for i in range(first, last):
                from_nearest(graphs[i], made_K[i], column_K[i], out=gradient_K[i])
                begin, end = rows["own"][i]
                gradient_K[i, begin:end] = 0

        share(some, client.k, 2.0 * sum(entries(g.x) for g in graphs) * made_K.shape[1])
        return Reply(gradient={"made": gradient_K})

    @client_step
    def learn(self, client: Client, turn: Params, gradient: dict[str, Ragged]) -> Reply:
        """One step of the generator, with the others' answers to its proposal."""
        impaired = impair(client.cohort, self.hide, client.rng)
        made, chosen = kept(client, turn) or self.proposal(client, turn)

        def loss(p: Params) -> Tensor:
            output = made.by(p)
            cross_K = cross_loss(output, impaired, chosen, gradient["made"])
            return self.own_loss(p, output, impaired) + self.feature_weight * self.cross * cross_K

        return self.improve(client, loss, 1)

    def proposal(self, client: Client, turn: Params) -> Proposal:
        """What the generators make in an exchange, and which of the rows are proposed."""
        impaired, coins = impair(client.cohort, self.hide, client.rng), coins_of(turn, client.rng)
        made = self.generator.made(client.state["generator"], impaired.cohort, coins)
        return Proposal(made, chosen_rows(made.output.generated.sizes, turn, coins))

    def own_loss(self, p: Params, output: Output, impaired: Impaired) -> Tensor:
        """The terms of ``L_i`` that need nobody else ``[K]``."""
        train = impaired.cohort.targets("train")
        logits = self.generator.classify(p, impaired, output.generated, train)
        return (
            self.degree_weight * degree_loss(output, impaired)
            + self.feature_weight * feature_loss(output, impaired)
            + self.class_weight * class_loss(logits, impaired.cohort)
        )

    def improve(self, client: Client, loss: Penalty, steps: int) -> Reply:
        p = client.state["generator"]
        p = client.descend(loss, p, epochs=steps, optimizer="generator_optimizer", keep=True)
        client.state["generator"] = p
        return Reply()

    @client_step
    def mend(self, client: Client) -> Reply:
        """Generate the neighbours that the whole subgraph misses."""
        forget(client.cohort)  # of a proposal that nobody answered
        cohort, p = client.cohort, client.state["generator"]
        with torch.no_grad():
            made = self.generator.generate(p, cohort, client.rng, training=False).generated
        counts = torch.bincount(made.owner, minlength=sum(cohort.sizes))
        rows = Ragged(made.rows, made.sizes)
        client.state["mended"] = {"counts": Ragged(counts, cohort.sizes), "rows": rows}
        return Reply()
