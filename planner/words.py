"""Words on a terminal: text of unknown origin made harmless, the columns it takes, aligned tables."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

Cells = Sequence[str]

_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def plain(text: str, *, keep: str = "") -> str:
    r"""Text of unknown origin as one line that cannot drive a terminal: control and direction marks are spelled out,
    but for those in `keep`.

    >>> plain("Chat\x1b[2J")
    'Chat\\x1b[2J'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_spelled(c) if unicodedata.category(c) in _UNSAFE and c not in keep else c for c in text)


def _spelled(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def width(text: str) -> int:
    """Columns that a text takes on a terminal."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in {"W", "F"} else 1 for c in text
    )


def table(rows: Sequence[Cells], *, left: Sequence[int]) -> list[str]:
    """Aligned lines, two spaces in; columns in `left` are words, all others figures."""
    cells = [[plain(cell) for cell in row] for row in rows]
    widths = [max(width(cell) for cell in column) for column in zip(*cells, strict=True)]
    return ["  " + "   ".join(_padded(row, widths, left)).rstrip() for row in cells]


def _padded(row: Cells, widths: Sequence[int], left: Sequence[int]) -> list[str]:
    return [
        cell + " " * (wide - width(cell)) if ix in left else " " * (wide - width(cell)) + cell
        for ix, (cell, wide) in enumerate(zip(row, widths, strict=True))
    ]
