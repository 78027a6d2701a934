"""Collections of small graphs from TUDataset."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from scipy import sparse

from atoll.data.base import datasets
from atoll.data.download import download, unpack
from atoll.data.published import PublishedDataset
from atoll.data.reading import readable
from atoll.data.tu_files import NEEDED, OPTIONAL, read_collection
from atoll.errors import AtollError
from atoll.graph import SPLITS, Graph, Holding

_ARCHIVES = "https://www.chrsmrrs.com/graphkerneldatasets"
NodeFeatures = Literal["labels", "labels-and-attributes", "degree"]


@dataclass(frozen=True, kw_only=True)
class TUCollection(PublishedDataset):
    """Small graphs with a class each (Morris et al., 2020), in the layout torch_geometric uses.

    ``features`` are the nodes' labels as one-hot rows (``labels``), these beside their published
    attributes (``labels-and-attributes``), or their degrees as one-hot rows (``degree``), which is
    also what nodes without labels get.
    """

    folder: ClassVar[str] = "TUDataset"
    features: NodeFeatures = "labels"

    @property
    def collections(self) -> tuple[str, ...]:
        """The names of the collections that are read."""
        raise NotImplementedError("abstract")

    def files(self) -> tuple[str, ...]:
        """What every collection has, and of the rest what is there."""
        needed = [_file(name, part) for name in self.collections for part in NEEDED]
        rest = [_file(name, part) for name in self.collections for part in OPTIONAL]
        return (*needed, *(file for file in rest if (self.home() / file).is_file()))

    def download(self, missing: Sequence[str]) -> None:
        """Fetch each collection's archive and take its files out; it is kept till then."""
        for name in dict.fromkeys(Path(file).parts[0] for file in missing):
            archive = self.home() / f"{name}.zip"
            if not archive.is_file():
                download(f"{_ARCHIVES}/{archive.name}", archive, self.registered_name)
            with readable(archive, "a TUDataset archive"), zipfile.ZipFile(archive) as packed:
                inside = set(packed.namelist())
                for part in (*NEEDED, *OPTIONAL):
                    member = f"{name}/{name}_{part}.txt"
                    if part in NEEDED or member in inside:
                        unpack(packed, member, self.home() / _file(name, part))
            archive.unlink()

    def read(self, files: Sequence[Path]) -> Graph:
        (name,) = self.collections
        return read_collection(self._folder(name), name, self.registered_name, self.features)

    def _folder(self, name: str) -> Path:
        return self.home() / name / "raw"


def _file(name: str, part: str) -> str:
    return f"{name}/raw/{name}_{part}.txt"


@datasets.register("tu")
@dataclass(frozen=True, kw_only=True)
class AnyCollection(TUCollection):
    """Any collection of TUDataset by its own name there, e.g. ENZYMES: ``collection``."""

    collection: str = "MUTAG"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_name(self.collection, "data.collection")

    @property
    def collections(self) -> tuple[str, ...]:
        return (self.collection,)


@dataclass(frozen=True, kw_only=True)
class OneCollection(TUCollection):
    """A collection under a name of its own."""

    collection: ClassVar[str]

    @property
    def collections(self) -> tuple[str, ...]:
        return (self.collection,)


@datasets.register("tu-mutag")
@dataclass(frozen=True, kw_only=True)
class Mutag(OneCollection):
    """188 nitroaromatic compounds, mutagenic or not; 18 atoms each on average, 7 kinds of atom."""

    collection: ClassVar[str] = "MUTAG"


@datasets.register("tu-bzr")
@dataclass(frozen=True, kw_only=True)
class Bzr(OneCollection):
    """405 ligands of the benzodiazepine receptor, active or not; 36 atoms each on average."""

    collection: ClassVar[str] = "BZR"


@datasets.register("tu-dhfr")
@dataclass(frozen=True, kw_only=True)
class Dhfr(OneCollection):
    """756 inhibitors of dihydrofolate reductase, active or not; 42 atoms each on average."""

    collection: ClassVar[str] = "DHFR"


@datasets.register("tu-nci109")
@dataclass(frozen=True, kw_only=True)
class Nci109(OneCollection):
    """4,127 compounds, active against ovarian cancer cells or not; 30 atoms each on average."""

    collection: ClassVar[str] = "NCI109"


@datasets.register("tu-proteins")
@dataclass(frozen=True, kw_only=True)
class Proteins(OneCollection):
    """1,113 proteins, enzymes or not; 39 structural elements each on average, of 3 kinds."""

    collection: ClassVar[str] = "PROTEINS"


@datasets.register("tu-mix")
@dataclass(frozen=True, kw_only=True)
class Mix(TUCollection):
    """Several collections of TUDataset, each a client with features and classes of its own.

    What a feature or a class means differs from client to client, so only layers that depend on
    neither can be shared (``method.own_layers``). Rows of features are filled up with zeros to the
    widest collection's, and classes are as many as the largest number among the collections; a
    client never sees the classes that it has not.
    """

    names: tuple[str, ...] = field(default=("MUTAG", "BZR", "DHFR", "NCI109", "PROTEINS"))

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.names:
            _check_name(name, "data.names")
        if len(set(self.names)) < max(2, len(self.names)):
            raise AtollError("data.names must be two collections or more, each of them once.")

    @property
    def collections(self) -> tuple[str, ...]:
        return self.names

    def read(self, files: Sequence[Path]) -> Graph:
        graphs = [read_collection(self._folder(n), n, n, self.features) for n in self.names]
        return side_by_side(graphs, self.registered_name)


def side_by_side(graphs: Sequence[Graph], name: str) -> Graph:
    """Collections as one, each a natural holding in a space of its own."""
    width, classes = (max(getattr(g, what) for g in graphs) for what in ("features", "classes"))
    nodes = np.cumsum([0, *(g.nodes for g in graphs)])
    before = np.cumsum([0, *(len(g.first_nodes) for g in graphs)])
    joined: dict[str, Any] = {
        part: np.concatenate([getattr(g, part) for g in graphs]) for part in ("y", *SPLITS)
    }
    x = [sparse.csr_array(g.x) for g in graphs]
    for part in x:
        part.resize((part.shape[0], width))
    return Graph(
        x=sparse.csr_array(sparse.vstack(x, format="csr")),
        edges=np.concatenate([g.edges + n for g, n in zip(graphs, nodes, strict=False)], axis=1),
        classes=classes,
        name=name,
        graph_of=np.concatenate(
            [g.graph_of + b for g, b in zip(graphs, before, strict=False) if g.graph_of is not None]
        ),
        holdings=tuple(
            Holding(g.name, np.arange(n, n + g.nodes), space=g.name)
            for g, n in zip(graphs, nodes, strict=False)
        ),
        ids=np.concatenate([np.char.add(f"{g.name}-", g.ids.astype(str)) for g in graphs]),
        **joined,
    )


def _check_name(name: str, option: str) -> None:
    if not name.replace("_", "").replace("-", "").isalnum():
        raise AtollError(f"{option} is '{name}', which is no name of a collection of TUDataset.")
