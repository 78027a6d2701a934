"""The one sentence that a user reads."""

import pytest

from atoll.errors import AtollError


def complaint(act, *arguments, **options) -> str:
    """What is said when something is refused: one line, and a whole sentence."""
    with pytest.raises(AtollError) as problem:
        act(*arguments, **options)
    said = str(problem.value)
    assert "\n" not in said
    assert said.endswith((".", "?"))
    return said
