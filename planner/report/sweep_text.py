"""A sweep as lines of text: a row a point, then the cheapest one that holds every limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from planner import units, words
from planner.report import text

if TYPE_CHECKING:
    from planner.study.points import Row
    from planner.study.sweep import Sweep

MOST_ROWS = 60
"""More points are not all listed: those that hold come first, by their cost."""
_RANKS: Mapping[str, str] = {
    "usd_per_h": "cost an hour; all points serve the same requests",
    "usd_per_mtok_out_whole": "cost per million output tokens; the points serve different requests",
    "tco_usd": "TCO of the plan over its horizon",
}


def sweep_report(sweep: Sweep, *, title: str, wall_s: float | None = None) -> str:
    """Every point, which is the cheapest that holds, or which came nearest."""
    n_held = sum(row.holds for row in sweep.rows)
    spent = "" if wall_s is None else f" in {units.format(wall_s, 'time')}"
    head = f"{words.plain(title)}   {len(sweep.rows):,} points{spent}, {n_held:,} of them hold every limit"
    shown = _shown(sweep)
    lines = [head, *words.table(_rows(sweep, shown), left=tuple(range(_n_words(sweep))))]
    if len(shown) < len(sweep.rows):
        lines.append(f"  {len(sweep.rows) - len(shown):,} more points are in points.parquet")
    reasons = dict.fromkeys(row.reason for row in shown if row.reason)
    lines += [f"  not simulated: {words.plain(reason)}" for reason in reasons]
    return "\n".join([*lines, *_ending(sweep)])


def _n_words(sweep: Sweep) -> int:
    return len(sweep.axes) + (2 if _several(sweep) else 1) + 1


def _several(sweep: Sweep) -> bool:
    return len({row.point.variant for row in sweep.rows}) > 1


def _shown(sweep: Sweep) -> Sequence[Row]:
    if len(sweep.rows) <= MOST_ROWS:
        return sweep.rows

    def rank(row: Row) -> tuple[bool, float, int]:
        cost = row.figures[sweep.ranked_by]
        return not row.holds, float("inf") if cost is None else cost, row.point.ix

    return sorted(sweep.rows, key=rank)[:MOST_ROWS]


def _rows(sweep: Sweep, shown: Sequence[Row]) -> list[Sequence[str]]:
    names = _short([axis.path for axis in sweep.axes])
    is_named = _several(sweep)
    best = sweep.cheapest or sweep.nearest
    head = ["", *(["scenario"] if is_named else []), *names, "verdict", "to spare", "racks", "cost/h", "USD/Mtok out"]
    has_plans = sweep.ranked_by == "tco_usd"
    rows: list[Sequence[str]] = [[*head, "J/token out", "facility", *(["TCO"] if has_plans else [])]]
    for row in shown:
        figures = row.figures
        spare = row.tightest.margin_frac if row.tightest else None
        word = {"missed": "MISSED", None: "no limits"}.get(row.verdict, row.verdict or "")
        rows.append(
            [
                "*" if best is row else "",
                *([row.point.variant] if is_named else []),
                *row.point.values,
                f"{word} {row.tightest}" if row.tightest else word,
                "-" if spare is None else text.percent(spare),
                _racks(row, is_plan=has_plans),
                units.format(figures["usd_per_h"], "money"),
                text.figure(figures["usd_per_mtok_out_whole"]),
                text.figure(figures["j_per_token_out_whole"]),
                units.format(figures["facility_mean_w"], "power"),
                *([units.format(figures["tco_usd"], "money")] if has_plans else []),
            ]
        )
    return rows


def _racks(row: Row, *, is_plan: bool) -> str:
    """How many racks; of a plan which, in its last period."""
    if is_plan:
        return ", ".join(f"{n} {words.plain(pool)}" for pool, n in row.fleet.items() if n) or "-"
    racks = row.figures["racks"]
    return "-" if racks is None else f"{racks:g}"


def _short(paths: Sequence[str]) -> list[str]:
    """The ends of paths, as long as it takes to tell them apart.

    >>> _short(["fleet.pools.a.count", "fleet.pools.b.count", "site.pue"])
    ['a.count', 'b.count', 'pue']
    """
    parts = [path.split(".") for path in paths]
    made = []
    for mine in parts:
        n = 1
        while n < len(mine) and sum(other[-n:] == mine[-n:] for other in parts) > 1:
            n += 1
        made.append(".".join(mine[-n:]))
    return made


def _ending(sweep: Sweep) -> list[str]:
    best, near = sweep.cheapest, sweep.nearest
    if best is not None:
        cost = best.figures[sweep.ranked_by]
        money = units.format(cost, "money")
        shown = {"usd_per_h": f"{money}/h", "tco_usd": money}
        figure = shown.get(sweep.ranked_by, f"{text.figure(cost)} USD/Mtok")
        lines = [f"cheapest that holds every limit: {_named(best)}, {figure} ({_RANKS[sweep.ranked_by]})"]
        flags = " ".join(f"--set '{pair}'" for pair in best.point.sets)
        verb = "optimize" if sweep.ranked_by == "tco_usd" else "run"
        return [*lines, f"again: planner {verb} SCENARIO {_variant(best)}{flags}"]
    if near is not None and near.tightest is not None:
        spare = near.tightest.margin_frac
        by = "beyond all measure" if spare is None else f"by {text.percent(-spare)}"
        return [f"no point holds every limit; nearest: {_named(near)}, which misses {near.tightest} {by}"]
    if all(row.tightest is None and not row.reason for row in sweep.rows):
        return ["no class has limits, so none is cheapest"]
    return ["no point holds every limit, and none was simulated to the end"]


def _named(row: Row) -> str:
    return words.plain(row.label if row.point.variant == "base" else f"{row.point.variant}: {row.label}")


def _variant(row: Row) -> str:
    return "" if row.point.variant == "base" else f"-s {row.point.variant} "
