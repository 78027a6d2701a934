"""Downloads: over verified connections, whole or not at all."""

from __future__ import annotations

import logging
import shutil
import zipfile
from http.client import HTTPException
from pathlib import Path
from urllib.request import Request, urlopen

from atoll.errors import AtollError
from atoll.files import written_whole

log = logging.getLogger("atoll")
_SECONDS_OF_SILENCE = 60


def download(address: str, target: Path, dataset: str) -> None:
    """Fetch one file.

    torch_geometric's own download accepts any certificate and writes straight to the target; a
    server that closes early then leaves a half file that looks complete ever after.
    """
    log.warning("%s: downloading %s", dataset, target.name)
    try:
        with written_whole(target) as part, part.open("xb") as file:
            request = Request(address, headers={"User-Agent": "atoll"})
            with urlopen(request, timeout=_SECONDS_OF_SILENCE) as response:
                shutil.copyfileobj(response, file, 1 << 20)
                promised = response.headers.get("Content-Length")
            if promised is not None and file.tell() != int(promised):
                raise OSError(f"{file.tell()} of {promised} bytes arrived")
    except (OSError, HTTPException, ValueError) as problem:
        raise AtollError(
            f"{dataset} can't be downloaded: {address} failed ({problem}); check the connection, "
            f"or put the files into a folder and name it in ATOLL_DATA."
        ) from problem


def unpack(archive: zipfile.ZipFile, member: str, target: Path) -> None:
    """Put one member of an archive in its place."""
    with (
        archive.open(member) as content,
        written_whole(target) as part,
        part.open("xb") as file,
    ):
        shutil.copyfileobj(content, file, 1 << 20)
