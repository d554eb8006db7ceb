"""Facts as tables, as blocks that say how each is known, and as JSON data."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner import units
from planner.facts.catalog import Catalog
from planner.facts.fact import Fact
from planner.facts.headline import Target

MARK = "~ placeholder or assumed: no outside source states it"
Row = Sequence[str]
Pair = tuple[str, Fact | None, Fact | None]
_FEW = 8
"""Members of a list that are shown; of a longer one half as many."""
_LONGEST = 40
"""Characters of a text in a comparison."""


def shown(fact: Fact | None) -> str:
    """A fact in a table: three figures and a unit; `~` before what is assumed or a placeholder; `-` for nothing."""
    if fact is None or fact.used is None:
        return "-"
    return ("~" if fact.is_assumed else "") + value_text(fact.used, fact)


def value_text(value: Any, fact: Fact) -> str:
    """One of a fact's values (value, low, high, an alternative's) for people."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_short(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return _few([str(item) for item in value])
    if isinstance(value, str):
        return value
    text = units.format(value, fact.kind) if fact.kind in units.KINDS else _plain(value)
    return f"{text} {fact.unit}" if fact.kind in {"count", "ratio"} and fact.unit not in {fact.kind, ""} else text


def _plain(item: Any) -> str:
    if isinstance(item, dict):
        return "/".join(str(part) for part in item.values() if part is not None)
    if item is None:
        return "-"
    if isinstance(item, bool):
        return "yes" if item else "no"
    if isinstance(item, int):
        return f"{item:,}"
    return f"{item:g}" if isinstance(item, float) else str(item)


def _short(item: Any) -> str:
    """A member of a group: of a long list the begin and how many there are; `--json` has all of it."""
    if isinstance(item, dict):
        return "/".join(_short(part) for part in item.values() if part is not None)
    return f"[{_few([_short(part) for part in item])}]" if isinstance(item, list | tuple) else _plain(item)


def _few(items: Sequence[str]) -> str:
    return ", ".join(items) if len(items) <= _FEW else f"{', '.join(items[: _FEW // 2])}, ... {len(items):,} in all"


def block(path: str, fact: Fact, titles: Mapping[str, str], *, width: int = 28) -> str:
    """A fact on several lines: value, range, grade; note; sources by title; what others say."""
    parts = [f"{path:<{width}} {shown(fact)}"]
    if fact.low is not None or fact.high is not None:
        parts.append(f"range {value_text(fact.low, fact)} .. {value_text(fact.high, fact)}")
    parts.append(fact.grade + (f" (range {fact.range_grade})" if fact.range_grade else ""))
    if fact.grade == "undisclosed":
        parts.append("no placeholder" if fact.default is None else "placeholder")
    lines = ["   ".join(parts)]
    if fact.note:
        lines.append(f"    {fact.note}")
    lines += [f"    source: {titles.get(source, 'given in the file')} [{source}]" for source in fact.source]
    for other in fact.alternatives:
        note = f": {other.note}" if other.note else ""
        lines.append(f"    others say {value_text(other.value, fact)} [{', '.join(other.source)}]{note}")
    return "\n".join(lines)


def as_data(fact: Fact | None) -> dict[str, Any] | None:
    """A fact as JSON data."""
    if fact is None:
        return None
    names = ("value", "used", "low", "high", "default", "unit", "grade", "range_grade", "is_assumed", "note", "path")
    others = [{"value": o.value, "source": list(o.source), "note": o.note} for o in fact.alternatives]
    return {name: getattr(fact, name) for name in names} | {"source": list(fact.source), "alternatives": others}


def plain_texts(thing: Any) -> dict[str, str]:
    """The plain texts of a thing: vendor, status, engine, ..."""
    found: dict[str, str] = {}
    for name in getattr(thing, "__slots__", ()):
        value = getattr(thing, name)
        if isinstance(value, str):
            found[name] = value
        elif name == "aliases":
            found[name] = ", ".join(value)
    return found


def targets(rows: Sequence[Target]) -> str:
    """The published comparisons of a headline."""

    def size(value: float | None, unit: str) -> str:
        return units.format(value, "time" if unit == "s" else "tokens_per_s_per_kw")

    def ratio_text(value: float | None) -> str:
        return "-" if value is None else f"{value:g} x"

    head = ("target", "model", "metric", "value", "against", "value", "claimed", "derived")
    cells = []
    for t in rows:
        sizes = (size(t.value, t.unit), t.reference, size(t.reference_value, t.unit))
        cells.append((t.id, t.model, t.metric, *sizes, ratio_text(t.ratio_claimed), ratio_text(t.ratio_derived)))
    return table(head, cells, left=(0, 1, 2, 4))


# -- differences -------------------------------------------------------------------------------------------------------


def pairs(left: Mapping[str, Fact], right: Mapping[str, Fact], *, show_all: bool = False) -> list[Pair]:
    """Facts of the same path side by side, groups member by member; those in use alike only with `show_all`."""
    one, other = _spread(left), _spread(right)
    found = [(path, one.get(path), other.get(path)) for path in dict.fromkeys([*one, *other])]
    return [(p, a, b) for p, a, b in found if show_all or a is None or b is None or a.used != b.used]


def _spread(facts: Mapping[str, Fact]) -> dict[str, Fact]:
    found: dict[str, Fact] = {}
    for path, fact in facts.items():
        if not isinstance(fact.value, dict):
            found[path] = fact
            continue
        for key, item in fact.value.items():
            is_number = isinstance(item, int | float) and not isinstance(item, bool)
            value = item if is_number else _plain(item)
            found[f"{path}.{key}"] = Fact(value, grade=fact.grade, path=f"{fact.path}.{key}")  # type: ignore[arg-type]
    return found


def ratio(one: Fact | None, other: Fact | None) -> float | None:
    """Right over left, where both are numbers."""
    x, y = (None if fact is None else fact.used for fact in (one, other))
    if isinstance(x, bool) or isinstance(y, bool) or not isinstance(x, int | float) or not isinstance(y, int | float):
        return None
    return y / x if x else None


def comparison(kind: str, left: str, right: str, found: Sequence[Pair]) -> str:
    """Two things side by side."""
    rows: list[Row] = []
    for path, one, other in found:
        share = ratio(one, other)
        grades = [fact.grade if fact is not None else "-" for fact in (one, other)]
        cells = (textwrap.shorten(shown(fact), _LONGEST, placeholder=" ...") for fact in (one, other))
        times = "-" if share is None else f"{units.figures(share)} x"
        rows.append((path, *cells, times, grades[0] if grades[0] == grades[1] else " / ".join(grades)))
    return marked(table((kind, left, right, "ratio", "grades"), rows, left=(0, 4)))


# -- tables ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a list: the main figures of a thing."""

    name: str
    title: str
    figures: dict[str, Fact | None]


def _at(path: str) -> Callable[[Any], Fact | None]:
    """The fact at a dotted path of attributes, keys and group members, or None."""

    def get(thing: Any) -> Fact | None:
        for part in path.split("."):
            if isinstance(thing, Fact):
                return Fact(thing.group.get(part), grade=thing.grade, kind="bytes" if "bytes" in part else "count")  # type: ignore[arg-type]
            thing = thing.get(part) if isinstance(thing, dict) else getattr(thing, part, None)
        return thing if isinstance(thing, Fact) else None

    return get


_FIGURES: dict[str, dict[str, str]] = {
    "chips": {
        "memory": "memory_bytes",
        "bandwidth": "memory_bytes_per_s",
        "bf16": "flop_per_s.bf16",
        "fp8": "flop_per_s.fp8",
        "fp4": "flop_per_s.fp4",
        "rated": "tdp_w",
        "domain": "scale_up.domain_chips",
    },
    "racks": {
        "chips": "n_chips",
        "rated": "rated_w",
        "typical": "typical_w",
        "capex": "capex_usd",
        "lead time": "lead_time_s",
    },
    "models": {
        "attention": "attention",
        "params": "params.total",
        "active": "params.active_per_token",
        "weights": "weights.native_checkpoint_bytes",
        "kv/token bf16": "kv.per_token_bytes_bf16",
        "context": "context_tokens",
    },
    "sites": {
        "electricity": "electricity_usd_per_kwh",
        "carbon": "carbon_kgco2e_per_kwh",
        "pue": "pue",
    },
    "engines": {
        "memory": "memory_eff_frac",
        "compute": "compute_eff_frac",
        "prefill": "prefill_eff_frac",
        "launch/layer": "launch_layer_s",
        "collective/log2": "collective_log_s",
    },
    "prices": {
        "owned by hyperscaler": "facts.owner_hyperscaler_usd_per_chip_h",
        "owned by neocloud": "facts.owner_neocloud_usd_per_chip_h",
        "rented for 3 years": "facts.rental_3y_usd_per_chip_h",
    },
}
"""Kind -> column of its list -> where the figure stands."""


def figures(kind: str, shelf: Catalog, name: str) -> dict[str, Fact | None]:
    """The main figures of a thing; nothing for kinds that have none, whose files are not read."""
    columns = _FIGURES.get(kind)
    if columns is None:
        return {}
    thing = shelf.any(kind, name)
    return {column: _at(path)(thing) for column, path in columns.items()}


def entry_data(entry: Entry) -> dict[str, Any]:
    """A line of a list as JSON data."""
    return {"name": entry.name, "title": entry.title} | {
        "figures": {column: as_data(fact) for column, fact in entry.figures.items()}
    }


def marked(text: str) -> str:
    """`text`, and what the mark in it means, where it has one."""
    return f"{text}\n{MARK}" if MARK[0] in text else text


def overview(kind: str, entries: Sequence[Entry]) -> str:
    """Names with the main figures of their kind."""
    columns = list(_FIGURES.get(kind, ()))
    head = (kind, *columns, "")
    rows = [(e.name, *(_brief(e.figures[column]) for column in columns), e.title) for e in entries]
    return marked(table(head, rows, left=(0, len(head) - 1)))


def _brief(fact: Fact | None) -> str:
    """As `shown`, with large counts in thousands of millions."""
    if fact is not None and fact.kind == "count" and isinstance(fact.used, int) and fact.used >= 10**9:
        return f"{units.figures(fact.used / 1e9)} G"
    return shown(fact)


def table(head: Row, rows: Sequence[Row], *, left: Sequence[int] = (0,), wrap: int | None = None) -> str:
    """Columns under their heads, numbers to the right; the last column `wrap` is folded at 100 characters."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    if wrap is not None:
        widths[wrap] = min(widths[wrap], 100 - sum(widths[:wrap]))
    indent = " " * sum(width + 2 for width in widths[:wrap])
    lines: list[str] = []
    for row in (head, *rows):
        folded = [row[-1]] if wrap is None else textwrap.wrap(row[wrap], widths[wrap], break_on_hyphens=False) or [""]
        cells = [
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip((*row[:-1], folded[0]), widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
        lines += [indent + line for line in folded[1:]]
    return "\n".join(lines)
