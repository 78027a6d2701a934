"""What a check of two tables has found, problem by problem, and the config it leads to."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from atoll.data.check_columns import Profile


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong (an ``error``) or worth knowing (a ``note``), and how often."""

    severity: Literal["error", "note"]
    text: str
    count: int


@dataclass
class Check:
    """What a check found; ``settings`` are the options of ``--data tables``.

    ``training`` has the sections of a config that say what to train.
    """

    columns: list[Profile] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    training: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def usable(self) -> bool:
        return not any(problem.severity == "error" for problem in self.problems)

    def error(self, text: str, count: int = 1) -> None:
        self.problems.append(Problem("error", text, count))

    def note(self, text: str, count: int = 1) -> None:
        self.problems.append(Problem("note", text, count))

    def summary(self) -> dict[str, Any]:
        """The plain facts, ready for JSON."""
        return {
            "usable": self.usable,
            "columns": [asdict(column) for column in self.columns],
            "problems": [asdict(problem) for problem in self.problems],
            "settings": self.settings,
            "training": self.training,
        }

    def experiment(self) -> dict[str, dict[str, Any]]:
        """The sections of a config file that ``atoll run`` takes as it is."""
        sections = {"data": {"name": "tables", **self.settings}}
        if "owner" in self.settings:
            sections["partition"] = {"name": "natural"}
        if "split" in self.settings:
            sections["split"] = {"kind": "public"}
        return sections | self.training
