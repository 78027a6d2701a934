"""Where an engine on this machine alone keeps its things."""

from __future__ import annotations

from pathlib import Path

SECONDS_TO_LISTEN = 120.0


class OnLoopback:
    """Keys, logs and the sites' states lie under one folder."""

    def __init__(self, home: Path, runs: Path) -> None:
        self.home = home
        self.runs = runs
        self.kits = home / "kits"

    def log(self, who: str) -> Path:
        return self.home / "logs" / f"{who}.log"

    def kit(self, site: str) -> Path:
        return self.kits / f"site-{site}"

    def state(self, site: str) -> Path:
        return self.home / "state" / site
