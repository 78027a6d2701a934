"""The noise of all clients' Jacobians as sums over clients, drawn without the rest.

Client j adds a standard normal number to every entry of its Jacobian. What reaches client k is the
sum ``N_k = sum_j A_kj e_j [f, c, H]``: for every entry a normal vector over the T clients who
train, with covariance ``S = A A^T [T, T]`` (A without the clients' own entries), independent of all
other entries. Two things are made of these sums:

- While it descends, client k multiplies ``N_k`` by its own points, which have a few of the f
  features. Only rows of features it has are drawn for it.
- Descent leaves it with coefficients ``u_k [c]`` and moves its W1 by ``-sum_c u_kc N_k``. The
  server averages over k. Of a feature's row in that sum, the part of clients who have the feature
  is drawn; the whole is normal, and so is the rest of it, given what is drawn.

With ``q = S u``, E the clients who have a feature, ``S_EE = L L^T`` and ``N_E = L g``, the whole
row given g has the mean ``sum_c b_c . g_c`` and the variance ``u . q - |b|^2``, where ``b = L^-1
q_E``. This is no approximation: rows and sums have the distribution they have when every entry is
drawn. What concerns W2, ``[c, H, c]`` per client, is small and drawn whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from atoll.device import kept_per_device, of_numpy
from atoll.federation.protocol import Federation
from atoll.leaves import Ragged, Rows
from atoll.methods.gfl_appnp.compensation import AtRows
from atoll.tree import Kinds, Params


class Sharers(NamedTuple):
    """F features that s clients have each.

    ``feature [F]``; ``client [F, s]``; ``row [F, s]`` where these clients' rows stand among all;
    ``root [F, s, s]``, the L of their covariance.
    """

    feature: Tensor
    client: Tensor
    row: Tensor
    root: Tensor


class AggregateNoise(NamedTuple):
    """Noise of one round for T clients.

    ``rows [R, c, H]`` by W1 for the features of each client, end to end, and the ``normal [R, c,
    H]`` they were made of; ``second [T, c, H, c]`` by W2; ``fresh [f, H]`` for what is left.
    """

    sharers: tuple[Sharers, ...]
    covariance: Tensor
    features: Ragged
    normal: Tensor
    rows: Tensor
    second: Tensor
    fresh: Tensor

    def sent(self) -> dict[str, Any]:
        """What the clients who train are sent of it."""
        first = Rows(self.features, Ragged(self.rows, self.features.sizes))
        return {"noise_first": first, "noise_second": self.second}

    def rest(self, u_T: Tensor) -> Tensor:
        """What ``sum_kc u_kc N_k`` is beyond the rows sent: ``[T, c] -> [f, H]``."""
        q_T, dtype = self.covariance @ u_T.double(), self.fresh.dtype
        whole = (u_T * q_T).sum()
        rest = whole.sqrt().to(dtype) * self.fresh
        for of in self.sharers:
            if of.client.shape[1] == len(u_T):  # All of them have it: nothing is left.
                rest[of.feature] = 0
                continue
            b = torch.linalg.solve_triangular(of.root, q_T[of.client], upper=False)
            left = (whole - b.square().sum((1, 2))).clamp(min=0).sqrt().to(dtype)
            known = torch.einsum("fsc,fsch->fh", b.to(dtype), self.normal[of.row])
            known -= torch.einsum("fsc,fsch->fh", u_T[of.client], self.rows[of.row])
            rest[of.feature] = known + left[:, None] * self.fresh[of.feature]
        return rest


def noise_source(
    weights: Tensor, moments: Rows, trains: Tensor, scale: float = 1.0
) -> dict[str, Any]:
    """What the server draws from: S of the T clients who train, and which features each has.

    ``weights [T, m]`` is A; of the m clients whose ``moments`` these are, T ``trains [m]``.
    ``scale`` is the deviation of every client's noise.
    """
    a = scale * weights.double()
    features = moments.at.take(trains.nonzero().flatten().tolist())
    return {"covariance": a @ a.T, "features": features}


def update_with_noise(
    fed: Federation, source: Mapping[str, Any], model: Params, each: Kinds, to: Sequence[int]
) -> Params:
    """The mean of the clients' models after the step ``update``, with the noise of one round.

    Every client's ``gradient`` gets its rows of the noise; what they did not need of it moves the
    mean.
    """
    noise = draw_noise(source, model, fed.rng("noise"))
    u_T = model["lin2.weight"].new_zeros(len(to), model["lin2.weight"].shape[1])
    replies = fed.ask(
        "update",
        shared={"model": model},
        each=each | {"gradient": each["gradient"] | noise.sent()},
        to=to,
        expect={"model": model, "moved": {"coefficients": u_T[0]}},
    )
    answered = torch.isin(torch.tensor(to), torch.tensor(replies.clients))
    u_T[answered] = replies["moved"]["coefficients"]
    mean = {name: part.mean(0) for name, part in replies["model"].items()}
    mean["lin1.weight"] -= noise.rest(u_T) / len(replies.clients)
    return mean


def draw_noise(
    source: Mapping[str, Any], model: Params, rng: np.random.Generator
) -> AggregateNoise:
    """The noise of one round."""
    covariance, features = source["covariance"], source["features"]
    (width, hidden), classes = model["lin1.weight"].shape, model["lin2.weight"].shape[1]
    dtype = "float64" if model["lin1.weight"].dtype == torch.float64 else "float32"

    def normals(*shape: int) -> Tensor:
        return of_numpy(rng.standard_normal(shape, dtype=dtype))  # type: ignore[call-overload]

    normal = normals(len(features.values), classes, hidden)
    where = features.values.cpu().numpy().tobytes(), features.sizes
    sharers = _sharers(covariance.cpu().numpy().tobytes(), *where)
    rows = torch.empty_like(normal)
    for of in sharers:
        parts = of.root.to(normal.dtype) @ normal[of.row].flatten(2)
        rows[of.row] = parts.view(*of.row.shape, classes, hidden)
    root = torch.linalg.cholesky(covariance).to(normal.dtype)
    second = torch.tensordot(root, normals(len(covariance), classes, hidden, classes), dims=1)
    fresh = normals(width, hidden)
    return AggregateNoise(sharers, covariance, features, normal, rows, second, fresh)


def noise_jacobian(sent: Mapping[str, Any], features: int) -> AtRows:
    """The noise as clients were sent it."""
    first: Rows = sent["noise_first"]
    at_K, rows_K = (
        pad_sequence(list(part.blocks()), batch_first=True) for part in (first.at, first.rows)
    )
    return AtRows(features, at_K.long(), rows_K, sent["noise_second"])


# The same in every round, as long as the same clients answer.
@kept_per_device(maxsize=2)
def _sharers(covariance: bytes, at: bytes, sizes: tuple[int, ...]) -> tuple[Sharers, ...]:
    s = np.frombuffer(covariance).reshape(len(sizes), len(sizes))
    feature = np.frombuffer(at, dtype=np.int32)
    client = np.repeat(np.arange(len(sizes)), sizes)
    order = np.argsort(feature, kind="stable")
    features, starts, counts = np.unique(feature[order], return_index=True, return_counts=True)
    found = []
    for count in np.unique(counts):
        chosen = counts == count
        row = order[starts[chosen][:, None] + np.arange(count)]
        among = client[row]
        root = np.linalg.cholesky(s[among[:, :, None], among[:, None, :]])
        parts = (features[chosen].astype(np.int64), among, row, root)
        found.append(Sharers(*map(of_numpy, parts)))
    return tuple(found)
