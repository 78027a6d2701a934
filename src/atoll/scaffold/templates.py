"""What ``atoll new`` writes. The tests of this room check every template as a user would get it."""

from __future__ import annotations

from typing import NamedTuple


class Template(NamedTuple):
    """The text of a component and of its test, and two commands to try it with."""

    code: str
    test: str
    tries: tuple[str, str]


_METHOD = '''"""@NAME@: FedAvg with momentum at the server. Change it into your method."""

from atoll.methods import Federation, GlobalModel, Info, option, register
from atoll.tree import Kinds


@register("@NAME@")
class @CLASS@(GlobalModel):
    """FedAvg with momentum at the server.

    With the mean ``m`` of the clients' models: ``v = momentum v + m - w``, then ``w = w + v``.
    """

    momentum: float = option(0.5, at_least=0, below=1)

    def start(self, info: Info, seed: int) -> Kinds:
        first = super().start(info, seed)
        return {**first, "velocity": {name: 0 * w for name, w in first["model"].items()}}

    def round(self, fed: Federation, server: Kinds, r: int) -> Kinds:
        chosen, total = self.train_some(fed, server)
        mean, old = self.averaged(fed, total, chosen), server["model"]
        v = {n: self.momentum * server["velocity"][n] + mean[n] - w for n, w in old.items()}
        return {"model": {n: w + v[n] for n, w in old.items()}, "velocity": v}
'''

_METHOD_TEST = '''"""@NAME@ keeps the laws that all methods keep."""

from pathlib import Path

from atoll.laws import check_laws, subject_of

ADDRESS = f"{Path(__file__).with_name('@MODULE@.py')}:@CLASS@"


def test_the_laws_hold() -> None:
    broken = [f"{f.law.name}: {f.broken}" for f in check_laws(subject_of(ADDRESS)) if f.broken]
    assert broken == []
'''

_MODEL = '''"""@NAME@: a model of PyTorch Geometric layers. Change it into yours."""

import torch
from torch import Tensor, nn
from torch_geometric.nn import BatchNorm, SAGEConv


class @CLASS@(nn.Module):
    """Two GraphSAGE layers with batch norm, whose statistics are each client's own."""

    def __init__(self, features: int, classes: int, hidden: int = 32) -> None:
        super().__init__()
        self.conv1 = SAGEConv(features, hidden)
        self.norm = BatchNorm(hidden)
        self.dropout = nn.Dropout(0.5)
        self.conv2 = SAGEConv(hidden, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = torch.relu(self.norm(self.conv1(x, edge_index)))
        scores: Tensor = self.conv2(self.dropout(h), edge_index)
        return scores
'''

_RUN_TEST = '''"""@NAME@ runs, and the same seed gives the same result."""

from pathlib import Path

import atoll

ADDRESS = f"{Path(__file__).with_name('@MODULE@.py')}:@CLASS@"


def test_it_runs_and_repeats(tmp_path: Path) -> None:
    one, other = (
        atoll.run(
            method="fed-avg",
            data="patients",
            @PART@=ADDRESS,@CLIENTS@
            rounds=3,
            out=tmp_path / str(number),
        )
        for number in range(2)
    )
    assert one.test_accuracy == other.test_accuracy > 0.5
'''


def _run_test(part: str) -> str:
    clients = "" if part == "data" else "\n            clients=3,"
    text = _RUN_TEST.replace("@PART@", part).replace("@CLIENTS@", clients)
    return text.replace('            data="patients",\n', "") if part == "data" else text


_PARTITION = '''"""@NAME@: nodes dealt out in turn. Change it into your partition."""

from dataclasses import dataclass

import numpy as np

from atoll.graph import Graph
from atoll.partition.base import Partition, by_owner, partitions


@partitions.register("@NAME@")
@dataclass(frozen=True, kw_only=True)
class @CLASS@(Partition):
    """Node i goes to client i modulo the number of clients, from a random start."""

    def _cut(self, graph: Graph, rng: np.random.Generator) -> list[Graph]:
        start = int(rng.integers(self.clients))
        return by_owner(graph, (np.arange(graph.nodes) + start) % self.clients, self.clients)
'''

_DATA = '''"""@NAME@: a graph made here. Change it into your dataset."""

from dataclasses import dataclass

import numpy as np

from atoll.data.base import Dataset, datasets
from atoll.graph import Graph, make_graph
from atoll.options import option


@datasets.register("@NAME@")
@dataclass(frozen=True, kw_only=True)
class @CLASS@(Dataset):
    """Two communities of points; links are mostly inside."""

    nodes: int = option(400, at_least=100)

    def load(self) -> Graph:
        rng = np.random.default_rng(0)
        y = np.arange(self.nodes) % 2
        x = rng.normal(size=(self.nodes, 8)) + 2.0 * y[:, None]
        ends = rng.integers(0, self.nodes, (2, 10 * self.nodes))
        inside = y[ends[0]] == y[ends[1]]
        kept = ends[:, inside | (rng.random(ends.shape[1]) < 0.1)]
        edges = kept[:, kept[0] != kept[1]]
        return make_graph(x.astype(np.float32), edges, y, classes=2, name="@NAME@")
'''

_TASK = '''"""@NAME@: classification with a smoother loss. Change it into your task."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from atoll.cohort import Cohort
from atoll.models.base import Model
from atoll.options import option
from atoll.rng import CohortRng
from atoll.tasks.base import tasks
from atoll.tasks.nodes import NodeClassification


@tasks.register("@NAME@")
@dataclass(frozen=True, kw_only=True)
class @CLASS@(NodeClassification):
    """Cross-entropy plus ``pull`` times the mean square of each client's parameters."""

    pull: float = option(0.001, at_least=0)

    def loss(
        self,
        model: Model,
        params_K: Mapping[str, Tensor],
        cohort: Cohort,
        rng: CohortRng | None = None,
    ) -> Tensor:
        plain = super().loss(model, params_K, cohort, rng)
        squares = [p.square().flatten(1).mean(1) for p in params_K.values()]
        return plain + self.pull * sum(squares[1:], squares[0])
'''


def _tries(part: str) -> tuple[str, str]:
    address = "./@MODULE@.py:@CLASS@"
    run = f"atoll run --{part} {address} --rounds 20"
    if part == "method":
        return run, f"atoll laws {address}"
    kinds = {"data": "datasets", "partition": "partitions", "task": "tasks"}
    if part == "model":
        return run, f"atoll run --model {address} --method fed-avg --data patients --rounds 20"
    return run, f"atoll list {kinds[part]} {address}"


TEMPLATES = {
    part: Template(code, test, _tries(part))
    for part, code, test in (
        ("method", _METHOD, _METHOD_TEST),
        ("model", _MODEL, _run_test("model")),
        ("partition", _PARTITION, _run_test("partition")),
        ("data", _DATA, _run_test("data")),
        ("task", _TASK, _run_test("task")),
    )
}
