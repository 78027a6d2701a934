"""Clients whose own optimum is moved to the one of all."""

from atoll.methods.base import register
from atoll.methods.drift import Drifting
from atoll.options import option


@register("fed-dyn")
class FedDyn(Drifting):
    """Dynamic regularisation: local optima agree with the global one (FedDyn, Acar et al., 2021).

    Algorithm 1. Client i minimises ``L_i(theta) - <g_i, theta> + alpha/2 |theta - w|^2`` from the
    server's w, and renews ``g_i <- g_i - alpha (theta_i - w)``; once local training converges,
    g_i is its gradient at theta_i. The server, with ``h <- h - alpha/m sum_S(theta_i - w)`` of m
    clients in all, takes ``w <- mean_S(theta_i) - h / alpha``. Here both are kept without the
    factor: ``h_i = -g_i / alpha`` and ``H = -h / alpha`` are sums of moves, and the objective is
    the same up to a constant, see :class:`atoll.methods.drift.Drifting`.

    Models are all that is sent, and the server needs their sum only. Client and server both keep
    one more model's worth of numbers.

    ``alpha`` is 0.1, 0.01 or 0.001 in the paper. The server adds up all moves so far, and the pulls
    of alpha work against that: as alpha goes to 0, clients train as in FedAvg and the server's is
    momentum without friction, ``w_t = w_(t-1) + D_t + (D_1 + ... + D_t)``, D the mean move. As it
    grows, pulls drown the gradients of the loss.

    Departures and readings:

    - The paper minimises until convergence; here ``epochs`` steps of any optimizer, which gets the
      gradient of the whole objective.
    - All clients count the same, as in the paper (``weights``). Its code divides alpha by the
      client's share of the data instead.
    - Clients are scored with the model they have just trained, or with w (``evaluates``). The
      paper also shows ``mean_S(theta_i)``.
    - A client whose reply is lost has added its move to h_i, and the server has not.
    """

    alpha: float = option(0.01, above=0)
