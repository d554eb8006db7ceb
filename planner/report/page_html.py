"""HTML by hand: escaped text, numbers that say where in `result.json` they stand, tables that a screen reader reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from planner import units
from planner.report import page_live, page_style
from planner.words import plain

if TYPE_CHECKING:
    from planner.aggregate.result import Result
    from planner.report.figures.sheet import Sheet
    from planner.report.figures.style import Look

__all__ = [
    "View",
    "anchor",
    "document",
    "esc",
    "fact_number",
    "item_list",
    "pointer",
    "section",
    "sheet_table",
    "table",
]

Path = Sequence[str | int]
_KIND_OF_UNIT = {spec.unit: name for name, spec in reversed(units.KINDS.items())}
_TAG = re.compile(r"<[^>]*>")
LONG_NAME = 28
"""Letters from which on a name may be broken."""


def esc(text: object) -> str:
    """Text of unknown origin as text: markup and control characters are shown, never acted upon.

    >>> esc("<b>\\x07")
    '&lt;b&gt;\\\\x07'
    """
    return escape(plain(str(text)))


def pointer(path: Path) -> str:
    """A JSON pointer (RFC 6901) below `result` of `result.json`."""
    return "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in path)


def anchor(*parts: str) -> str:
    """An id for a place on the page; different parts give different ones."""
    return "--".join("".join(c if c.isalnum() or c in "-_" else f".{ord(c):x}" for c in part) for part in parts if part)


@dataclass(frozen=True, slots=True)
class View:
    """One variant of a result, as the page shows it."""

    result: Result
    name: str
    tree: Mapping[str, Any]
    look: Look

    @property
    def root(self) -> tuple[str, ...]:
        """Where the variant stands in `result.json`."""
        return ("variants", self.name) if len(self.result.variants) > 1 else ()

    @property
    def level(self) -> int:
        """Level of the headings of its sections: below the variant's own, where it has one."""
        return 3 if self.is_one_of_several else 2

    @property
    def is_one_of_several(self) -> bool:
        """Whether the page shows other variants too."""
        return len(self.result.variants) > 1

    def at(self, *path: str | int) -> Any:
        """The value at a path of the variant's tree."""
        found: Any = self.tree
        for key in path:
            found = found[key]
        return found

    def num(self, kind: str, *path: str | int) -> str:
        """A figure of the tree as it is read, with its exact value and its place in `result.json`."""
        value = self.at(*path)
        return _data(value, shown(value, kind), (*self.root, *path))

    def interval(self, kind: str, *path: str | int) -> str:
        """The 90 % interval of a figure, over seeds or over batches of one run, or nothing where there is none."""
        ends = []
        for side in ("low", "high"):
            found: Any = self.tree[side]
            for key in path:
                found = found[key] if found is not None else None
            if found is None:
                return ""
            ends.append(_data(found, shown(found, kind), (*self.root, side, *path)))
        return f"{ends[0]} to {ends[1]}"

    @property
    def has_intervals(self) -> bool:
        """Whether figures have intervals."""
        return self.tree["interval"]["over"] is not None

    def swatch(self, pool: str) -> str:
        """The pool's name behind a square of its colour."""
        ix = list(self.look.pools).index(pool)
        long = " long" if len(pool) > LONG_NAME else ""
        return f'<span class="pool{long}"><span class="sw p{ix % 6}" aria-hidden="true"></span>{esc(pool)}</span>'


def shown(value: Any, kind: str) -> str:
    """A number as text: a kind of `units`, or `plain` for three figures, `percent` for a margin, `words` as it is."""
    if value is None:
        return "-"
    if kind == "words":
        return str(value)
    if kind == "plain":
        return units.figures(value)
    if kind == "share":
        return share(value)
    if kind == "signed":
        return f"{value * 100:+,.0f} %"
    if kind == "energy_kwh":
        return f"{units.figures(value / 1000)} MWh" if value >= 1000 else f"{units.figures(value)} kWh"
    if kind == "margin":
        size = abs(value) * 100
        return f"{size:,.0f} %" if size >= 10 else f"{size:.1f} %"
    return units.format(value, kind)


def fact_number(row: Mapping[str, Any], name: str) -> str:
    """The value, low or high of a row of the facts in its unit, with its exact value; a dash where there is none."""
    value = row[name]
    if value is None:
        return "-"
    kind = _KIND_OF_UNIT.get(row["unit"] or "")
    text = units.format(value, kind) if kind else units.figures(value)
    return f'<data value="{value!r}">{esc(text)}</data>'


def share(value: float) -> str:
    """A share; one that is not the whole never looks like it."""
    if not 0.9995 <= value < 1:
        return units.format(value, "frac")
    percents = (f"{value * 100:.{digits}f} %" for digits in range(2, 16))
    return next((text for text in percents if not text.startswith("100")), "just below 100 %")


def _data(value: Any, text: str, path: Path) -> str:
    """`<data>` with the exact value; one that does not exist is a dash, and says so to who cannot see."""
    where = escape(pointer(path), quote=True)
    if value is None:
        return f'<data value="" data-at="{where}"><span aria-label="none">-</span></data>'
    exact = repr(value) if isinstance(value, float) else str(value)
    return f'<data value="{escape(exact, quote=True)}" data-at="{where}">{escape(text)}</data>'


def table(
    caption: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    words: Sequence[int] = (0,),
    classes: str = "",
    units_row: Sequence[str] = (),
) -> str:
    """A table: cells are HTML, the first of a row heads it; columns in `words` are text, others figures.

    It scrolls inside its own box where a screen is too narrow, by keyboard too.
    """

    def of(ix: int) -> str:
        return "" if ix in words else ' class="n"'

    lines = [
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption, quote=True)}">'
        f'<table class="{classes}"><caption>{escape(caption)}</caption><thead><tr>'
        + "".join(f'<th scope="col"{of(ix)}>{cell}</th>' for ix, cell in enumerate(head))
        + "</tr></thead><tbody>"
    ]
    for row in rows:
        kinds = " ".join([*([] if 0 in words else ["n"]), *(["short"] if _is_short(row[0]) else [])])
        first = '<th scope="row"' + (f' class="{kinds}"' if kinds else "") + f">{row[0]}</th>"
        lines.append(
            f"<tr>{first}" + "".join(f"<td{of(ix)}>{cell}</td>" for ix, cell in enumerate(row[1:], 1)) + "</tr>"
        )
    return "\n".join([*lines, "</tbody></table></div>"])


def _is_short(cell: str) -> bool:
    """Whether the words of a cell stand in one line even on a phone."""
    return len(_TAG.sub("", cell)) <= LONG_NAME


def item_list(items: Iterable[str]) -> str:
    """A list; items are HTML."""
    return "<ul>" + "".join(f"<li>{item}</li>" for item in items) + "</ul>"


def section(title: str, body: str, *, at: str, level: int | None = None, classes: str = "") -> str:
    """A part of the page under its own heading: of the whole page, or at a level inside a variant."""
    kind = "" if level is None else ' class="part"'
    level = level or 2
    kinds = f' class="{classes}"' if classes else ""
    head = f'<h{level} id="{at}"{kind}>{escape(title)}</h{level}>'
    return f'<section aria-labelledby="{at}"{kinds}>{head}\n{body}\n</section>'


def sheet_table(name: str, sheet: Sheet, note: str = "") -> str:
    """The rows of a figure, folded away."""
    rows = [[esc(cell) for cell in row] for row in sheet.rows]
    told = table(f"{name}: its figures", [esc(head) for head in sheet.head], rows, words=sheet.words)
    said = f'<p class="note">{" ".join(part for part in (esc(sheet.note), note) if part)}</p>'
    return f'<details class="sheet"><summary>The same as a table</summary>{told}{said}</details>'


def document(title: str, body: str, *, eyebrow: str, foot: str, has_script: bool = False, head: str = "") -> str:
    """A page, whole: it asks no network for anything, and runs no script but, if it has one, its own.

    `title`, `eyebrow` and `foot` are text; `body` is HTML, and so is `head`, what stands below the title.
    """
    policy = page_live.policy() if has_script else page_live.POLICY_STILL
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{esc(title)}: {esc(eyebrow.lower())}</title>
<style>{page_style.sheet()}</style>
</head>
<body>
<a class="skip" href="#main">To the answer</a>
<header>
<p class="eyebrow">{esc(eyebrow)}</p>
<h1>{esc(title)}</h1>
{head}</header>
<main id="main">
{body}
</main>
<footer>{esc(foot)}</footer>
{page_live.scripts() if has_script else ""}</body>
</html>
"""
