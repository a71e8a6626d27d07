"""Where results go: a folder, or object storage with a copy of it here."""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

SEND_EVERY_S = 60.0
"""Work that goes on for long is sent so often."""


class Place:
    """The folder ``out``; or, of a URL such as ``"s3://bucket/sweep"``, a folder here that stands for it.

    What lies under the URL is fetched at once, and :meth:`send` brings there what has changed. A URL needs
    fsspec, and what fsspec needs for its scheme (s3fs, gcsfs, adlfs).

    Attributes
    ----------
    name
        ``out`` as it was given.
    folder
        The folder here.
    """

    def __init__(self, out: str | os.PathLike[str]) -> None:
        """Fetches what is there; raises OSError where that fails, and ValueError without fsspec."""
        self.name = os.fspath(out)
        self._files: Any = None
        self._sent: dict[str, tuple[int, int]] = {}
        self._last = time.monotonic()
        if "://" not in self.name:
            self.folder = Path(out)
            return
        # Here, for few need them, and importing framewire is a third of a short run.
        import shutil
        import tempfile

        try:
            core = import_module("fsspec.core")
        except ImportError:
            raise ValueError(
                f"{self.name}: a URL needs fsspec; pip install fsspec, or give a folder"
            ) from None
        self._files, self._path = core.url_to_fs(self.name)
        # Findings and tables are read from it as long as this process lives.
        self.folder = Path(tempfile.mkdtemp(prefix="framewire-"))
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        if self._files.exists(self._path):
            self._files.get(self._path.rstrip("/") + "/", f"{self.folder}/", recursive=True)
            self._sent = self._found()

    def _found(self) -> dict[str, tuple[int, int]]:
        """The files here, each with its size and the time of its last change."""
        files = [path for path in sorted(self.folder.rglob("*")) if path.is_file()]
        states = ((path.relative_to(self.folder).as_posix(), path.stat()) for path in files)
        return {name: (state.st_size, state.st_mtime_ns) for name, state in states}

    def send(self, *, now: bool = False) -> None:
        """Brings to the URL what changed here, if that was a minute ago or ``now``; nothing of a folder."""
        if self._files is None or not (now or time.monotonic() - self._last >= SEND_EVERY_S):
            return
        found = self._found()
        for name, state in found.items():
            if self._sent.get(name) != state:
                self._files.makedirs(f"{self._path}/{name}".rpartition("/")[0], exist_ok=True)
                self._files.put_file(str(self.folder / name), f"{self._path}/{name}")
        for name in self._sent.keys() - found.keys():
            self._files.rm_file(f"{self._path}/{name}")
        self._sent = found
        self._last = time.monotonic()


@contextmanager
def kept(place: Place) -> Iterator[None]:
    """Work on ``place``: however it ends, what is done is sent; who interrupts it is told how it goes on."""
    try:
        yield
    except KeyboardInterrupt:
        place.send(now=True)
        print(f"stopped; the same call goes on from there ({place.name})", file=sys.stderr)
        raise
    except BaseException:
        # What ended it matters more than what came of the sending.
        with suppress(Exception):
            place.send(now=True)
        raise
    place.send(now=True)
