"""Graph federated learning with hidden representation sharing."""

from dataclasses import field
from typing import Literal

import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.device import of_numpy
from atoll.errors import AtollError
from atoll.federation.calls import Replies, Reply, client_step
from atoll.federation.protocol import Federation
from atoll.methods.base import SCALAR, Info, Method, register
from atoll.methods.client import Client
from atoll.methods.gfl_appnp import any_encoder, jacobians
from atoll.methods.gfl_appnp.aggregate_noise import noise_source, update_with_noise
from atoll.methods.gfl_appnp.batches import batch_weights, training_points
from atoll.methods.gfl_appnp.compensation import check_plain, descend, training_block
from atoll.methods.gfl_appnp.encoder import common, encode, mean_of_points
from atoll.methods.gfl_appnp.personalised import Weights, personalised_propagation
from atoll.methods.gfl_appnp.prediction import context_of, scored
from atoll.models.base import Model
from atoll.models.mlp import bare_mlp
from atoll.optimizers.base import Optimizer
from atoll.optimizers.sgd import SGD
from atoll.options import option
from atoll.tree import Kinds, Params


@register("gfl-appnp")
class GFLAPPNP(Method):
    """Clients are the nodes of a network and share hidden representations (GFL, Wu et al., 2022).

    Client k predicts a data point x as ``softmax(A~_kk h + C_k)`` with ``h = MLP(x; W)`` and
    ``C_k = sum_{j != k} A~_kj h_j`` (eq. 15a), where ``h_j`` is the mean of the MLP's outputs for
    client j's points and ``A~`` (eq. 13b) follows from the network, which the server knows.

    A round is I = ``epochs`` updates of Algorithm 1. **Clients** with training points set
    ``W_k = W`` and perform I times ``W_k <- W_k - eta g_k`` with the compensated gradient
    ``g = (y^ - y)(A~_kk grad h + grad C_k)`` (eq. 15b), where ``C_k`` and ``grad C_k`` stay as
    they were at the round's beginning. The **server** averages the W_k; every client computes its
    ``h_j`` and ``grad h_j`` at the average; the server sends ``C_k`` and ``grad C_k`` back.

    What travels of a Jacobian is not ``classes * (f H + H classes)`` numbers but the ``f H + H``
    that determine them (``encoder.py``), and of those only rows of features the client has. No
    Jacobian is ever formed: clients use vector-Jacobian products (``compensation.py``).

    ``compensation``: ``exact``; ``noisy`` (V1) adds a normal number of deviation ``noise_scale``
    (1 in the paper) to every entry of ``grad h_j`` before it is sent, in full, since noise has no
    structure; ``none`` (V2) leaves gradients out, so that ``g = (y^ - y) A~_kk grad h``. With
    ``noise = "aggregate"`` noise is not added where it is sent but drawn as the sums that reach
    those who train, in simulations only: the same distribution for a thousandth of the numbers
    (``aggregate_noise.py``).
    ``hidden_noise`` is the deviation of normal noise on ``h_j`` itself, which the paper sends as it
    is also in V1; its noise is drawn anew in every round, so that a server which averages over
    rounds sees through it (docs/gfl-appnp.md measures how far).

    The encoder may be any model without dropout. The paper's, an MLP without biases, has Jacobians
    of a simple form; of others every entry travels (``any_encoder.py``), and models that look at
    links see those among a client's own points.

    Where the text leaves room:

    - Eq. 14 and 15b print ``(y - y^)``, the gradient's opposite; with a minus in the update that
      would climb. Here the loss goes down.
    - Eq. 13b gives ``P^i`` the weight ``(1 - alpha) alpha^i``, against ``alpha (1 - alpha)^i`` in
      APPNP, from which it takes ``alpha = 0.1``. ``weights`` is ``appnp`` by default: only so does
      one update per round equal APPNP, as the paper says; ``printed`` follows the letter.
    - Clients without training points have no loss. They share representations but train nothing,
      and the average is over the others, each counting the same; otherwise a round would do next
      to nothing where one client in ten is labelled.
    - ``h_j`` is the mean over all points of a client, labelled or not.
    - Initial weights are not given. The usual model starts from Glorot's (see the docs).
    - ``batch`` points are drawn anew for each update, without repetition (0: all of them).

    A client of one data point hides it from the other clients but not from the server: a column of
    ``M_j`` is that point. ``noisy`` is the paper's answer.
    """

    paper = (
        "gfl-appnp/table-2-subcora",
        "gfl-appnp/table-2-dnc",
        "gfl-appnp/table-2-sc",
        "gfl-appnp/table-2-snc",
    )

    tasks = ("nodes",)
    needs_labels = False
    weighs_classes = False
    needs_network = True

    model: Model = field(default_factory=lambda: bare_mlp("glorot"))
    optimizer: Optimizer = field(default_factory=lambda: SGD(lr=0.5))
    epochs: int = 10
    compensation: jacobians.Form = "exact"
    noise: Literal["sent", "aggregate"] = "sent"
    noise_scale: float = option(1.0, above=0)
    hidden_noise: float = option(0.0, at_least=0)
    alpha: float = option(0.1, at_least=0, at_most=1)
    hops: int = option(10, at_least=1)
    weights: Weights = "appnp"
    batch: int = option(0, at_least=0, why="0 means all of a client's points")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_plain(self.model, self.optimizer)
        if self.aggregate and not self.bare:
            raise AtollError(
                "method.noise=aggregate is written for an MLP without biases; set "
                "method.noise=sent or model.bias=false."
            )

    @property
    def bare(self) -> bool:
        """Whether the encoder is the paper's, whose Jacobians have few numbers."""
        return any_encoder.is_bare(self.model)

    @property
    def aggregate(self) -> bool:
        """Whether noise is drawn as sums, so that clients send exact Jacobians."""
        return self.compensation == "noisy" and self.noise == "aggregate"

    @property
    def only_simulated(self) -> str:
        reason = "with method.noise=aggregate clients send what noise should hide; set it to sent"
        return reason if self.aggregate else ""

    @property
    def form(self) -> jacobians.Form:
        """What travels of a Jacobian."""
        return "exact" if self.aggregate else self.compensation

    def start(self, info: Info, seed: int) -> Kinds:
        if info.network is None:
            raise AtollError("gfl-appnp needs the network of clients; use it with a simulation.")
        A = personalised_propagation(info.network, self.alpha, self.hops, self.weights)
        return {
            "model": self.initial_model(info, seed),
            "network": {"mixing": of_numpy(A).to(info.dtype)},
            "context": {"others": torch.zeros(info.clients, info.classes, dtype=info.dtype)},
        }

    def remarks(self, server: Kinds, concluded: Replies | None) -> list[str]:
        if bool(server["network"]["mixing"].clone().fill_diagonal_(0).any()):
            return []
        return ["no two clients are linked, so nobody learnt from another's representation; use "
                "data whose parts are linked, or another method."]  # fmt: skip

    def join(self, client: Client) -> Kinds:
        """A client keeps what it needs besides the model to predict: ``A~_kk`` and ``C_k``."""
        others = torch.zeros(client.k, client.cohort.classes, dtype=client.dtype)
        return {"context": {"own": torch.ones(client.k, dtype=client.dtype), "others": others}}

    def round(self, fed: Federation, server: Kinds, r: int) -> Kinds:
        if r == 1:
            server = self.exchange(fed, server)
        return self.exchange(fed, server | {"model": self.updated_model(fed, server)})

    def updated_model(self, fed: Federation, server: Kinds) -> Params:
        """The mean of the ``W_k`` of those who train, after I updates."""
        model, rows = {"model": server["model"]}, server["trains"]["rows"]
        to = [fed.clients[k] for k in rows.tolist()]
        each = {"context": context_of(server, rows), "gradient": server["gradient"]}
        if not self.aggregate:
            return fed.sum("update", shared=model, each=each, to=to, expect=model).mean["model"]
        return update_with_noise(fed, server["noise"], server["model"], each, to)

    def exchange(self, fed: Federation, server: Kinds) -> Kinds:
        """Collect ``h_j`` and ``grad h_j``; ``C_k`` for all, ``grad C_k`` for those who train."""
        W = server["model"]
        hidden = {"mean": torch.zeros_like(server["context"]["others"][0])}
        expect = {"hidden": hidden, "jacobian": self.expected_jacobian(W, len(hidden["mean"]))}
        replies = fed.ask("represent", shared={"model": W}, expect=expect, weighted=True)
        A = server["network"]["mixing"].clone().fill_diagonal_(0)[:, replies.rows]
        trains, grad_h = replies.weight > 0, replies["jacobian"]
        rows = replies.rows[trains]
        return {
            "model": W,
            "network": server["network"],
            "trains": {"rows": rows},
            "context": {"others": A @ replies["hidden"]["mean"]},
            "gradient": jacobians.mixed(A[rows], grad_h, W),
            "noise": self.noise_of(A[rows], grad_h, trains),
        }

    def expected_jacobian(self, W: Params, classes: int) -> jacobians.Parts:
        """What one client sends of ``grad h_j``."""
        if self.bare:
            return jacobians.like(W, self.form)
        return {} if self.form == "none" else any_encoder.like(W, classes)

    def noise_of(self, A: Tensor, grad_h: jacobians.Parts, trains: Tensor) -> Params:
        """What the server draws aggregate noise from, if it does."""
        if not self.aggregate:
            return {}
        return noise_source(A, grad_h["moments"], trains, self.noise_scale)

    def sent_to_score(self, server: Kinds) -> dict[str, Kinds]:
        return {"shared": {"model": server["model"]}, "each": {"context": context_of(server)}}

    def conclude(self, fed: Federation, server: Kinds) -> Replies:
        """``test_accuracy_by_mean``: test points judged by the mean of all of a client's points."""
        shared, each = {"model": server["model"]}, {"context": context_of(server)}
        expect = {"metric": {"test_accuracy_by_mean": SCALAR}}
        replies = fed.ask("judge_by_mean", shared=shared, each=each, expect=expect, weighted=True)
        tested = zip(replies.clients, replies.weight.tolist(), strict=True)
        return replies.without({client for client, points in tested if points == 0})

    @client_step
    def represent(self, client: Client, model: Params) -> Reply:
        """``h_j`` and ``grad h_j`` under the averaged model; weight 1 says the client trains."""
        W, cohort = common(model), client.cohort
        if self.bare:
            points = encode(W, cohort)
            mean_K = mean_of_points(points.output, cohort)
            grad_h = jacobians.sent(points, client, W, self.form, self.noise_scale)
        else:
            mean_K, grad_h = any_encoder.mean_jacobian(self.model, W, cohort)
            grad_h = jacobians.in_form(grad_h, self.form, client.rng, self.noise_scale)
        if self.hidden_noise:
            mean_K = jacobians.with_noise(mean_K.clone(), client.rng, self.hidden_noise)
        trains = (cohort.labelled > 0).double()
        return Reply(hidden={"mean": mean_K}, jacobian=grad_h, weight=trains)

    @client_step
    def update(
        self, client: Client, model: Params, context: Params, gradient: jacobians.Parts
    ) -> Reply:
        """I local updates with the compensated gradient."""
        W, cohort = common(model), client.cohort
        weights = batch_weights(training_points(cohort), self.batch, self.epochs, client.rng)
        if not self.bare:
            given = (W, cohort, context, gradient, weights, self.optimizer.lr)
            return Reply(model=any_encoder.descend_by_autograd(self.model, *given))
        grad_C = jacobians.received(gradient, W)
        W_K, u_K = descend(W, training_block(cohort), context, grad_C, weights, self.optimizer.lr)
        return Reply(model=W_K, moved={"coefficients": u_K} if self.aggregate else {})

    def outputs(self, model: Params, cohort: Cohort) -> Tensor:
        """``h`` of every data point ``[N, c]``."""
        if self.bare:
            return encode(common(model), cohort).output
        return any_encoder.outputs(self.model, common(model), cohort)

    @client_step
    def evaluate(self, client: Client, model: Params, context: Params) -> Reply:
        """Score the averaged model with ``A~_kk`` and ``C_k``, which the client keeps."""
        h = self.outputs(model, client.cohort)
        client.state["context"] = {name: part.clone() for name, part in context.items()}
        return Reply(metric=scored(h, context, client.cohort, self.task))

    @client_step
    def judge_by_mean(self, client: Client, model: Params, context: Params) -> Reply:
        """One prediction per client, from ``h_k``, for all its points: it classifies clients."""
        cohort = client.cohort
        h_K = mean_of_points(self.outputs(model, cohort), cohort)
        metric = scored(h_K[cohort.batch], context, cohort, self.task)
        accuracy_K, points_K = metric["accuracy"][:, 2], metric["nodes"][:, 2]
        return Reply(metric={"test_accuracy_by_mean": accuracy_K}, weight=points_K)
