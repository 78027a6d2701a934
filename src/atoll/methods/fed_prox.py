"""FedAvg with a proximal term."""

from atoll.federation.calls import Replies, Reply, client_step
from atoll.federation.protocol import Federation
from atoll.methods.base import SCALAR, Info, register
from atoll.methods.client import Client
from atoll.methods.layers import PartlyShared
from atoll.methods.proximal import adapted, first_pull, without_effect
from atoll.options import option
from atoll.tree import Kinds, Params


@register("fed-prox")
class FedProx(PartlyShared):
    """FedAvg with a proximal pull towards the last global model (Li et al., 2020).

    Client k minimises ``F_k(w) + mu/2 |w - w_t|^2``; the server averages as FedAvg does. The pull
    is zero at ``w_t``, so with one full-batch local step (``epochs=1``) the method equals FedAvg
    exactly; it needs ``epochs`` of 2 or more to matter, and has 3 by default. Beside the mean loss
    of a GCN, ``mu = 1`` (FED-PUB's choice for its baseline) holds the model all but still.

    ``adaptive`` follows the heuristic of the original paper as Fed-GALA's thesis states it: start
    from ``mu`` (there 1), lower it by 0.1 when the loss has fallen for 5 rounds in a row, raise it
    by 0.1 whenever the loss rises. The loss is the weighted mean of the clients' training losses at
    the model they receive, before they train and without dropout, whose noise alone would raise mu
    for ever; mu does not fall below 0, and a row of 5 is used up by the step it causes. All this is
    our reading: the thesis does not say. Its clients then send one more number, their loss, which
    still reaches the server in the sum only.

    Layers in ``own_layers`` stay with each client, and nothing pulls at them.
    """

    paper = ("fed-pub/table-2",)

    epochs: int = 3
    mu: float = option(0.01, at_least=0)
    adaptive: bool = False

    def start(self, info: Info, seed: int) -> Kinds:
        return super().start(info, seed) | {"prox": first_pull(self.mu)}

    def round(self, fed: Federation, server: Kinds, r: int) -> Kinds:
        prox = server["prox"]
        expect = {"metric": {"loss": SCALAR}} if self.adaptive else {}
        chosen, total = self.train_some(fed, server, expect=expect, prox={"mu": prox["mu"]})
        if self.adaptive:
            prox = adapted(prox, total.mean["metric"]["loss"])
        return {**self.moved(server, self.averaged(fed, total, chosen)), "prox": prox}

    def remarks(self, server: Kinds, concluded: Replies | None) -> list[str]:
        return without_effect(self.mu, self.epochs) + super().remarks(server, concluded)

    @client_step
    def train(self, client: Client, model: Params, prox: Params) -> Reply:
        before = {}
        if self.adaptive:
            whole = {**client.state["model"], **model}
            before = {"metric": {"loss": client.loss(whole).double()}}
        w = client.fit(model, mu=float(prox["mu"][0]))
        return Reply(model=self.public(w), weight=self.weight(client), **before)
