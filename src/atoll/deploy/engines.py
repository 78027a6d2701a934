"""The engines there are. To add one, write a folder beside ``flare`` and name it here."""

from __future__ import annotations

from atoll.deploy.engine import Engine
from atoll.errors import unknown


def engines() -> dict[str, Engine]:
    """By the name users give them, whether they are installed or not."""
    from atoll.deploy.flare.engine import Flare
    from atoll.deploy.flower.engine import Flower

    return {engine.name: engine for engine in (Flare(), Flower())}


def engine_named(name: str) -> Engine:
    known = engines()
    if name not in known:
        raise unknown("engine", name, known)
    return known[name]
