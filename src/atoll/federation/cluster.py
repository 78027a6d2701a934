"""A Ray cluster: one of our own on loopback, or one that the user names."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any

from atoll.errors import AtollError

log = logging.getLogger("atoll")
# Nothing is reported to Ray's makers.
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
# The only way to have Ray listen on loopback: it replaces 127.0.0.1 by the host's own address.
_ON_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token"}
_OURS = "_atoll_on_loopback"
_LOOPBACK = ("127.0.0.1", "::1")
# Results depend on these, so hosts have the same.
_ALIKE = ("atoll", "torch", "numpy", "scipy")


class LostWorker(AtollError):
    """A process of the cluster ended before its work did."""


@dataclass(frozen=True)
class Engine:
    """Where the clients of a simulation and the runs of a study are: never part of a result.

    ``address`` is that of a running cluster; without one a cluster of our own is started on this
    machine. ``workers`` is how many processes hold clients (0: as many as the cluster has room
    for).
    """

    name: str = "process"
    address: str = ""
    workers: int = 0

    @property
    def is_ray(self) -> bool:
        return self.name == "ray"


HERE = Engine()


def engine_of(text: str | Engine | None, workers: int = 0) -> Engine:
    """``process``, ``ray`` or ``ray:HOST:PORT`` as an engine."""
    if isinstance(text, Engine):
        return text
    if workers < 0:
        raise AtollError(f"--workers is {workers}; it must be at least 1, or 0 for all there is.")
    name, _, address = (text or "process").partition(":")
    if name not in ("process", "ray"):
        raise AtollError(
            f"unknown engine '{text}'; there is: process, ray, and ray:HOST:PORT for a cluster "
            f"that is running."
        )
    host, _, port = address.rpartition(":")
    if address and (name != "ray" or not host or not port.isdigit()):
        raise AtollError(f"'{text}' names no cluster; write it as ray:HOST:PORT.")
    if name == "process" and workers:
        raise AtollError("--workers is for --engine ray; leave it out, or add the engine.")
    return Engine(name, address, workers)


@contextmanager
def connected(engine: Engine) -> Iterator[Any]:
    """Ray, connected to a cluster; one of our own ends with the context."""
    own = not engine.address
    ray = _loaded(own)
    if ray.is_initialized():  # by whoever calls us: it is theirs
        yield ray
        return
    folder = tempfile.mkdtemp(prefix="atoll-ray-") if own else None
    before = dict(os.environ)
    os.environ.update(_environment(own))
    try:
        with redirect_stdout(sys.stderr):  # Ray tells of lost hosts where results belong
            _connect(ray, engine, folder)
            yield ray
    finally:
        ray.shutdown()
        os.environ.clear()
        os.environ.update(before)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _environment(own: bool) -> dict[str, str]:
    return _QUIET | (_ON_LOOPBACK | {"RAY_AUTH_TOKEN": _token()} if own else {})


@cache
def _token() -> str:
    """What admits to clusters of this process, which Ray reads once."""
    return secrets.token_hex(32)


def _loaded(own: bool) -> Any:
    """Ray, loaded in surroundings of which it reads some then and never again."""
    already = "ray" in sys.modules
    before = dict(os.environ)
    os.environ.update(_environment(own))
    try:
        import ray
    except ImportError:
        raise AtollError("--engine ray needs Ray; pip install 'atoll[ray]'.") from None
    finally:
        os.environ.clear()
        os.environ.update(before)
    if own and not already:
        vars(ray)[_OURS] = True
    if own and not ray.is_initialized() and _OURS not in vars(ray):
        raise AtollError(
            "Ray was loaded before and would let others in; call ray.init() yourself before, name "
            "a cluster as in ray:HOST:PORT, or do without loading it."
        )
    return ray


def _connect(ray: Any, engine: Engine, folder: str | None) -> None:
    address = engine.address
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address:
        try:
            ray.init(address=address, **options)
        except (ConnectionError, RuntimeError, ValueError) as problem:
            said = str(problem).strip().splitlines()[0]
            raise AtollError(
                f"no Ray cluster can be reached at {address} ({said}); start one there with: ray "
                f"start, and this host must be part of it."
            ) from problem
        return
    cpus = max(os.cpu_count() or 1, engine.workers)
    ray.init(address="local", include_dashboard=False, num_cpus=cpus, _temp_dir=folder, **options)
    outside = {n["NodeManagerAddress"] for n in ray.nodes()} - set(_LOOPBACK)
    if outside:
        raise AtollError(
            "Ray would listen beyond this machine; start a cluster yourself and name it: --engine "
            "ray:HOST:PORT."
        )


@contextmanager
def of_cluster() -> Iterator[None]:
    """Errors of the cluster as ours: what a worker raised as it is, the rest as a lost worker."""
    from ray import exceptions as said_by_ray

    try:
        yield
    except said_by_ray.RayTaskError as problem:
        if isinstance(problem.cause, Exception) and not _is_loss(problem.cause):
            raise problem.cause from None
        raise _lost(problem) from problem
    except said_by_ray.RayError as problem:
        raise _lost(problem) from problem


def _is_loss(cause: BaseException) -> bool:
    from ray.exceptions import RayError, RayTaskError

    return isinstance(cause, RayError) and not isinstance(cause, RayTaskError)


def _lost(problem: BaseException) -> LostWorker:
    return LostWorker(f"a process of the Ray cluster ended early ({type(problem).__name__}).")


def versions() -> dict[str, str]:
    """What hosts must have in common."""
    return {name: version(name) for name in _ALIKE}


def refuse_other_versions(found: dict[str, str]) -> None:
    """A host with other versions would compute other numbers."""
    for name, ours in versions().items():
        if found[name] != ours:
            raise AtollError(
                f"a host of the Ray cluster has {name} {found[name]} and this one {ours}; results "
                f"depend on it: install the same on all of them."
            )


def places(ray: Any, cpus: int) -> int:
    """How many processes of so many CPUs the cluster has room for."""
    nodes = (node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"])
    return max(1, sum(int(node // cpus) for node in nodes))
