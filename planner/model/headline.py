"""The headline table: every published figure beside the model's, with its band; the three ratios are checks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from planner.facts import catalog
from planner.facts.headline import Headline, Target
from planner.model import systems
from planner.model.calibration import Calibration
from planner.model.infer import (
    FITTED,
    PRECISION,
    Side,
    at_its_best,
    figure_name,
    iso,
    lengths_of,
    member_system,
    reference_points,
    side,
)
from planner.model.posterior import Posterior
from planner.model.sweep import Lengths, pool, sweep
from planner.model.unknowns import CHIP

if TYPE_CHECKING:
    from planner.model.figures import Figures

__all__ = ["table"]

_HALF_BAND = 1.2816
"""Standard deviations to either end of an 80 % band."""
_ROW = {"min_tbt": "tbt", "min_e2e_latency": "e2e", "peak_mixed_tps_per_kw": "peak"}


def table(calibration: Calibration, posterior: Posterior) -> list[dict[str, Any]]:
    """A row for each published figure: `id, side, metric, unit, published, model, residual_frac, low, high, in_band`.

    Jalapeño is its best member, banded by all members and the model's error; a reference is its best measured stack,
    banded by the regime of the calibration. `ratio` rows compare both at the reference's best time between tokens.
    """
    facts = catalog.load()
    headline = facts.headline(CHIP)
    lengths = lengths_of(headline)
    ours: dict[str, Side] = {}
    theirs: dict[str, Side] = {}
    for target in headline.targets:
        if target.model not in ours:
            base = pool(facts.chip(CHIP), facts.model(target.model), precision=PRECISION)
            system = member_system(posterior.best.values, base, calibration)
            points = sweep(system, lengths, regimes=("closed_loop",))
            ours[target.model] = _side(points, lengths, headline, CHIP)
            points = reference_points(target.reference, target.model, lengths, calibration)
            theirs[target.model] = _side(points, lengths, headline, target.reference)
    rows = []
    for target in headline.targets:
        rows += _rows(target, headline, ours[target.model], theirs[target.model], lengths, calibration, posterior)
    order = ("jalapeno", "reference", "ratio")
    return sorted(rows, key=lambda row: order.index(row["side"]))


def _side(points: Any, lengths: Lengths, headline: Headline, chip: str) -> Side:
    found = side(points, lengths, headline.rated_power_w[chip].number)
    assert found is not None, "every chip of the headline holds its models"
    return found


def _rows(
    target: Target,
    headline: Headline,
    ours: Side,
    theirs: Side,
    lengths: Lengths,
    calibration: Calibration,
    posterior: Posterior,
) -> list[dict[str, Any]]:
    low, high = _predictive(target, posterior)
    if target.metric in FITTED:
        mine, other = ours.values[target.metric], theirs.values[target.metric]
        factors = _factors(theirs.figures, _ROW[target.metric], target, lengths, calibration)
    else:
        mine = iso(ours, target, headline.rated_power_w[CHIP].number)
        other = at_its_best(theirs, headline.rated_power_w[target.reference].number)
        factors = _factors(theirs.figures, "tbt", target, lengths, calibration)
    rows = []
    if target.value is not None:
        rows.append(_row(target, "jalapeno", target.unit, target.value, mine, low, high))
    if target.reference_value is not None:
        rows.append(
            _row(
                target, "reference", target.unit, target.reference_value, other, other * factors[0], other * factors[1]
            )
        )
    if target.at_tbt_s is not None:
        published = target.ratio_derived or target.ratio_claimed
        assert published is not None
        below = math.hypot(math.log(mine / low), math.log(factors[1]))
        above = math.hypot(math.log(high / mine), math.log(factors[0]))
        ratio = mine / other
        rows.append(_row(target, "ratio", "x", published, ratio, ratio * math.exp(-below), ratio * math.exp(above)))
    return rows


def _predictive(target: Target, posterior: Posterior) -> tuple[float, float]:
    """Where a measurement of Jalapeño would lie: the members' band, moved by the error that the reference shows and
    widened by what the model is off by on a chip that no calibration has seen, as the posterior's error model has both.
    """
    name = figure_name(target.model, target.metric)
    errors = {one["id"]: one for one in posterior.tree["error_model"]["figures"]}
    family = target.id.split("-")[0]
    error = errors.get(target.id) or errors[f"{family}-peak"]
    own = _HALF_BAND * float(error["scale"])
    best, (low, high) = posterior.best.figures[name], posterior.band(name)
    middle = best * math.exp(-float(error["expected_residual"]))
    below = math.hypot(math.log(best / min(low, best)), own)
    above = math.hypot(math.log(max(high, best) / best), own)
    return middle * math.exp(-below), middle * math.exp(above)


def _factors(
    found: Figures, which: str, target: Target, lengths: Lengths, calibration: Calibration
) -> tuple[float, float]:
    """The band of a reference figure, as factors."""
    point = found.rows[which]
    row = {
        "chip": target.reference,
        "model": target.model,
        "backend": point["engine"] if point["engine"] != systems.POOLED else "",
        "mode": point["mode"],
        "concurrency": float(point["concurrency"]),
    }
    tbt, ttft = calibration.band(row, "tpot"), calibration.band(row, "ttft")
    if target.metric == "min_tbt":
        return tbt
    decode_s = (lengths.mean_output - 1.0) * point["tbt_s"]
    e2e = tuple((point["ttft_s"] * t + decode_s * d) / point["e2e_s"] for t, d in zip(ttft, tbt, strict=True))
    return (e2e[0], e2e[1]) if target.metric == "min_e2e_latency" else (1.0 / e2e[1], 1.0 / e2e[0])


def _row(
    target: Target, which: str, unit: str, published: float, model: float, low: float, high: float
) -> dict[str, Any]:
    return {
        "id": target.id,
        "side": which,
        "metric": target.metric,
        "unit": unit,
        "published": published,
        "model": model,
        "residual_frac": model / published - 1.0,
        "low": low,
        "high": high,
        "in_band": low <= published <= high,
    }
