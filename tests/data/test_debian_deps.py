from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from atoll.data.debian_deps import DebianDeps, by_maintainer
from atoll.errors import AtollError
from atoll.partition.natural import Natural


def write_debian(folder: Path, write_npz: Callable[..., Path], **changed: object) -> None:
    write_npz(
        folder / "DebianDeps/raw/debian_deps.npz",
        **{
            "node_names": np.array(["bash", "coreutils", "dash", "perl", "perl-base"]),
            "silo": np.array([1, 0, 0, 2, 0], dtype=np.int32),
            "silo_names": np.array(["Ann", "Bob"]),
        }
        | changed,
    )


def test_a_maintainer_is_a_holding(data_folder: Path, write_npz: Callable[..., Path]) -> None:
    write_debian(data_folder, write_npz)
    graph = DebianDeps().load()
    assert graph.ids[3] == "perl"
    assert {h.name: h.nodes.tolist() for h in graph.holdings} == {
        "Ann": [1, 2, 4],
        "Bob": [0],
        "maintainer 2": [3],
    }
    (ann,) = Natural(clients=1).cut(graph, np.random.default_rng(0))
    assert ann.ids.tolist() == ["coreutils", "dash", "perl-base"]
    assert ann.edges.T.tolist() == [[0, 1], [1, 0]]


def test_maintainers_shrink_with_the_largest_component(
    data_folder: Path, write_npz: Callable[..., Path]
) -> None:
    write_debian(data_folder, write_npz)
    graph = DebianDeps(largest_component=True).load()
    assert {h.name: h.nodes.tolist() for h in graph.holdings} == {"Ann": [1, 2], "Bob": [0]}


def test_owners_need_not_be_consecutive() -> None:
    holdings = by_maintainer(np.array([7, 0, 7]), ["Ann"])
    assert [(h.name, h.nodes.tolist()) for h in holdings] == [
        ("Ann", [1]),
        ("maintainer 7", [0, 2]),
    ]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [({"silo": None}, "it holds no array 'silo'"), ({"silo": np.array([1])}, "its labels are")],
)
def test_damage_is_named(
    data_folder: Path, write_npz: Callable[..., Path], changed: dict[str, object], reason: str
) -> None:
    write_debian(data_folder, write_npz, **changed)
    with pytest.raises(AtollError, match=f"debian_deps.npz' can't be read as .*{reason}"):
        DebianDeps().load()


@pytest.mark.usefixtures("real_data")
def test_the_five_who_maintain_most() -> None:
    clients = Natural(clients=5).cut(DebianDeps().load(), np.random.default_rng(0))
    assert [(client.name, client.nodes) for client in clients] == [
        ("debian-deps Debian Perl Group", 3968),
        ("debian-deps Debian Haskell Group", 3300),
        ("debian-deps Debian Python Team", 2530),
        ("debian-deps Debian GCC Maintainers", 2309),
        ("debian-deps Debian Go Packaging Team", 2097),
    ]
