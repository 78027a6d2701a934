"""One file of somebody's code, run as a module from the bytes at hand."""

from __future__ import annotations

import sys
import traceback
from contextvars import ContextVar
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from types import CodeType, ModuleType

from atoll.errors import AtollError

PREFIX = "atoll_plugin_"
_under_way: ContextVar[str] = ContextVar("plug-in under way", default="")


def under_way() -> str:
    """The file that is being loaded, if one is."""
    return _under_way.get()


class OneFile(InspectLoader):
    """Runs the bytes at hand, whatever the file holds by then."""

    def __init__(self, path: Path, source: bytes) -> None:
        self.path, self.source = path, source

    def is_package(self, fullname: str) -> bool:
        return False

    def get_source(self, fullname: str) -> str:
        return self.source.decode()

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.source, str(self.path))


def executed(path: Path, source: bytes, digest: str) -> ModuleType:
    name = f"{PREFIX}{path.stem}_{digest[:12]}"
    spec = ModuleSpec(name, OneFile(path, source), origin=str(path))
    spec.has_location = True
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their annotations up there
    token = _under_way.set(str(path))
    try:
        assert spec.loader is not None
        spec.loader.exec_module(module)
    except BaseException as problem:
        del sys.modules[name]
        if not isinstance(problem, Exception | SystemExit):
            raise
        raise AtollError(f"{_place(path, problem)}; mend it.") from problem
    finally:
        _under_way.reset(token)
    return module


def _place(path: Path, problem: BaseException) -> str:
    """``'mine.py', line 3: what is wrong``, for what went wrong in or below a file."""
    if isinstance(problem, SyntaxError) and problem.filename == str(path):
        return f"'{path}', line {problem.lineno}: {problem.msg}"
    lines = [
        f.lineno for f in traceback.extract_tb(problem.__traceback__) if f.filename == str(path)
    ]
    where = f"'{path}', line {lines[-1]}" if lines else f"'{path}'"
    text = str(problem).split("\n")[0].rstrip(".")
    if isinstance(problem, ModuleNotFoundError):
        return f"{where}: {text} (a plug-in is one file: install what else it imports)"
    return (
        f"{where}: {text}"
        if isinstance(problem, AtollError)
        else (f"{where}: {type(problem).__name__}: {text}")
    )
