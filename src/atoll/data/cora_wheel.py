"""Cora from PyPI, for networks in which nothing else can be reached.

The wheel of graphdatascience 2.2 (Neo4j, Apache-2.0) carries the original Cora as two Parquet
files. Its words and citations are those of Planetoid's Cora; papers stand in another order and
topics under other numbers. ``cora_papers.txt`` names the paper behind each of Planetoid's nodes, so
that both sources give the very same graph, split and all. The list was found by matching words,
topics and neighbours; 25 papers have twins with which they agree in all three, and any order among
twins gives the same graph. None of the wheel's code is run.
"""

from __future__ import annotations

import io
import logging
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np

from atoll.data.download import unpack
from atoll.data.prepare import with_split
from atoll.data.reading import checked_edges, compact, readable
from atoll.errors import AtollError
from atoll.graph import Graph, make_graph, node_mask
from atoll.parquet import read_parquet

log = logging.getLogger("atoll")

PACKAGE = "graphdatascience==2.2"
SHA256 = "1e978c3bf5c2cece4282338d224d1efcffa8681733113d576c2205c4d06f549b"
FILES = ("cora_nodes.parquet", "cora_rels.parquet")
_INSIDE = "graphdatascience/resources/cora"
_SECONDS = 300

# Planetoid's number for each of the wheel's topics.
_TOPIC = np.array([3, 6, 1, 4, 0, 2, 5])


def fetch_cora(folder: Path) -> None:
    """Put the two Parquet files into a folder."""
    with tempfile.TemporaryDirectory(prefix="atoll-") as scratch:
        wheel = _download(Path(scratch))
        content = wheel.read_bytes()
    found = sha256(content).hexdigest()
    if found != SHA256:
        raise AtollError(
            f"cora: '{wheel.name}' has the SHA-256 {found} instead of {SHA256}; it is not the file "
            f"that was checked, so check where your pip downloads from."
        )
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            for file in FILES:
                unpack(packed, f"{_INSIDE}/{file}.gzip", folder / file)
    except OSError as problem:
        raise AtollError(
            f"cora can't be put into '{folder}' ({problem}); make the folder writable."
        ) from problem


def _download(scratch: Path) -> Path:
    """The wheel, by pip in a process of its own: the user's index and proxies are honoured."""
    log.warning("cora: downloading %s from PyPI", PACKAGE)
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check")
    wheels_only = ("--no-deps", "--only-binary=:all:", "--dest", str(scratch), PACKAGE)
    try:
        done = subprocess.run(
            [*pip, *wheels_only], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise _unreachable(str(problem)) from problem
    wheels = list(scratch.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        lines = done.stderr.strip().splitlines()
        raise _unreachable(lines[-1].strip() if lines else f"exit code {done.returncode}")
    return wheels[0]


def _unreachable(reason: str) -> AtollError:
    return AtollError(
        f"cora can't be had from PyPI: pip can't download {PACKAGE} ({reason}); check the "
        f"connection, or put Planetoid's files into a folder and name it in ATOLL_DATA."
    )


def read_cora(files: Sequence[Path], name: str) -> Graph:
    """Planetoid's Cora, node for node, from the two Parquet files."""
    papers = np.array(Path(__file__).with_name("cora_papers.txt").read_text().split(), dtype=int)
    with readable(files[0], "the papers of Cora"):
        table = read_parquet(files[0])
        row = _positions(table["nodeId"].to_numpy(), papers)
        x = compact(table["features"].explode().to_numpy().reshape(table.height, -1))[row]
        labels = _TOPIC[table["subject"].to_numpy()][row]
    with readable(files[1], "the citations of Cora"):
        cited = read_parquet(files[1]).select("sourceNodeId", "targetNodeId").to_numpy()
        edges = checked_edges(_positions(papers, cited.T), len(papers))
        graph = make_graph(x, edges, labels, classes=len(_TOPIC), name=name)
    nodes = np.arange(graph.nodes)
    return with_split(
        graph,
        *(node_mask(part, graph.nodes) for part in (nodes[:140], nodes[140:640], nodes[-1000:])),
    )


def _positions(among: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where each wanted id stands among the ids."""
    order = np.argsort(among)
    at: np.ndarray = order[np.searchsorted(among[order], wanted).clip(max=len(among) - 1)]
    if not (among[at] == wanted).all():
        raise ValueError(f"paper {wanted[among[at] != wanted][0]} is not among the papers")
    return at
