"""Shared knowledge of structure, features left to each client."""

from dataclasses import field

from atoll.errors import AtollError
from atoll.methods.base import register
from atoll.methods.global_model import GlobalModel
from atoll.models.base import Model
from atoll.models.star_gin import StarGIN
from atoll.tree import Params


@register("fed-star")
class FedStar(GlobalModel):
    """A structure encoder is averaged, what knows features stays (FedStar, Tan et al., 2023).

    Clients whose features mean different things still have graphs alike. Every node gets a
    structure embedding: 16 chances of random walks to return, ``diag((A D^-1)^k)``, and its degree
    as 16 one-hot entries. A structure encoder makes ``s`` of that, a feature encoder of GIN layers
    works on ``[h, s]`` (the model ``star-gin``). Clients train both; the structure encoder's
    parameters alone are sent, and the server takes their mean weighted by labelled examples:
    ``theta_s <- sum_k (n_k / n) theta_s,k``. The server sees the sum only.

    Features and classes may mean something else to each client. What is made of a client's own
    structure, the embeddings, never leaves it.

    ``evaluates`` says which structure encoder a client is scored with, beside its own layers:
    ``local``, the one it has just trained, or ``global``, the new average (as in the released code,
    which reports the last round's test accuracy).

    - A node without neighbours, whose walk can't go anywhere, has chances of 0 to return.
    """

    model: Model = field(default_factory=StarGIN)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.model, StarGIN):
            raise AtollError(
                f"fed-star shares the structure encoder of its model, which "
                f"'{self.model.registered_name}' has not; set model.name=star-gin."
            )

    def public(self, params: Params) -> Params:
        """The structure encoder."""
        return {name: p for name, p in params.items() if name.startswith("structure.")}
