"""Folders wherever they are: a path of this machine, or any address that fsspec knows (s3://bucket/run, memory://x).

A file appears whole or not at all: on a disk it is written beside its place and renamed; an object store's put does as
much by itself.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.errors import Fault, RunError

_BUCKETS = frozenset({"abfs", "az", "gcs", "gs", "oss", "r2", "s3", "s3a"})
"""Object stores have no folders to make, and a bucket that is not there is a mistake: none is made."""


def is_address(place: Path | str) -> bool:
    """Whether a place is an address rather than a path."""
    return "://" in str(place)


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of plain files."""

    place: str
    """A path, or an address."""

    @classmethod
    def of(cls, place: Path | str) -> Folder:
        """The folder at a path or address; `file://` is a path. Raises `RunError` for an address of nothing."""
        text = str(place)
        if text.startswith("file://"):
            text = text.removeprefix("file://")
        kind, mark, rest = text.partition("://")
        if mark and not rest.strip("/"):
            raise RunError(Fault(f"'{text[:60]}' names no folder", f"write {kind[:20]}://BUCKET/NAME"))
        return cls(text.rstrip("/") or "/")

    @property
    def is_local(self) -> bool:
        return not is_address(self.place)

    def __str__(self) -> str:
        return self.place

    def beside(self, ending: str) -> Folder:
        """The folder of the same name with an ending."""
        return Folder(self.place + ending)

    def names(self) -> list[str]:
        """Names of the files in it, sorted; none where there is no such folder."""
        with _told(self.place, "read"):
            if self.is_local:
                path = Path(self.place)
                return sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []
            fs, root = self._fs()
            if not fs.exists(root):
                return []
            fs.invalidate_cache()
            found = [entry["name"] for entry in fs.ls(root, detail=True) if entry["type"] == "file"]
            return sorted(str(name).rsplit("/", 1)[-1] for name in found)

    def exists(self) -> bool:
        """Whether there is anything at the place."""
        with _told(self.place, "read"):
            if self.is_local:
                return Path(self.place).exists()
            fs, root = self._fs()
            return bool(fs.exists(root))

    def read(self, name: str) -> bytes:
        """A file's content."""
        with _told(f"{self.place}/{name}", "read"):
            if self.is_local:
                return (Path(self.place) / name).read_bytes()
            fs, root = self._fs()
            return bytes(fs.cat_file(f"{root}/{name}"))

    def write(self, name: str, content: bytes) -> None:
        """Put a file, over one that is there."""
        with _told(f"{self.place}/{name}", "write"):
            if not self.is_local:
                fs, root = self._fs()
                if not _BUCKETS.intersection([fs.protocol] if isinstance(fs.protocol, str) else fs.protocol):
                    fs.makedirs(root, exist_ok=True)
                fs.pipe_file(f"{root}/{name}", content)
                return
            path = Path(self.place) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, draft = tempfile.mkstemp(prefix=f".{name}.", dir=path.parent)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                Path(draft).replace(path)
            except BaseException:
                Path(draft).unlink(missing_ok=True)
                raise

    def remove(self, name: str) -> None:
        """Take a file away, if it is there."""
        with _told(f"{self.place}/{name}", "remove"):
            if self.is_local:
                (Path(self.place) / name).unlink(missing_ok=True)
                return
            fs, root = self._fs()
            with contextlib.suppress(FileNotFoundError):
                fs.rm_file(f"{root}/{name}")

    def remove_all(self) -> None:
        """Take the folder and all in it away."""
        if self.is_local:
            shutil.rmtree(self.place, ignore_errors=True)
            return
        with _told(self.place, "remove"):
            fs, root = self._fs()
            if fs.exists(root):
                fs.rm(root, recursive=True)

    def put_all(self, local: Path, *, last: str) -> None:
        """Copy the files of a folder of this machine here, the one named `last` as the last: it makes it whole."""
        self.remove(last)
        for path in sorted(local.iterdir(), key=lambda path: (path.name == last, path.name)):
            self.write(path.name, path.read_bytes())

    def get_all(self, local: Path) -> None:
        """Copy all files of this folder into one of this machine."""
        for name in self.names():
            (local / name).write_bytes(self.read(name))

    def _fs(self) -> tuple[Any, str]:
        import fsspec

        try:
            fs, root = fsspec.core.url_to_fs(self.place)
        except (ImportError, ValueError) as error:
            way_out = "install the package that it names, or use a path"
            raise RunError(Fault(f"{self.place} cannot be reached: {error}", way_out)) from None
        return fs, str(root).rstrip("/")


@contextmanager
def _told(place: str, verb: str) -> Iterator[None]:
    """What a disk or an object store refuses is a `RunError` that says why."""
    try:
        yield
    except RunError:
        raise
    except OSError as error:
        why = error.strerror or str(error)
        raise RunError(Fault(f"cannot {verb} {place}: {why}", "choose another folder with -o, or make room")) from None
    except Exception as error:  # the client of an object store has errors of its own
        if not is_address(place):
            raise
        raise RunError(Fault(f"cannot {verb} {place}: {type(error).__name__}: {error}", "check the address")) from None
