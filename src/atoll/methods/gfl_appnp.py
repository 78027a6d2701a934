"""Graph federated learning with hidden representation sharing."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.errors import AtollError, NoReplies
from atoll.federation.protocol import Federation, Replies, Reply, client_step
from atoll.methods.base import Info, Method, initial_model, methods
from atoll.models.base import Model
from atoll.models.mlp import MLP, bare_mlp
from atoll.ops.batches import batch_weights, check_batch, training_points
from atoll.ops.compensated import (
    Full,
    Jacobian,
    Structured,
    Sum,
    descend_compensated,
    training_block,
)
from atoll.ops.encoder import encode, mean_of_points, misfits
from atoll.ops.felt_noise import draw_felt, felt_jacobian
from atoll.ops.personalised import Weights, personalised_propagation
from atoll.ops.ragged import segment_mean
from atoll.ops.told_jacobians import Form, blank, mixed, told, told_moments
from atoll.optimizers.base import Optimizer
from atoll.optimizers.sgd import SGD
from atoll.rng import CohortRng
from atoll.tasks.nodes import node_scores
from atoll.tree import Params, Tree, prefixed, take, under


@methods.register("gfl-appnp")
@dataclass(frozen=True, kw_only=True)
class GFLAPPNP(Method):
    """Clients are the nodes of a network and share hidden representations (GFL, Wu et al., 2022).

    Client k predicts a data point x as ``softmax(A~_kk h + C_k)`` with ``h = MLP(x; W)`` and
    ``C_k = sum_{j != k} A~_kj h_j`` (eq. 15a), where ``h_j`` is the mean of what client j's points
    become and ``A~`` (eq. 13b) follows from the network, which the server knows.

    A round is I = ``epochs`` updates of Algorithm 1. **Clients** with training points set
    ``W_k = W`` and perform I times ``W_k <- W_k - eta g_k`` with the compensated gradient
    ``g = (y^ - y)(A~_kk grad h + grad C_k)`` (eq. 15b), where ``C_k`` and ``grad C_k`` stay as
    they were at the round's beginning. The **server** averages the W_k; every client computes its
    ``h_j`` and ``grad h_j`` at the average; the server sends ``C_k`` and ``grad C_k`` back.

    What travels of a Jacobian is not ``classes * (f H + H classes)`` numbers but the ``f H + H``
    that determine them (:mod:`atoll.ops.encoder`), and of those only rows of features the client
    has. No Jacobian is ever formed: clients use vector-Jacobian products.

    ``compensation``: ``exact``; ``noisy`` (V1) adds a standard normal number to every entry of
    ``grad h_j`` before it is sent, in full, since noise has no structure; ``none`` (V2) leaves
    gradients out, so that ``g = (y^ - y) A~_kk grad h``. With ``noise = "felt"`` noise is not added
    where it is sent but drawn as the sums that reach those who train (:mod:`atoll.ops.felt_noise`):
    the same distribution for a thousandth of the numbers, for simulations only.

    Where the text leaves room:

    - Eq. 14 and 15b print ``(y - y^)``, the gradient's opposite; with a minus in the update that
      would climb. Here the loss goes down.
    - Eq. 13b gives ``P^i`` the weight ``(1 - alpha) alpha^i``, against ``alpha (1 - alpha)^i`` in
      APPNP, from which it takes ``alpha = 0.1``. ``weights`` is ``appnp`` by default: only so does
      one update a round equal APPNP, as the paper says; ``printed`` follows the letter.
    - Clients without training points have no loss. They share representations but train nothing,
      and the average is over the others, each counting the same; otherwise a round would do next
      to nothing where one client in ten is labelled.
    - ``h_j`` is the mean over all points of a client, labelled or not.
    - Initial weights are not told. The usual model starts from Glorot's (see the docs).
    - ``batch`` points are drawn anew for each update, without repetition (0: all of them).

    A client of one data point hides it from the other clients but not from the server: a column of
    ``M_j`` is that point. ``noisy`` is the paper's answer.
    """

    tasks: ClassVar[tuple[str, ...]] = ("nodes",)
    needs_labels: ClassVar[bool] = False
    needs_network: ClassVar[bool] = True

    model: Model = field(default_factory=lambda: bare_mlp("glorot"))
    optimizer: Optimizer = field(default_factory=lambda: SGD(lr=0.5))
    epochs: int = 10
    compensation: Form = "exact"
    noise: Literal["sent", "felt"] = "sent"
    alpha: float = 0.1
    hops: int = 10
    weights: Weights = "appnp"
    batch: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        model = self.model
        if not isinstance(model, MLP) or model.bias or model.dropout:
            raise AtollError(
                "gfl-appnp encodes data points by an MLP without biases and dropout; set "
                "model.name=mlp, model.bias=false and model.dropout=0."
            )
        if self.optimizer != SGD(lr=self.optimizer.lr):
            raise AtollError(
                "gfl-appnp updates by plain gradient descent (Algorithm 1); set optimizer.name=sgd "
                "without momentum and weight decay."
            )
        if self.hops < 1 or not 0 <= self.alpha <= 1:
            raise AtollError(
                f"method.hops is {self.hops} and method.alpha {self.alpha}; gfl-appnp needs at "
                f"least one hop and alpha from 0 to 1."
            )
        check_batch(self.batch)
        if self._form != self.compensation:
            reason = "with method.noise=felt clients send what noise should hide; set it to sent"
            object.__setattr__(self, "only_simulated", reason)

    def start(self, info: Info, seed: int) -> Tree:
        if info.network is None:
            raise AtollError("gfl-appnp needs the network of clients; use it with a simulation.")
        mixing = personalised_propagation(info.network, self.alpha, self.hops, self.weights)
        model = initial_model(self.model, info.features, info.classes, info.dtype, seed)
        return prefixed("model", model) | {
            "network/mixing": torch.from_numpy(mixing).to(info.dtype),
            "context/others": torch.zeros(info.clients, info.classes, dtype=info.dtype),
        }

    def join(self, cohort: Cohort, rng: CohortRng) -> Tree:
        """A client keeps what it needs besides the model to predict: ``A~_kk`` and ``C_k``."""
        return {
            "context/own": torch.ones(cohort.k, dtype=cohort.dtype),
            "context/others": torch.zeros(cohort.k, cohort.classes, dtype=cohort.dtype),
        }

    def round(self, fed: Federation, state: Tree, r: int) -> Tree:
        if r == 1:
            state = self._exchange(fed, state)
        model = prefixed("model", under(state, "model"))
        trains = under(state, "trains")["clients"].tolist()
        to = [fed.clients[k] for k in trains]
        each = _context(state, trains) | prefixed("gradient", under(state, "gradient"))
        if self._form != self.compensation:
            return self._exchange(fed, state | self._felt_update(fed, state, model, each, to))
        total = fed.sum("update", shared=model, each=each, to=to, expect=model)
        return self._exchange(fed, state | total.mean)

    @property
    def _form(self) -> Form:
        """How Jacobians travel: without noise where it is only drawn as it is felt."""
        felt = self.compensation == "noisy" and self.noise == "felt"
        return "exact" if felt else self.compensation

    def _felt_update(
        self, fed: Federation, state: Tree, model: Tree, each: Tree, to: list[int]
    ) -> Tree:
        """The averaged model after an update with everybody's noise as those who train feel it."""
        covariance, given = under(state, "noise")["covariance"], under(model, "model")
        noise = draw_felt(covariance, state["reached/numbers"], given, fed.rng("noise"))
        u_T = given["lin2.weight"].new_zeros(len(to), given["lin2.weight"].shape[1])
        expect = model | {"moved/coefficients": u_T[0]}
        replies = fed.ask("update", shared=model, each=each | noise.sent(), to=to, expect=expect)
        answered = [to.index(client) for client in replies.clients]
        u_T[answered] = under(replies.body, "moved")["coefficients"]
        mean = {name: part.mean(0) for name, part in under(replies.body, "model").items()}
        mean["lin1.weight"] -= noise.rest(u_T) / len(answered)
        return prefixed("model", mean)

    def measure(self, fed: Federation, state: Tree) -> Replies:
        everybody = list(range(len(fed.clients)))
        return fed.ask(
            "evaluate",
            shared=prefixed("model", under(state, "model")),
            each=_context(state, everybody),
            expect=self.task.blank_scores(),
        )

    def conclude(self, fed: Federation, state: Tree) -> Replies:
        """``test_accuracy_by_mean``: test points judged by the mean of all of a client's points."""
        replies = fed.ask(
            "judge_by_mean",
            shared=prefixed("model", under(state, "model")),
            each=_context(state, list(range(len(fed.clients)))),
            expect={"metric/test_accuracy_by_mean": torch.zeros((), dtype=torch.float64)},
        )
        untested = (replies.weight == 0).nonzero().flatten().tolist()
        return replies.without({replies.clients[row] for row in untested})

    def _exchange(self, fed: Federation, state: Tree) -> Tree:
        """Collect ``h_j`` and ``grad h_j``; make ``C_k`` for all, ``grad C_k`` for who trains."""
        model = under(state, "model")
        shared = prefixed("model", model)
        expect = {"hidden/mean": model["lin2.weight"].new_zeros(model["lin2.weight"].shape[1])}
        replies = fed.ask("represent", shared=shared, expect=expect | blank(model, self._form))
        replies = self._fitting(fed, replies, model["lin1.weight"].shape[0])
        place = {client: k for k, client in enumerate(fed.clients)}
        answered = torch.tensor([place[client] for client in replies.clients])
        mixing = under(state, "network")["mixing"].clone().fill_diagonal_(0)[:, answered]
        trains, body = answered[replies.weight > 0], replies.body
        return (
            shared
            | prefixed("network", under(state, "network"))
            | {"trains/clients": trains, "context/others": mixing @ under(body, "hidden")["mean"]}
            | prefixed("gradient", mixed(mixing[trains], body, model, self._form))
            | self._felt(mixing[trains].double(), replies)
        )

    def _felt(self, weights: Tensor, replies: Replies) -> Tree:
        """What it takes to draw the noise that those who train feel."""
        if self._form == self.compensation:
            return {}
        rows = (replies.weight > 0).nonzero().flatten().tolist()
        own = take({"reached/numbers": told_moments(replies.body)[0]}, rows)
        return own | {"noise/covariance": weights @ weights.T}

    def _fitting(self, fed: Federation, replies: Replies, features: int) -> Replies:
        """The replies whose moments are of features that exist."""
        if self._form != "exact":
            return replies
        rows = misfits(*told_moments(replies.body), features)
        bad = {replies.clients[row] for row in rows}
        for client in sorted(bad):
            fed.reject("represent", client, "its moments do not fit the features")
        if len(bad) == len(replies.clients):
            raise NoReplies(f"no client's representation could be read in round {fed.round}.")
        return replies.without(bad) if bad else replies

    @client_step
    def represent(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        """``h_j`` and ``grad h_j`` under the averaged model; weight 1 says the client trains."""
        model = under(shared, "model")
        points = encode(model, cohort)
        body: Tree = {"hidden/mean": mean_of_points(points.output, cohort)}
        body |= told(points, cohort, model, self._form, rng)
        return state, Reply(body, weight=(cohort.labelled > 0).double())

    @client_step
    def update(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        """I local updates with the compensated gradient."""
        given, context = under(shared, "model"), under(each, "context")
        params_K, u_K = descend_compensated(
            given,
            training_block(cohort),
            context["own"],
            context["others"],
            self._jacobian(each, given),
            batch_weights(training_points(cohort), self.batch, self.epochs, rng),
            self.optimizer.lr,
        )
        moved: Tree = {} if self._form == self.compensation else {"moved/coefficients": u_K}
        return state, Reply(prefixed("model", params_K) | moved)

    def _jacobian(self, each: Tree, given: Params) -> Jacobian | None:
        """``grad C_k`` as it was sent."""
        gradient = under(each, "gradient")
        if self._form == "none":
            return None
        if self._form == "noisy":
            return Full(gradient["first"], gradient["second"])
        clean = Structured(gradient["moments"], gradient["units"], given["lin2.weight"])
        if self.compensation == "exact":
            return clean
        return Sum(clean, felt_jacobian(each, len(given["lin1.weight"])))

    @client_step
    def evaluate(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        """Score the averaged model with the client's context, which it keeps."""
        context = under(each, "context")
        h = encode(under(shared, "model"), cohort).output
        z = _predicted(h, cohort, context["own"], context["others"])
        kept = {name: part.clone() for name, part in context.items()}
        return state | prefixed("context", kept), Reply(node_scores(z, cohort))

    @client_step
    def judge_by_mean(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        """One prediction a client, ``A~_kk h_k + C_k``, for all its points: it classifies nodes."""
        context = under(each, "context")
        h_K = mean_of_points(encode(under(shared, "model"), cohort).output, cohort)
        guess_K = (context["own"][:, None] * h_K + context["others"]).argmax(1)
        rows = cohort.rows("test")
        client = cohort.batch[rows]
        right_K = segment_mean((guess_K[client] == cohort.y[rows]).double(), client, cohort.k)
        tests_K = torch.bincount(client, minlength=cohort.k).double()
        return state, Reply({"metric/test_accuracy_by_mean": right_K}, weight=tests_K)


def _context(state: Tree, clients: list[int]) -> Tree:
    """``A~_kk`` and ``C_k`` of some clients."""
    own = under(state, "network")["mixing"].diagonal()
    whole: Tree = {"context/own": own, "context/others": under(state, "context")["others"]}
    return take(whole, clients)


def _predicted(h: Tensor, cohort: Cohort, own_K: Tensor, others_K: Tensor) -> Tensor:
    """``A~_kk h + C_k`` for every data point ``[N, c]``: eq. 15a before the softmax."""
    return own_K[cohort.batch, None] * h + others_K[cohort.batch]
