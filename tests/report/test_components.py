"""What ``atoll list`` shows."""

from dataclasses import dataclass, fields

import pytest
from rich.console import Console

from atoll.experiment.config import REGISTRIES
from atoll.options import option
from atoll.registry import Registry
from atoll.report.components import component, component_facts, names_facts, names_table

EVERYTHING = [
    pytest.param(section, name, id=f"{section} {name}")
    for section, (registry, _) in REGISTRIES.items()
    for name in registry
]


def shown(what):
    screen = Console(width=200)
    with screen.capture() as text:
        screen.print(what)
    return [line.rstrip() for line in text.get().splitlines()]


@dataclass
class Shaky:
    """Shakes the weights [a little].

    More about it.
    """

    share: float = option(0.5, above=0, at_most=1)
    sizes: tuple[int, ...] = (1, 2)
    hard: bool = False


def test_a_component_has_a_summary_and_a_line_per_option():
    toys = Registry("toy", "atoll.archive")
    toys._discovered = True
    toys.register("shaky", "s")(Shaky)
    name, summary, also, _, heading, *options, _, hint = shown(component(toys, "s", "model"))
    assert (name, summary) == ("shaky", "Shakes the weights [a little].")
    assert also == "Also called: s."
    assert heading.split() == ["option", "values", "default"]
    assert [line.split(maxsplit=1) for line in options] == [
        ["share", "float, above 0 and at most 1  0.5"],
        ["sizes", "tuple[int, ...]               (1, 2)"],
        ["hard", "bool                          false"],
    ]
    assert hint == "Set with: --set model.OPTION=VALUE"


@pytest.mark.parametrize(("section", "name"), EVERYTHING)
def test_every_component_can_be_shown(section, name):
    registry = REGISTRIES[section][0]
    cls = registry[name]
    lines = shown(component(registry, name, section))
    assert lines[0] == name
    assert lines[1]
    own = {f.name for f in fields(cls)} - {"task", "model", "optimizer"}
    assert own <= {line.split()[0] for line in lines if line}
    if section == "method":
        assert lines[2].startswith("Unless others are chosen: task ")


def test_facts_of_a_component_are_those_that_are_shown():
    registry, _ = REGISTRIES["method"]
    facts = component_facts(registry, "fed-prox", "method")
    assert (facts["name"], facts["section"]) == ("fed-prox", "method")
    assert facts["parts"] == {"task": "nodes", "model": "gcn", "optimizer": "adam"}
    assert {"name": "mu", "values": "float, at least 0", "default": "0.01"} in facts["options"]


def test_short_names_are_shown_beside_the_long_ones():
    datasets, _ = REGISTRIES["data"]
    lines = shown(names_table(names_facts(datasets)))
    assert [line.rsplit(maxsplit=2)[1:] for line in lines if line.startswith("coauthor")] == [
        ["Short:", "cs."],
        ["Short:", "physics."],
    ]
    [photo] = [fact for fact in names_facts(datasets) if fact["name"] == "amazon-photo"]
    assert photo["aliases"] == ["photo"]


def test_a_short_name_stands_for_one_component():
    toys = Registry("toy", "nowhere")
    toys.register("shaky", "s")(Shaky)
    with pytest.raises(ValueError, match="two toys are called 's'"):
        toys.register("steady", "s")(Shaky)


def test_names_have_a_line_each():
    registry, _ = REGISTRIES["optimizer"]
    assert [line.split()[0] for line in shown(names_table(names_facts(registry)))] == list(registry)
