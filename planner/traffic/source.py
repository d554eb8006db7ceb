"""The content of a trace file, bounded and decompressed, and what kind of container it is."""

from __future__ import annotations

import errno
import hashlib
import stat
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from planner.errors import Fault, RunError, TrafficError, near

Container = Literal["csv", "json", "parquet"]

MAX_BYTES = 4 * 10**9
"""The most that one trace may hold, decompressed."""
MAX_GZIP_RATIO = 250
"""A gzip file that grows more than this (beyond `_SMALL_BYTES`) is taken for a bomb; traces grow 5 to 30 times."""
_SMALL_BYTES = 64_000_000
_CHUNK = 1 << 20
_PACKED = {
    b"PK\x03\x04": "a zip archive",
    b"\x28\xb5\x2f\xfd": "compressed with zstd",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ\x00": "compressed with xz",
    b"7z\xbc\xaf": "a 7z archive",
    b"\xd0\xcf\x11\xe0": "an old Excel or Office file",
    b"SQLite format 3\x00": "an SQLite database",
    b"ARROW1": "an Arrow (Feather) file",
    b"ORC": "an ORC file",
    b"\x04\x22\x4d\x18": "compressed with lz4",
    b"\xff\x06\x00\x00sNaPpY": "compressed with snappy",
    b"%PDF": "a PDF document",
}
_WEB_PAGE = "it is a web page", "fetch the file itself: it may need a login, or the address of its raw form"
_INSTEAD = {
    b"version https://git-lfs": ("it is a pointer to the file in Git LFS", "fetch the file itself: git lfs pull"),
    b"<!doctype html": _WEB_PAGE,
    b"<html": _WEB_PAGE,
    b"<?xml": ("it is an XML document", "write CSV, JSON lines or Parquet"),
}
"""What stands where a trace was meant, by how its text begins."""
_TAR = slice(257, 262)
_WIDE = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"\x00\x00\xfe\xff": "UTF-32"}


@dataclass(frozen=True, slots=True)
class Source:
    """A file's content: plain bytes without a byte-order mark, whatever they were packed in."""

    path: str
    data: bytes
    digest: str
    container: Container

    def refuse(self, what: str, way_out: str = "", *, line: int | None = None) -> TrafficError:
        """The error about this file, to be raised."""
        return TrafficError(Fault(what, way_out, file=self.path, line=line))


def load(path: str | Path) -> Source:
    """The content of the file at `path`.

    Raises:
        TrafficError: no such file, not a file, empty, too large, or packed in a way that is not read here.
        RunError: the file is there and may not be read.
    """
    name = str(path)
    data = _read(Path(path), name)
    if data[:2] == b"\x1f\x8b":
        data = _gunzip(data, name)
    if data[:2] == b"\x1f\x8b":
        raise TrafficError(Fault("compressed twice", "decompress it once", file=name))
    for magic, kind in _PACKED.items():
        if data.startswith(magic):
            raise TrafficError(
                Fault(f"it is {kind}", "unpack it to CSV, JSON lines or Parquet (gzip is read)", file=name)
            )
    if data[_TAR] == b"ustar":
        raise TrafficError(Fault("it is a tar archive", "unpack it, and name one file of it", file=name))
    begin = data[:64].lstrip().lower()
    for text, (what, way_out) in _INSTEAD.items():
        if begin.startswith(text):
            raise TrafficError(Fault(what, way_out, file=name))
    if data and not any(data[:4096]):
        raise TrafficError(
            Fault("it begins with nothing but zero bytes", "it was not written: fetch it again", file=name)
        )
    for mark, kind in _WIDE.items():
        if data.startswith(mark):
            raise TrafficError(Fault(f"its text is {kind}", "save it as UTF-8", file=name))
    if _is_wide(data[:128]):
        raise TrafficError(Fault("its text looks like UTF-16", "save it as UTF-8", file=name))
    while data.startswith(b"\xef\xbb\xbf"):  # each tool on the way may add one
        data = data[3:]
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    if data.startswith(b"PAR1"):
        return Source(name, data, digest, "parquet")
    if not data.strip():
        raise TrafficError(Fault("the file is empty", "a trace has at least one request", file=name))
    if data.count(b"\r") != data.count(b"\r\n"):  # a line may end in CR alone, in a part of the file too
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    head = data[:4096].lstrip()
    return Source(name, data, digest, "json" if head[:1] in (b"{", b"[") or _is_json_after_comments(head) else "csv")


def _is_wide(head: bytes) -> bool:
    """Whether every second byte is 0: plain letters in UTF-16."""
    return len(head) > 3 and any(not any(half) for half in (head[::2], head[1::2]))


def _is_json_after_comments(head: bytes) -> bool:
    """Whether the first line that is neither blank nor a comment starts as JSON does."""
    lines = (line.strip() for line in head.split(b"\n"))
    first = next((line for line in lines if line and not line.startswith(b"#")), b"")
    return first[:1] in (b"{", b"[")


def _read(path: Path, name: str) -> bytes:
    try:
        about = path.stat()
        mode = about.st_mode
        if stat.S_ISDIR(mode):
            raise TrafficError(Fault("it is a directory", "name one file in it", file=name))
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            raise TrafficError(Fault("it is a device, not a file", "name a trace file", file=name))
        data = b""
        if about.st_size <= MAX_BYTES:
            with path.open("rb") as stream:
                data = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        here = path.parent if path.parent.is_dir() else None
        others = sorted(p.name for p in here.iterdir())[:1000] if here else []
        hint = near(path.name, others).removeprefix("; ") if "?" in near(path.name, others) else "check the path"
        raise TrafficError(Fault("there is no such file", hint, file=name)) from None
    except ValueError:
        raise TrafficError(Fault("that is not a path", "name a trace file", file=name)) from None
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in (errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP):
            raise TrafficError(Fault(f"no file can be there: {reason}", "check the path", file=name)) from None
        raise RunError(Fault(f"it cannot be read: {reason}", "check the disk and the permissions", file=name)) from None
    if max(len(data), about.st_size) > MAX_BYTES:
        raise TrafficError(Fault(f"it holds more than {MAX_BYTES / 1e9:g} GB", "cut it, or sample it", file=name))
    return data


def _gunzip(data: bytes, name: str) -> bytes:
    """The content of a gzip file, of one or several members, within bounds."""
    out: list[bytes] = []
    n_out = 0
    rest = data
    try:
        while rest[:2] == b"\x1f\x8b":
            unpack = zlib.decompressobj(wbits=31)
            pending = rest
            while pending and not unpack.eof:
                chunk = unpack.decompress(pending, _CHUNK)
                pending = unpack.unconsumed_tail
                out.append(chunk)
                n_out += len(chunk)
                if n_out > MAX_BYTES or (n_out > _SMALL_BYTES and n_out > MAX_GZIP_RATIO * len(data)):
                    what = f"{len(data):,} bytes of gzip unpack to more than {n_out:,}"
                    raise TrafficError(
                        Fault(what, "if it is a real trace, unpack it first and name the plain file", file=name)
                    )
                if not chunk and not pending:
                    break
            if not unpack.eof:
                what = f"the gzip file ends before its end, after {n_out:,} bytes of content"
                raise TrafficError(Fault(what, "it was cut off on its way: fetch it again", file=name))
            rest = unpack.unused_data
    except zlib.error as error:
        what = f"the gzip file is damaged ({error})"
        raise TrafficError(Fault(what, "fetch it again", file=name)) from None
    if rest.strip(b"\x00"):
        what = f"{len(rest):,} bytes after the end of the gzip content"
        raise TrafficError(Fault(what, "fetch it again, or unpack it first", file=name))
    return b"".join(out)
