"""What FED-PUB's released code does instead of its text."""

from typing import ClassVar

from torch import Tensor

from atoll.federation.protocol import Federation, Reply, client_step
from atoll.federation.tables import updated
from atoll.methods.base import PRIVATE, Info, register
from atoll.methods.client import Client
from atoll.methods.fed_pub.method import FedPub, mixed, times
from atoll.ops.similarity import mixing_weights
from atoll.tree import Kinds, Params


@register("fed-pub-as-published")
class FedPubAsPublished(FedPub):
    """FED-PUB by its authors' released code where that differs from the text (see ``fed-pub``).

    The two penalties carry no gradient, ``w_i`` travels whole, masks are sent and mixed as well,
    and the proxy's blocks are not connected. ``l1`` and ``proximal`` therefore change nothing.
    """

    private = PRIVATE
    across: ClassVar[float] = 0.0

    def start(self, info: Info, seed: int) -> Kinds:
        server = super().start(info, seed)
        del server["kept"]
        return server | {"published_mask": self.first_mask(server["model"])}

    def round(self, fed: Federation, server: Kinds, r: int) -> Kinds:
        sent = {"model": server["model"], "published_mask": server["published_mask"]}
        one = {kind: {name: p[0] for name, p in sent[kind].items()} for kind in sent}
        replies = fed.ask("train", each=sent, expect=one | self.similarity.like(server))
        S = self.similarity.between(replies["model"], server, replies, fed.seed)
        alpha = mixing_weights(S, self.tau, self.community)
        mixture = {kind: mixed(alpha, replies[kind]) for kind in sent}
        return updated(server, replies.rows, similarity={"between": S}, **mixture)

    @client_step
    def train(self, client: Client, model: Params, published_mask: Params) -> Reply:
        w, mu = client.descend(
            lambda w, mu: self.objective(client, w, mu, model),
            {name: p.clone() for name, p in model.items()},
            {name: m.clone() for name, m in published_mask.items()},
        )
        theta, _ = self.used(client, w, mu)
        return Reply(model=w, published_mask=mu, **self.similarity.sent(client, theta))

    def objective(self, client: Client, w: Params, mu: Params, given: Params) -> Tensor:
        return client.loss(times(w, mu), training=True)
