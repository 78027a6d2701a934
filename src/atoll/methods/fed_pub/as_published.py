"""What FED-PUB's released code does instead of its text."""

from typing import ClassVar

from torch import Tensor

from atoll.cohort import Cohort
from atoll.federation.calls import Replies, Reply, client_step
from atoll.federation.protocol import Federation
from atoll.federation.tables import updated
from atoll.masked import thresholded
from atoll.methods.base import PRIVATE, Info, register
from atoll.methods.client import Client
from atoll.methods.fed_pub.in_one_pass import Penalties
from atoll.methods.fed_pub.method import FedPub
from atoll.models.base import glorot
from atoll.ops.similarity import mixing_weights
from atoll.rng import server_stream
from atoll.tree import Kinds, Params, times


@register("fed-pub-as-published")
class FedPubAsPublished(FedPub):
    """FED-PUB by its authors' released code where that differs from the text (see ``fed-pub``).

    - The two penalties are computed on detached tensors and carry no gradient; ``l1`` and
      ``proximal`` change nothing.
    - ``w_i`` travels whole, and so do the masks, both ways. The server mixes both, but a client
      loads the mixture without its masks and goes on with its own: in effect masks are local, as in
      the text.
    - Similarity is that of the masked models ``w_i * mu_i`` with entries below ``threshold`` at
      zero, as in the text.
    - The proxy's blocks are not connected.
    - The classifier's weight and bias start by Glorot and Bengio (2010), the bias as a row.

    Masks shrink although nothing pulls at them: an entry of the first layer whose word no node of
    the client has gets no gradient but the weight decay's, 1e-6 times one, and Adam makes a full
    step of any gradient that is the same again and again. So the threshold decides how long unseen
    words stay, and the number of steps how many are left.
    """

    paper = ("fed-pub/table-3",)

    private = PRIVATE
    across: ClassVar[float] = 0.0

    def initial_model(self, info: Info | Cohort, seed: int) -> Params:
        params = super().initial_model(info, seed)
        if "classifier.weight" in params:
            rng = server_stream(seed, 0, "initial classifier")
            wide, classes = params["classifier.weight"].shape
            params["classifier.weight"] = glorot(rng, wide, classes).to(info.dtype)
            if "classifier.bias" in params:
                params["classifier.bias"] = glorot(rng, 1, classes)[0].to(info.dtype)
        return params

    def start(self, info: Info, seed: int) -> Kinds:
        server = super().start(info, seed)
        del server["kept"]
        return server | {"published_mask": self.first_mask(server["model"])}

    def round(self, fed: Federation, server: Kinds, r: int) -> Kinds:
        sent = {"model": server["model"], "published_mask": server["published_mask"]}
        one = {kind: {name: p[0] for name, p in sent[kind].items()} for kind in sent}
        replies = fed.ask("train", each=sent, expect=one | self.similarity.like(server))
        w, mu = replies["model"], replies["published_mask"] if self.masks else {}
        theta, _ = thresholded(w, mu, self.threshold)
        S = self.similarity.between(theta, server, replies, fed.seed)
        alpha = mixing_weights(S, self.tau, self.community)
        mixture = {
            kind: fed.mixed(alpha, replies[kind], sent[kind], replies.rows)
            for kind in sent
            if sent[kind]
        }
        return updated(server, replies.rows, similarity={"between": S}, **mixture)

    @client_step
    def train(self, client: Client, model: Params, published_mask: Params) -> Reply:
        """The mixed masks that it is sent are not used."""
        trained = self.trained(client, model)
        sent = self.similarity.sent(client, trained.theta)
        return Reply(model=trained.w, published_mask=trained.mu, **sent)

    def penalties(self, mu: Params) -> Penalties:
        return Penalties(0.0, 0.0)

    def objective(self, client: Client, w: Params, mu: Params, given: Params) -> Tensor:
        return client.loss(times(w, mu), training=True)

    def remarks(self, server: Kinds, concluded: Replies | None) -> list[str]:
        if not super().remarks(server, concluded):
            return []
        return [f"no mask dropped an entry, so every client used its whole model; give it more "
                f"rounds, or raise method.threshold ({self.threshold:g})."]  # fmt: skip
