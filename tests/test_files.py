import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from atoll.errors import AtollError
from atoll.files import (
    PRIVATE,
    folder_whole,
    held,
    write_bytes,
    write_json,
    write_text,
    write_toml,
    written_whole,
)


def test_the_target_appears_only_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "new" / "file"
    with written_whole(target) as part:
        part.write_text("all of it")
        assert not target.exists()
    assert target.read_text() == "all of it"
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("problem", [ValueError, KeyboardInterrupt])
def test_an_interruption_leaves_what_was_there(
    tmp_path: Path, problem: type[BaseException]
) -> None:
    target = tmp_path / "file"
    target.write_text("old")

    def write_half() -> None:
        with written_whole(target) as part:
            part.write_text("half of the n")
            raise problem

    with pytest.raises(problem):
        write_half()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_disk_that_fails_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "file"
    target.write_text("old")

    def fail(_: int) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="the disk is full"):
        write_text(target, "new")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What was synced, in order: its name at that moment and its inode."""
    seen: list[tuple[str, int]] = []
    fsync = os.fsync

    def watched(opened: int) -> None:
        seen.append((os.readlink(f"/proc/self/fd/{opened}"), os.fstat(opened).st_ino))
        fsync(opened)

    monkeypatch.setattr(os, "fsync", watched)
    return seen


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs Linux's list of open files")
def test_the_file_is_synced_before_it_takes_its_name_and_the_folder_after(
    tmp_path: Path, synced: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "file"
    before_the_name: list[int] = []
    replace = Path.replace

    def watched(part: Path, to: Path) -> Path:
        before_the_name.append(len(synced))
        return replace(part, to)

    monkeypatch.setattr(Path, "replace", watched)
    write_bytes(target, b"content")
    assert before_the_name == [1]
    assert [inode for _, inode in synced] == [target.stat().st_ino, tmp_path.stat().st_ino]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs Linux's list of open files")
def test_new_folders_are_synced_into_those_that_hold_them(
    tmp_path: Path, synced: list[tuple[str, int]]
) -> None:
    write_bytes(tmp_path / "a" / "b" / "file", b"")
    names = [name for name, _ in synced]
    assert names[:2] == [str(tmp_path), str(tmp_path / "a")]
    assert names[-1] == str(tmp_path / "a" / "b")


def test_a_mode_is_given_before_anything_is_written(tmp_path: Path) -> None:
    target = tmp_path / "secret"
    target.write_text("readable by all")
    with written_whole(target, PRIVATE) as part:
        assert stat.S_IMODE(part.stat().st_mode) == 0o600
        assert part.stat().st_size == 0
        part.write_bytes(b"secret")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert target.read_bytes() == b"secret"


def test_each_format_is_read_back(tmp_path: Path) -> None:
    import tomllib

    value = {"a": [1, 2], "b": "ü"}
    write_text(tmp_path / "text", "ü\n")
    write_json(tmp_path / "json", value)
    write_toml(tmp_path / "toml", value)
    assert (tmp_path / "text").read_text(encoding="utf-8") == "ü\n"
    assert json.loads((tmp_path / "json").read_text()) == value
    assert tomllib.loads((tmp_path / "toml").read_text(encoding="utf-8")) == value


def test_a_folder_appears_filled_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "kit"

    def fill(problem: type[BaseException] | None) -> None:
        with folder_whole(target) as part:
            assert stat.S_IMODE(part.stat().st_mode) == 0o700
            write_text(part / "inner" / "key", "secret")
            assert not target.exists()
            if problem is not None:
                raise problem

    with pytest.raises(KeyboardInterrupt):
        fill(KeyboardInterrupt)
    assert not list(tmp_path.iterdir())
    fill(None)
    assert (target / "inner" / "key").read_text() == "secret"
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_is_held_by_one_process_at_a_time(tmp_path):
    hold = "import sys, time; from pathlib import Path; from atoll.files import held\n"
    hold += f"with held(Path({str(tmp_path / 'run')!r})):\n    print('holds', flush=True)\n"
    hold += "    time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"holds\n"
        with pytest.raises(AtollError, match="another process is at work"), held(tmp_path / "run"):
            pass
        other.kill()
    # Its holder was killed, and the folder is free.
    with held(tmp_path / "run", seconds=5.0):
        assert (tmp_path / "run").is_dir()
