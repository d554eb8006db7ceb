"""JSON lines, or one JSON document with a list of rows -> rows as Python objects. Numbers keep their spelling."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NoReturn

from planner.traffic.source import Source

_PART = 10_000
"""Lines that are decoded at once."""


class Literal(str):
    """A number with a fraction or an exponent, as it was spelt: a float would lose nanoseconds."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a JSON file in order, the line (or for a list the place) of each, and the lines that are no rows."""

    rows: list[dict[str, Any]]
    lines: list[int]
    bad_lines: tuple[int, ...]
    envelope: dict[str, Any] | None = None
    """What stands around the list, if the rows are a list inside one object."""


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)  # NaN and Infinity are not JSON


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=Literal, parse_constant=_no_constant)
_LENIENT = json.JSONDecoder(object_pairs_hook=_object, parse_float=Literal, parse_constant=Literal)
"""For one value that is the whole file: a NaN in it, as Python writes them, is its own row's fault alone."""


def decode(text: bytes, decoder: json.JSONDecoder = _DECODER) -> Any:
    """The value that `text` spells.

    Raises:
        ValueError: it is not one JSON value in UTF-8, or an object has a key twice.
    """
    try:
        return decoder.decode(text.decode("utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _decode_lines(lines: list[bytes]) -> list[Any]:
    """The value of each line, None for a line that is none: all at once if they are all right, else one by one."""
    bare = [line.strip() for line in lines]
    if all(line.startswith(b"{") and line.endswith(b"}") for line in bare):
        try:
            found = decode(b"[" + b",".join(bare) + b"]")
        except ValueError:
            found = []
        if len(found) == len(lines):
            return list(found)
    return [_decode_line(line) for line in lines]


def why_none(source: Source) -> tuple[int, str]:
    """Of a file without a row that says anything: its first line, and what is wrong with that."""
    for number, line in enumerate(source.data.split(b"\n"), 1):
        if line.strip() and not line.lstrip().startswith(b"#"):
            try:
                found = decode(line)
            except ValueError as error:
                return number, str(error)
            return number, "an object without a key" if found == {} else f"{type(found).__name__}, no object"
    return 1, "no line"


def _decode_line(line: bytes) -> Any:
    try:
        return decode(line)
    except ValueError:
        return None


def document(source: Source) -> Any:
    """The one JSON value that the whole file is, or None if it is not one."""
    try:
        return decode(source.data, _LENIENT)
    except ValueError:
        return None


def read(source: Source, *, n_lines: int | None = None) -> Rows:
    """The rows of a JSON file: one object a line, or a list of objects, or such a list under `data` of an object.

    With `n_lines`, of JSON lines only the first so many.
    """
    lines = [(n, line) for n, line in enumerate(source.data.split(b"\n"), 1) if line.strip()]
    lines = [(n, line) for n, line in lines if not line.lstrip().startswith(b"#")]
    if len(lines) == 1 or (lines and not isinstance(_decode_line(lines[0][1]), dict)):
        whole = document(source)
        if isinstance(whole, list):
            return _listed(whole)
        if isinstance(whole, dict) and isinstance(whole.get("data"), list):
            listed = _listed(whole["data"])
            return Rows(listed.rows, listed.lines, listed.bad_lines, {k: v for k, v in whole.items() if k != "data"})
        if isinstance(whole, dict):
            return Rows([whole], [lines[0][0]], ())
    rows: list[dict[str, Any]] = []
    numbers: list[int] = []
    bad: list[int] = []
    lines = lines[:n_lines]
    for start in range(0, len(lines), _PART):
        part = lines[start : start + _PART]
        for (number, _), row in zip(part, _decode_lines([line for _, line in part]), strict=True):
            if isinstance(row, dict):
                rows.append(row)
                numbers.append(number)
            else:
                bad.append(number)
    return Rows(rows, numbers, tuple(bad))


def _listed(items: list[Any]) -> Rows:
    numbers = [n for n, item in enumerate(items, 1) if isinstance(item, dict)]
    bad = tuple(n for n, item in enumerate(items, 1) if not isinstance(item, dict))
    return Rows([item for item in items if isinstance(item, dict)], numbers, bad)


def lookup(row: dict[str, Any], key: str) -> Any:
    """The value under `key`, or under its dotted parts one in the other; None if there is none."""
    if key in row or "." not in key:
        return row.get(key)
    head, _, rest = key.partition(".")
    inner = row.get(head)
    return lookup(inner, rest) if isinstance(inner, dict) else None


def unfolded(text: str | None) -> Any:
    """The object that `text` spells in JSON; `text` itself if it is none."""
    if text is None or not text.lstrip().startswith("{"):
        return text
    try:
        return decode(text.encode("utf-8", errors="surrogatepass"), _LENIENT)
    except ValueError:
        return text
