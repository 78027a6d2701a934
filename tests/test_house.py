"""The house: every import goes from a room to itself or to one below, as the docs draw it."""

from pathlib import Path

import networkx
import pytest

from house import ROOT, imports, modules, order, room_of

SRC = ROOT / "src" / "atoll"
FLOORS = order(ROOT / "docs" / "architecture.md")


def test_every_room_is_on_the_plan_and_every_room_of_the_plan_exists():
    assert {room_of(module) for module in modules(SRC)} == set(FLOORS)


def upwards(found):
    return [
        f"{importer} imports {imported}"
        for importer, imported in found
        if room_of(importer) != room_of(imported)
        and FLOORS[room_of(importer)] <= FLOORS[room_of(imported)]
    ]


def test_no_room_imports_one_above_or_beside_it():
    assert upwards(imports(SRC)) == []


def test_no_two_modules_need_each_other():
    """Within a room, too. A package that gathers its modules is not needed by them."""
    names = modules(SRC)
    needs = networkx.DiGraph(
        (importer, imported)
        for importer, imported in imports(SRC)
        if not importer.startswith(imported + ".") or names[imported].name != "__init__.py"
    )
    circles = [sorted(c) for c in networkx.strongly_connected_components(needs) if len(c) > 1]
    assert circles == []


@pytest.fixture
def crooked(tmp_path):
    """A package with a lazy import upwards and one for type checking only."""
    for room, text in {
        "tree": "def f():\n    from atoll.cli import main\n    return main\n",
        "cli": "import typing\nif typing.TYPE_CHECKING:\n    import atoll.tree\nmain = 1\n",
        "errors": "X = 'atoll.tree'\n",
    }.items():
        (tmp_path / "atoll" / room).mkdir(parents=True)
        (tmp_path / "atoll" / room / "__init__.py").write_text(text)
    return tmp_path / "atoll"


def test_lazy_imports_and_those_for_types_and_by_name_are_seen(crooked: Path):
    found = imports(crooked)
    assert [tuple(i) for i in found] == [
        ("atoll.cli", "atoll.tree"),
        ("atoll.errors", "atoll.tree"),
        ("atoll.tree", "atoll.cli"),
    ]
    assert upwards(found)[-1] == "atoll.tree imports atoll.cli"
