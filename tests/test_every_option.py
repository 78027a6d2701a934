"""Every number that a method, model, task or optimizer takes has bounds, and they are held."""

import pytest

from atoll.methods.base import methods
from atoll.models.base import models
from atoll.optimizers.base import optimizers
from atoll.tasks.base import tasks
from option_bounds import numbers_without_bounds, outside, refused_in_one_sentence

SECTIONS = {"method": methods, "model": models, "task": tasks, "optimizer": optimizers}
COMPONENTS = [(section, name) for section, registry in SECTIONS.items() for name in registry]
BOUNDS = [
    pytest.param(section, name, *case, id=f"{section}-{name}-{case[0]}={case[1]}")
    for section, name in COMPONENTS
    for case in outside(SECTIONS[section][name])
]


@pytest.mark.parametrize(("section", "name"), COMPONENTS)
def test_every_number_has_bounds(section, name):
    assert numbers_without_bounds(SECTIONS[section][name]) == set()


@pytest.mark.parametrize(("section", "name", "option", "value", "text"), BOUNDS)
def test_a_value_beyond_a_bound_is_refused(section, name, option, value, text):
    refused_in_one_sentence(section, SECTIONS[section][name], option, value, text)
