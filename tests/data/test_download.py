from pathlib import Path
from typing import Any

import pytest

from atoll.data import download as module
from atoll.data.download import download
from atoll.errors import AtollError


def test_a_file_arrives(server: Any, tmp_path: Path) -> None:
    server.content["/x.npz"] = b"12345"
    download(f"{server.url}/x.npz", tmp_path / "raw" / "x.npz", "cora")
    assert (tmp_path / "raw" / "x.npz").read_bytes() == b"12345"


def test_a_connection_that_breaks_leaves_nothing(server: Any, tmp_path: Path) -> None:
    server.content["/x.npz"], server.promised["/x.npz"] = b"12345", 10
    with pytest.raises(AtollError, match=r"^cora can't be downloaded: .* check the connection"):
        download(f"{server.url}/x.npz", tmp_path / "x.npz", "cora")
    assert list(tmp_path.glob("**/*npz*")) == []


def test_an_interrupted_download_leaves_nothing(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(source: Any, target: Any, _: int) -> None:
        target.write(source.read(2))
        raise KeyboardInterrupt

    server.content["/x.npz"] = b"12345"
    monkeypatch.setattr(module.shutil, "copyfileobj", half)
    with pytest.raises(KeyboardInterrupt):
        download(f"{server.url}/x.npz", tmp_path / "x.npz", "cora")
    assert list(tmp_path.glob("**/*npz*")) == []


def test_a_missing_page_is_named(server: Any, tmp_path: Path) -> None:
    with pytest.raises(AtollError, match=r"/none failed \(HTTP Error 404"):
        download(f"{server.url}/none", tmp_path / "none", "cora")


def test_certificates_are_checked(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default context is used, which refuses a server it can't verify."""
    contexts = []
    real = module.urlopen

    def watched(request: Any, **options: Any) -> Any:
        contexts.append(options.get("context"))
        return real(request, **options)

    server.content["/x"] = b"x"
    monkeypatch.setattr(module, "urlopen", watched)
    download(f"{server.url}/x", tmp_path / "x", "cora")
    assert contexts == [None]
