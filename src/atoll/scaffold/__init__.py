"""Files to begin with: a component of one's own and its test, both of which work as they are."""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass
from pathlib import Path

from atoll.errors import AtollError
from atoll.files import write_text
from atoll.scaffold.templates import TEMPLATES


@dataclass(frozen=True)
class Made:
    """The files that were written, and what to try next."""

    file: Path
    test: Path
    next_commands: tuple[str, str, str]


def scaffold(part: str, name: str, folder: Path) -> Made:
    """Write both files into a folder. A file that is there is never overwritten."""
    if not re.fullmatch(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*", name) or keyword.iskeyword(name):
        raise AtollError(
            f"'{name}' can't be a name; use small letters, digits and '-', as in fed-mine."
        )
    module = name.replace("-", "_")
    cls = "".join(word.capitalize() for word in re.split(r"[-_]", name))
    file, test = folder / f"{module}.py", folder / f"test_{module}.py"
    for path in (file, test):
        if path.exists():
            raise AtollError(f"'{path.name}' is there already; choose another name.")
    words = {"NAME": name, "MODULE": module, "CLASS": cls}
    template = TEMPLATES[part]
    write_text(file, _filled(template.code, words))
    write_text(test, _filled(template.test, words))
    tries = tuple(_filled(command, words) for command in template.tries)
    return Made(file, test, (tries[0], tries[1], f"python -m pytest {test.name}"))


def _filled(text: str, words: dict[str, str]) -> str:
    """A template with its words in capitals between @ replaced."""
    return re.sub(r"@([A-Z]+)@", lambda found: words[found[1]], text)
