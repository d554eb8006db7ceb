"""The points of a sweep as rows: what was asked there, whether every limit holds, and the headline figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planner.aggregate import slo
from planner.aggregate.slo import Tightest
from planner.errors import Infeasible, PlannerError

if TYPE_CHECKING:
    import polars as pl

    from planner.aggregate.result import Result

FIGURES: Mapping[str, tuple[str, ...]] = {
    "racks": ("fleet", "racks"),
    "usd_per_h": ("cost", "usd_per_h"),
    "usd_per_mtok_out_whole": ("cost", "usd_per_mtok_out_whole"),
    "usd_per_mtok_all": ("cost", "usd_per_mtok_all"),
    "j_per_token_out_whole": ("energy", "j_per_token_out_whole"),
    "kgco2e_per_mtok_out_whole": ("carbon", "kgco2e_per_mtok_out_whole"),
    "facility_mean_w": ("fleet", "facility_w", "mean"),
    "facility_peak_w": ("fleet", "facility_w", "peak"),
    "provisioned_w": ("fleet", "provisioned_w"),
    "tokens_per_s_out": ("fleet", "tokens_per_s_out"),
}
"""Headline figure of a point -> where it stands in a result; of a plan in its tightest period."""
TCO = "tco_usd"
"""What a plan costs over its horizon; None where a fleet is given."""
PLAN = (TCO, "capex_usd", "energy_kwh", "carbon_kgco2e", "gap_frac")
"""Figures of a whole plan, as `plan` has them; None where a fleet is given."""


@dataclass(frozen=True, slots=True)
class Point:
    """One place of the grid."""

    ix: int
    """Its number, from 0; the last axis runs fastest."""
    variant: str
    """The variant of the scenario that it starts from."""
    values: tuple[str, ...]
    """The value of each axis."""
    sets: tuple[str, ...]
    """The same as `--set` takes it: `planner run` with them gives the figures of the point."""


@dataclass(frozen=True, slots=True)
class Row:
    """What was found at a point."""

    point: Point
    verdict: str | None
    """met, missed or unknown; None without limits; `infeasible` or `refused` where nothing was simulated."""
    tightest: Tightest | None
    """The limit with the least to spare."""
    figures: Mapping[str, float | None]
    """The headline figures, and `_low` and `_high` of each where there are several seeds."""
    reason: str = ""
    """Why nothing was simulated."""
    fleet: Mapping[str, int] = field(default_factory=dict)
    """Racks by pool; of a plan those of its last period."""
    is_verified: bool | None = None
    """Of a plan: whether every peak held in the simulation."""

    @property
    def holds(self) -> bool:
        """Whether every limit holds, and there is one."""
        return self.verdict == "met"

    @property
    def label(self) -> str:
        """`count=2, price=0.08 USD/kWh`: the values, as short as the paths allow."""
        return ", ".join(self.point.sets)

    def to_json(self, paths: Sequence[str]) -> dict[str, Any]:
        """The row as it is printed."""
        tight = self.tightest
        return {
            "point": self.point.ix,
            "scenario": self.point.variant,
            "values": dict(zip(paths, self.point.values, strict=True)),
            "verdict": self.verdict,
            "tightest": None
            if tight is None
            else {
                "class": tight.name,
                "metric": tight.metric,
                "quantile": tight.quantile,
                "margin_frac": tight.margin_frac,
            },
            **self.figures,
            "fleet": dict(self.fleet),
            "verified": self.is_verified,
            "reason": self.reason or None,
        }


def row_of(point: Point, found: Result | PlannerError) -> Row:
    """The row of an answer, or of the error in its place."""
    if isinstance(found, PlannerError):
        reason = "; ".join(str(fault) for fault in found.faults)
        return Row(point, "infeasible" if isinstance(found, Infeasible) else "refused", None, _none(), reason)
    plan = found.plan
    tree = next(iter(found.variants.values())) if plan is None else found.variants[plan["shown"]]
    figures: dict[str, float | None] = {name: None if plan is None else plan.get(name) for name in PLAN}
    for name, path in FIGURES.items():
        figures[name] = _at(tree, path)
        for side in ("low", "high"):
            figures[f"{name}_{side}"] = _at(tree[side], path)
    fleet = _fleet(tree, plan)
    is_verified = None if plan is None else bool(plan.get("verified"))
    return Row(point, tree["verdict"], slo.tightest(tree), figures, fleet=fleet, is_verified=is_verified)


def _fleet(tree: Mapping[str, Any], plan: Mapping[str, Any] | None) -> dict[str, int]:
    """Racks by pool; of a plan in its last period."""
    if plan is None:
        return {name: pool["racks"] for name, pool in tree["pools"].items()}
    return dict(plan["periods"][-1]["fleet"]) if plan.get("periods") else {}


def _none() -> dict[str, float | None]:
    return {**dict.fromkeys(PLAN), **{f"{name}{side}": None for name in FIGURES for side in ("", "_low", "_high")}}


def _at(tree: Any, path: Sequence[str]) -> float | None:
    for step in path:
        tree = tree.get(step) if isinstance(tree, dict) else None
    return tree if isinstance(tree, int | float) else None


def frame(paths: Sequence[str], rows: Sequence[Row]) -> pl.DataFrame:
    """The points as a table: `point variant`, a column for each axis, verdict, tightest limit and headline figures."""
    import polars as pl

    columns: dict[str, pl.Series] = {
        "point": pl.Series([row.point.ix for row in rows], dtype=pl.Int64),
        "variant": pl.Series([row.point.variant for row in rows], dtype=pl.String),
    }
    for ix, path in enumerate(paths):
        columns[path] = pl.Series([row.point.values[ix] for row in rows], dtype=pl.String)
    columns["verdict"] = pl.Series([row.verdict for row in rows], dtype=pl.String)
    columns["tightest"] = pl.Series([row.tightest and str(row.tightest) for row in rows], dtype=pl.String)
    margins = [row.tightest.margin_frac if row.tightest else None for row in rows]
    columns["margin_frac"] = pl.Series(margins, dtype=pl.Float64)
    for name in _none():
        columns[name] = pl.Series([_float(row.figures[name]) for row in rows], dtype=pl.Float64)
    for pool in dict.fromkeys(pool for row in rows for pool in row.fleet):
        counts = [row.fleet.get(pool, 0) if row.fleet else None for row in rows]
        columns[f"racks.{pool}"] = pl.Series(counts, dtype=pl.Int64)
    columns["verified"] = pl.Series([row.is_verified for row in rows], dtype=pl.Boolean)
    columns["reason"] = pl.Series([row.reason or None for row in rows], dtype=pl.String)
    return pl.DataFrame(columns)


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)


def cheapest(rows: Sequence[Row], by: str) -> Row | None:
    """Of the points that hold every limit the one with the least of a figure, the first of equals; None if none does.

    Points without limits hold none: where no class has limits nothing is cheapest.
    """
    held = [(row.figures[by], row.point.ix, row) for row in rows if row.holds and row.figures[by] is not None]
    return min(held, key=lambda each: each[:2])[2] if held else None


def nearest(rows: Sequence[Row]) -> Row | None:
    """Of the points that miss a limit the one whose tightest limit is the least beyond; None if none was simulated."""
    missed = [
        (float("-inf") if row.tightest.margin_frac is None else row.tightest.margin_frac, -row.point.ix, row)
        for row in rows
        if row.verdict == "missed" and row.tightest is not None
    ]
    return max(missed, key=lambda each: each[:2])[2] if missed else None
