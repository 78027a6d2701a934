"""How much of a client's features GFL's server recovers from noisy Jacobians (V1).

    python benchmarks/gfl_noise.py [--clients 50]

Deterministic nodes: one data point x per client. The Jacobian of its output by the first layer is
``x_f m_u W2[u, c]``, with m the units that x activates, and the server knows W2. It averages what a
client has sent in R rounds, takes W2 out by least squares, and takes the first left singular
vector of what is left, ``x m^T`` with units weighted by how little noise they have. The table has
the mean over clients of the absolute cosine between that vector and x. The model stands still
meanwhile, as it does late in training.
"""

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

from atoll.data.csbm import DeterministicNodes
from atoll.graph import dense
from atoll.models.mlp import bare_mlp

SCALES = (0.01, 0.1, 1.0, 10.0)
ROUNDS = (1, 10, 300)


def recovered(noisy: np.ndarray, w2: np.ndarray) -> np.ndarray:
    """x up to its length and sign, from a Jacobian ``[c, f, H]`` and W2 ``[H, c]``."""
    # The best estimate of x_f m_u by least squares, times what makes all its noise equal.
    outer = np.einsum("cfu,uc->fu", noisy, w2) / np.linalg.norm(w2, axis=1)
    first: np.ndarray = np.linalg.svd(outer, full_matrices=False)[0][:, 0]
    return first


def cosine(
    x: np.ndarray, w1: np.ndarray, w2: np.ndarray, deviation: float, rng: np.random.Generator
) -> float:
    exact = np.einsum("f,u,uc->cfu", x, x @ w1 > 0, w2)
    found = recovered(exact + deviation * rng.standard_normal(exact.shape), w2)
    return float(abs(found @ x) / np.linalg.norm(x))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--clients", type=int, default=50)
    clients = parser.parse_args().clients
    points = dense(DeterministicNodes().load().x)[:clients].astype(np.float64)
    rng = np.random.default_rng(0)
    model = bare_mlp("glorot").init(points.shape[1], 2, rng)
    w1, w2 = (model[name].double().numpy() for name in ("lin1.weight", "lin2.weight"))
    table = Table("noise_scale", *(f"R = {r}" for r in ROUNDS), title="mean |cos|, by rounds")
    for scale in SCALES:
        row = [np.mean([cosine(x, w1, w2, scale / r**0.5, rng) for x in points]) for r in ROUNDS]
        table.add_row(f"{scale:g}", *(f"{value:.2f}" for value in row))
    Console().print(table)
    by_chance = (2 / np.pi / points.shape[1]) ** 0.5
    Console().print(f"a vector drawn at random has {by_chance:.2f}")


if __name__ == "__main__":
    main()
