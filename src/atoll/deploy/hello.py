"""What a site says of itself before a run, held against what it can be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from atoll.deploy.positive import wrong_words

# No party holds more nodes, features or classes than this.
_MOST = 2**40
_DIGEST = re.compile(r"[0-9a-f]{64}")


def is_count(value: Any) -> bool:
    """Whether something is a number of things; truth values are not."""
    return type(value) is int and 0 <= value <= _MOST


def misstatement(facts: Mapping[str, Any]) -> str:
    """What is wrong with a site's statement, or nothing."""
    for what in ("features", "classes", "nodes", "train"):
        if not is_count(facts.get(what)):
            return f"it does not say how many {what} it has"
    if facts["train"] > facts["nodes"]:
        return f"it says that {facts['train']} of its {facts['nodes']} nodes are for training"
    names = facts.get("names")
    if not isinstance(names, str) or not _DIGEST.fullmatch(names):
        return "it does not say what its features and classes are"
    return wrong_words(facts)
