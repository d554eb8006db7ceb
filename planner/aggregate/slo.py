"""Limits, attainment and verdict of a class, over everything that it offered in the measured span."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.aggregate.latency import quantiles_of

if TYPE_CHECKING:
    import polars as pl

    from planner.scenario.schema import Limit, Slo


@dataclass(frozen=True, slots=True)
class Counts:
    """What a class offered in the span, and what became of it."""

    offered: int
    completed: int
    attained: int
    single_token: int
    """Completed with one output token: they have no TPOT and no gap, and are inside any limit on them."""
    tasks: int = 0
    """Sessions and tasks that began in the span."""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Counts:
        """The counts of a row of the core's `classes`."""
        names = ("offered", "completed", "attained", "single_token", "tasks")
        return cls(*(row[f"span_{name}"] for name in names))


def judged_limits(sketches: pl.DataFrame, class_ix: int, counts: Counts, slo: Slo) -> list[dict[str, Any]]:
    """Each limit of a class with the value that it is held against, and whether it holds.

    The quantile is over the offered requests; one without a value lies beyond every limit, except that a request of one
    output token is inside any TPOT. Gaps (itl) are pooled over all tokens, so their quantile is over the gaps; that of
    task is over the sessions and tasks that began. `met` is None where nothing was offered, or no task began.
    """
    if not counts.offered:
        return [_row(limit, None, None) for limit in slo.limits]
    asked = [(class_ix, limit.metric, *_population(limit, counts)) for limit in slo.limits]
    values = quantiles_of(sketches, asked)
    return [_row(limit, value, _is_met(limit, counts, value)) for limit, value in zip(slo.limits, values, strict=True)]


def _population(limit: Limit, counts: Counts) -> tuple[float, int, int | None]:
    """Quantile, members below every value, and size: what `core.quantiles` is to read."""
    if limit.metric == "itl":
        return limit.quantile, 0, None
    if limit.metric == "task":
        return limit.quantile, 0, counts.tasks
    n_low = counts.single_token if limit.metric == "tpot" else 0
    rank = limit.quantile * (counts.offered - 1)
    if n_low and int(rank) < n_low < rank + 1:
        return 0.0, 0, None  # between the last request without a TPOT and the first with one: the least TPOT there is
    return limit.quantile, n_low, counts.offered


def _is_met(limit: Limit, counts: Counts, value: float | None) -> bool | None:
    if limit.metric == "task" and not counts.tasks:
        return None
    return _is_inside(limit, counts, value)


def _is_inside(limit: Limit, counts: Counts, value: float | None) -> bool:
    """Whether the limit holds; a quantile without a value is inside only where it falls on requests of one token."""
    if value is not None:
        return value <= limit.limit_s
    if limit.metric == "tpot":
        return limit.quantile * (counts.offered - 1) <= counts.single_token - 1
    return limit.metric == "itl" and counts.single_token == counts.offered


def _row(limit: Limit, value: float | None, met: bool | None) -> dict[str, Any]:
    return {
        "metric": limit.metric,
        "quantile": limit.label,
        "limit": limit.limit_s,
        "value": value,
        "margin_frac": None if value is None else (limit.limit_s - value) / limit.limit_s,
        "met": met,
    }


def attainment(counts: Counts, slo: Slo | None) -> float | None:
    """Share of the offered requests inside every limit; None without limits or requests."""
    return None if slo is None or not counts.offered else counts.attained / counts.offered


def means_judged(rows: Sequence[Mapping[str, Any]], mean: Mapping[str, Any]) -> dict[str, Any]:
    """One limit over several seeds: the mean value decides; where a seed has none, all seeds have to hold."""
    mets = [row["met"] for row in rows]
    if mean["value"] is not None:
        met: bool | None = mean["value"] <= mean["limit"]
    else:
        met = None if None in mets else all(mets)
    return {**mean, "met": met}


def verdict(figures: Mapping[str, Any]) -> str | None:
    """met, missed or unknown (nothing was offered), from `offered`, `limits` and attainment; None without limits."""
    if not figures["limits"]:
        return None
    if not figures["offered"]:
        return "unknown"
    asked, reached = figures["attainment_limit_frac"], figures["attainment_frac"]
    holds = all(limit["met"] for limit in figures["limits"])
    if asked is not None:
        holds = holds and reached is not None and reached >= asked
    return "met" if holds else "missed"


def n_missed(figures: Mapping[str, Any]) -> int:
    """How many limits of a class do not hold, the attainment included."""
    asked, reached = figures["attainment_limit_frac"], figures["attainment_frac"]
    below = asked is not None and reached is not None and reached < asked
    return sum(limit["met"] is False for limit in figures["limits"]) + below


@dataclass(frozen=True, slots=True)
class Tightest:
    """The limit of a variant that is nearest to being missed, or furthest beyond."""

    name: str
    """Name of the class."""
    metric: str
    """A latency, or `attainment`."""
    quantile: str | None
    """None for the attainment."""
    margin_frac: float | None
    """Spare as a share of the limit, negative beyond it; of an attainment, of the misses that it allows. None where
    the quantile falls on requests without a value, or misses are not allowed at all."""
    label: str = ""
    """What is changed where it is of a check: `a rack of gb300 out`."""

    def __str__(self) -> str:
        limit = " ".join(part for part in (self.name, self.metric, self.quantile) if part)
        return f"{limit} with {self.label}" if self.label else limit


def tightest(tree: Mapping[str, Any]) -> Tightest | None:
    """Of all limits of a variant or seed the one with the least margin; None where no class has limits.

    Those of its checks count too; one that could not be simulated is beyond all measure, and has no class.
    """
    found = list(_margins(tree["classes"], ""))
    for check in tree.get("checks", ()):
        if check["reason"] and check["verdict"] == "missed":
            found.append(Tightest("", "", None, None, check["label"]))
        found += _margins(check["classes"], check["label"])
    return min(found, key=_rank) if found else None


def _rank(limit: Tightest) -> float:
    return float("-inf") if limit.margin_frac is None else limit.margin_frac


def _margins(classes: Mapping[str, Any], label: str) -> Iterator[Tightest]:
    for name, figures in classes.items():
        for limit in figures["limits"]:
            margin = limit["margin_frac"]
            if margin is None and limit["met"] is not False:
                continue  # nothing was offered, or every request is inside without a value
            yield Tightest(name, limit["metric"], limit["quantile"], margin, label)
        asked, reached = figures["attainment_limit_frac"], figures["attainment_frac"]
        if asked is not None and reached is not None:
            spare = 1 - (1 - reached) / (1 - asked) if asked < 1 else 0.0 if reached >= asked else None
            yield Tightest(name, "attainment", None, spare, label)


def n_missed_of_all(tree: Mapping[str, Any]) -> int:
    """How many limits of a variant do not hold, those of its checks included; a check without figures counts one."""
    missed = sum(n_missed(figures) for figures in tree["classes"].values())
    for check in tree.get("checks", ()):
        missed += sum(n_missed(figures) for figures in check["classes"].values())
        missed += bool(check["reason"]) and check["verdict"] == "missed"
    return missed


def verdict_of_all(verdicts: Sequence[str | None]) -> str | None:
    """One word for several classes: missed before unknown before met; None where no class has limits."""
    return next((word for word in ("missed", "unknown", "met") if word in verdicts), None)
