"""One mixture of clients per latent factor."""

from dataclasses import field

import torch

from atoll.errors import AtollError
from atoll.federation.calls import Reply, client_step
from atoll.federation.protocol import Federation
from atoll.federation.tables import updated
from atoll.methods.base import PRIVATE, Info, Method, register
from atoll.methods.client import Client, joined_trees
from atoll.methods.fed_iih.elbo import DEVIATION, negative_elbo
from atoll.methods.fed_iih.latent import encoded, mixed_by_factor, weights
from atoll.models.base import Model
from atoll.models.disen import Disen
from atoll.ops.ragged import segment_mean
from atoll.options import option
from atoll.tree import Kinds, Params, replicated


@register("fed-iih")
class FedIIH(Method):
    """Clients mix each latent factor with those alike in it (FedIIH, Yu et al., AAAI 2025).

    **Client**. Trains a disentangled GNN (:class:`atoll.models.disen.Disen`: K ``factors``) on the
    task's loss. Further convolutions (``encoder_layers``) of its hidden layer give every node a
    mean and a log-variance per factor; the means of both over its nodes, ``mu_ik`` and ``nu_ik``,
    are sent with the model. **Server**. For every factor k

        ``alpha_k,ij ~ exp(tau (1 - JS_k,ij / ln 2))``, rows summing to one,

    with ``JS_k,ij`` the divergence of ``N(mu_ik, exp nu_ik)`` and ``N(mu_jk, exp nu_jk)`` from the
    Gaussian halfway between (:func:`atoll.methods.fed_iih.latent.divergences`; it is not bounded by
    ln 2, so similarities may be negative). Slice k of W, b and of the classifier's weights is
    mixed by ``alpha_k``, the classifier's bias uniformly.

    **Text and released code.** In the text mean and variance are inferred by maximising a
    hierarchical evidence bound. In the code that loss is computed and trains nothing: its
    optimizer holds two vectors (a client's prior means) that nothing else depends on, so encoder
    and mixtures are those of the task's loss alone. Nor have the encoder's convolutions any
    parameters: mean and log-variance differ by their dropout alone. The published numbers come
    from there, so that is the default, without the idle loss. ``elbo`` above zero is the text:

        ``L + elbo (BCE(A, sigmoid(z z^T)) + sum_k mean KL(q(z_k) || N(m_ik, 1/4)) + mean
        KL(N(m_ik, 1/4) || N(m_k, 1/4)))``

    with z drawn from each node's Gaussian, ``m_ik`` trained by the client and never sent, and the
    common ``m_k = sum_i mu_ik / (K + 1/4)`` sent by the server, of those who answered. The code
    also adds the log-density of ``m_ik`` under N(0, 1), with a sign that drives it to infinity;
    the common mean already has that prior, so it is left out. Pairs ``[n, n]`` are made by blocks.

    The code has one program per number of factors; here it is the model's option.
    """

    paper = ("fed-iih/non-overlapping",)
    private = PRIVATE | {"own_prior"}

    model: Model = field(default_factory=Disen)
    tau: float = option(10.0, at_least=0)
    encoder_layers: int = option(2, at_least=1)
    elbo: float = option(0.0, at_least=0)

    tasks = ("nodes", "links")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.model, Disen):
            raise AtollError(
                f"fed-iih mixes the factors of a disentangled model, which "
                f"'{self.model.registered_name}' has not; set model.name=disen."
            )

    @property
    def disen(self) -> Disen:
        assert isinstance(self.model, Disen)
        return self.model

    def start(self, info: Info, seed: int) -> Kinds:
        apart = torch.eye(info.clients, dtype=info.dtype)
        common = torch.zeros((self.disen.factors, self.disen.hidden), dtype=info.dtype)
        return {
            "model": replicated(self.initial_model(info, seed), info.clients),
            "mixing": {f"factor.{k}": apart.clone() for k in range(self.disen.factors)},
        } | ({"prior": {"mean": common}} if self.elbo else {})

    def join(self, client: Client) -> Kinds:
        w = replicated(self.initial_model(client.cohort, client.rng.seed), client.k)
        if not self.elbo:
            return self.trainable(w)
        shape = (client.k, self.disen.factors, self.disen.hidden)
        own = {"mean": torch.zeros(shape, dtype=client.dtype)}
        return {
            "model": w,
            "own_prior": own,
            "optimizer": self.optimizer.init(joined_trees(w, own)),
        }

    def round(self, fed: Federation, server: Kinds, r: int) -> Kinds:
        one = {name: p[0] for name, p in server["model"].items()}
        factor = one["lin.bias"].new_zeros((self.disen.factors, self.disen.hidden))
        replies = fed.ask(
            "train",
            shared={"prior": server["prior"]} if self.elbo else None,
            each={"model": server["model"]},
            expect={"model": one, "latent": {"mean": factor, "log_var": factor}},
        )
        mu, nu = replies["latent"]["mean"], replies["latent"]["log_var"]
        alpha = weights(mu, nu, self.tau)
        sent = {name: p[replies.rows] for name, p in server["model"].items()}
        server = updated(
            server,
            replies.rows,
            model=mixed_by_factor(alpha, replies["model"], fed.mixed, sent),
            mixing={f"factor.{k}": a for k, a in enumerate(alpha)},
        )
        common = {"prior": {"mean": mu.sum(0) / (len(mu) + DEVIATION**2)}} if self.elbo else {}
        return server | common

    @client_step
    def train(self, client: Client, model: Params, prior: Params | None = None) -> Reply:
        w = client.fit(model) if prior is None else self.fit_with_elbo(client, model, prior)
        with torch.no_grad():
            nodes = encoded(self.disen, w, client.cohort, client.rng, self.encoder_layers)
            mu, nu = (segment_mean(part, client.cohort.batch, client.k) for part in nodes)
        return Reply(model=w, latent={"mean": mu, "log_var": nu})

    def fit_with_elbo(self, client: Client, model: Params, prior: Params) -> Params:
        def objective(w: Params, own: Params) -> torch.Tensor:
            mean, log_var = encoded(self.disen, w, client.cohort, client.rng, self.encoder_layers)
            bound_K = negative_elbo(
                mean, log_var, own["mean"], prior["mean"], client.cohort, client.rng
            )
            return client.loss(w, training=True) + self.elbo * bound_K

        w: Params
        w, own = client.descend(objective, client.owned(model), client.state["own_prior"])
        client.state |= {"model": w, "own_prior": own}
        return w
