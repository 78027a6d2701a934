"""A personal model beside the global one, and drawn to it."""

import torch
from torch import Tensor

from atoll.federation.calls import Reply, client_step
from atoll.methods.base import PRIVATE, register
from atoll.methods.client import Client
from atoll.methods.global_model import GlobalModel
from atoll.options import option
from atoll.tree import Kinds, Params

# A difference of fewer units in the last place is one of the order of a sum.
_ROUNDING = 64


@register("ditto")
class Ditto(GlobalModel):
    """Personal models pulled towards the global one (Ditto, Li et al., 2021).

    Algorithm 1. The global model w is FedAvg's. Beside it, client i keeps a personal model v_i,
    which it is scored with, and each round takes ``epochs`` steps on
    ``F_i(v) + pull/2 |v - w_t|^2`` from where v_i was, with w_t as received; the paper's lambda is
    ``pull``. With 0 the personal models are those of ``local``; as it grows they become the global
    model. Personal models and the state of both optimizers never leave; what is sent is what
    FedAvg sends, and the server needs sums only.

    Departures and readings:

    - The global model takes as many local steps as the personal one; the paper lets the two
      numbers differ, its code has them equal.
    - Any optimizer gets the gradient of the whole objective, one per model.
    - The paper chooses lambda from 0.1, 1 and 2 in most experiments, its code may let clients
      choose by validation; here it is one option. Under Adam, whose steps do not shrink with
      gradients, what counts is how the pull compares with the gradient of the loss.
    - A difference between v and w that is within rounding is none. A parameter that nobody trains
      (the weight of a word that no training node sees) is rounded by averaging, and Adam would
      make steps of full length of that.
    - ``evaluates = "global"`` scores the global model instead.
    - Clients that are not chosen leave their personal model as it is.
    """

    private = PRIVATE | {"global_optimizer"}

    pull: float = option(0.01, at_least=0)

    def join(self, client: Client) -> Kinds:
        first = super().join(client)
        return first | {"global_optimizer": self.optimizer.init(first["model"])}

    @client_step
    def train(self, client: Client, model: Params) -> Reply:
        # The personal model first: then its randomness is that of training alone.
        pull = (lambda v: self.pull / 2 * apart(v, model)) if self.pull else None
        client.fit(client.state["model"], penalty=pull)
        w = {name: p.clone() for name, p in model.items()}
        w = client.descend(lambda w: client.loss(w, training=True), w, optimizer="global_optimizer")
        return Reply(model=w, weight=self.weight(client))


def apart(v: Params, w: Params) -> Tensor:
    """Squared distance of two stacked models ``[K]``, where they differ by more than rounding."""
    total = torch.zeros(())
    for name, p in v.items():
        away = p - w[name]
        real = away.detach().abs() > _ROUNDING * torch.finfo(p.dtype).eps * w[name].abs()
        total = total + (away * real).flatten(1).square().sum(1)
    return total
