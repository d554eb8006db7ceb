"""`planner frontier`: latency against throughput a chip, a kW and a dollar, for one model on several chips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.aggregate.cost import NANO, Terms, charges
from planner.aggregate.inputs import Span
from planner.aggregate.power import Activity, Book, PoolPower, rack_it_w
from planner.errors import FactError, Fault, Infeasible, Notice
from planner.facts import catalog
from planner.facts.fact import Fact
from planner.facts.schema import Chip, Model
from planner.fleet.fleet import Fleet, PoolLayout
from planner.model import systems
from planner.model.calibration import shipped as calibrated
from planner.model.frontier import mark, with_bands, without_losers
from planner.model.posterior import shipped as inferred
from planner.model.sweep import Lengths, Pool, System, pool, sweep
from planner.model.unknowns import habits
from planner.scenario.schema import CostSpec

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

__all__ = ["Frontier", "frontier"]

SECONDS_PER_HOUR = 3600
_MOST_STAGES = 8
"""Pipeline stages that are tried where the model fits no layout in one."""


@dataclass(frozen=True, slots=True)
class Frontier:
    """Points of all chips, a row each, and what a reader should know of them."""

    model: str
    lengths: Lengths
    points: pl.DataFrame
    notices: tuple[Notice, ...]


def frontier(
    model: str,
    chips: Sequence[str],
    lengths: Lengths | None = None,
    *,
    precision: str | None = None,
    prefill_chip: str | None = None,
    most_stages: int | None = None,
    speculation: Mapping[str, float] | None = None,
) -> Frontier:
    """Sweeps the model over the chips, every stack of each; `prefill_chip` moves the prompts of split deployments.
    `speculation` has `draft_tokens`, `acceptance_frac` and `draft_cost_frac` of speculative decoding.
    Pipeline stages are tried in powers of two up to `most_stages`; without it, where the model fits no layout in one.

    `lengths` is prompt and output in tokens; without it those of the published figures, 8192 and 1024, drawn evenly
    from 0.8 to 1 of that.

    Raises:
        FactError: a name is unknown, or a fact is missing.
        Infeasible: the model fits none of the chips.
    """
    import polars as pl

    lengths = lengths or Lengths(8192, 1024, 0.8)
    facts = catalog.load()
    what = facts.model(model)
    calibration, posterior = calibrated(), inferred()
    mine = habits(posterior.best.values, calibration.habits[systems.POOLED])
    frames: list[pl.DataFrame] = []
    notices: list[Notice] = []
    other = facts.chip(prefill_chip) if prefill_chip is not None else None
    for name in dict.fromkeys(chips):
        chip = facts.chip(name)
        label = precision or _precision(chip, what)
        held = _pool(chip, what, label, speculation)
        notices += held.notices
        stacks = systems.of(held, label, mine, calibration)
        if other is not None:
            prompts = systems.of(_pool(other, what, precision or _precision(other, what)), label, mine, calibration)[-1]
            stacks = [systems.with_prompts_on(one, prompts) for one in stacks if "disagg" in one.modes]
        points = _swept(stacks, lengths, _powers(1, most_stages or 1))
        if points.is_empty() and most_stages is None:
            points = _swept(stacks, lengths, _powers(2, _MOST_STAGES))
            if not points.is_empty():
                notices.append(Notice("pipeline_stages", f"{what.name} fits {name} in several pipeline stages only"))
        if points.is_empty():
            notices.append(Notice("does_not_fit", f"{what.name} fits no layout of {name}"))
            continue
        if "measured" not in points["stack"] and "pooled" in points["stack"]:
            text = f"{what.name} at {label} was measured on no chip of {chip.vendor}: on {name} all engines are pooled"
            notices.append(Notice("not_measured", text))
        elif "measured" in points["stack"] and name not in calibration.tree["known"]["chips"]:
            text = f"{name} was not measured: its best stack is that of {what.name} on {chip.vendor}'s other chips"
            notices.append(Notice("other_chip", text))
        points = with_bands(points, held, lengths, label, calibration, posterior)
        points = points.with_columns(precision=pl.lit(held.precision_words))
        frames.append(_priced(points, chip, other or chip, lengths, notices))
    if not frames:
        raise Infeasible(Fault(f"{what.name} fits none of {', '.join(chips)}", "name chips with more memory"))
    table = mark(pl.concat(frames))
    return Frontier(what.name, lengths, table, tuple(dict.fromkeys(notices)))


def _swept(stacks: Sequence[System], lengths: Lengths, stages: Sequence[int]) -> pl.DataFrame:
    import polars as pl

    swept = [sweep(one, lengths, stages=stages) for one in stacks]
    return without_losers(pl.concat(swept)) if swept else pl.DataFrame()


def _powers(least: int, most: int) -> list[int]:
    """The powers of two from `least`, which is one, to `most`."""
    found = [least]
    while found[-1] * 2 <= most:
        found.append(found[-1] * 2)
    return found


def _precision(chip: Chip, model: Model) -> str:
    """The narrowest format that benchmarks run on the chip: 4 bit, 8 bit, or bf16."""
    formats = model.weights.group["native_format"]
    experts = formats.get("experts") if isinstance(formats, dict) else None

    def computes(rate: str) -> bool:
        fact = chip.flop_per_s.get(rate)
        return fact is not None and fact.used is not None

    if computes("fp4") or experts in {"mxfp4", "nvfp4"}:
        return "fp4"
    return "fp8" if computes("fp8") else "bf16"


def _pool(chip: Chip, model: Model, precision: str, speculation: Mapping[str, float] | None = None) -> Pool:
    kv_dtype = "bf16" if precision == "bf16" else "fp8"
    return pool(chip, model, precision=precision, kv_dtype=kv_dtype, speculation=speculation)


def _priced(points: pl.DataFrame, chip: Chip, prompts: Chip, lengths: Lengths, notices: list[Notice]) -> pl.DataFrame:
    """Adds tokens a kW on each power basis and USD a million tokens, whole racks of such work."""
    import numpy as np
    import polars as pl

    share = points["prefill_share"].to_numpy()
    zero = np.zeros_like(share)
    busy, usd, rated = zero, zero, zero
    for one, draw, part in ((chip, "chip_w", 1.0 - share), (prompts, "prefill_chip_w", share)):
        rack = _rack(one, notices)
        rated = rated + part * one.tdp_w.number
        if rack is None:
            busy = usd = np.full_like(share, np.nan)
            break
        watts, fixed_usd_per_h = rack.per_chip(points[draw].to_numpy())
        energy_usd_per_h = watts / 1000 * rack.fleet.pue.number * rack.fleet.electricity_usd_per_kwh.number
        busy, usd = busy + part * watts, usd + part * (fixed_usd_per_h + energy_usd_per_h)
    pue = catalog.load().general()["pue_default"].number
    mixed = pl.col("tok_s_chip") * lengths.mixed_per_output
    return (
        points.with_columns(rated_w=pl.Series(rated), it_w=pl.Series(busy), usd_h=pl.Series(usd))
        .with_columns(
            mixed_tok_s_chip=mixed,
            mixed_tok_s_kw_chip_rated=mixed / pl.col("rated_w") * 1000,
            mixed_tok_s_kw_rack_it=(mixed / pl.col("it_w") * 1000).fill_nan(None),
            mixed_tok_s_kw_facility=(mixed / pl.col("it_w") / pue * 1000).fill_nan(None),
            usd_per_mtok=(pl.col("usd_h") / SECONDS_PER_HOUR / mixed * 1e6).fill_nan(None),
            usd_per_mtok_out=(pl.col("usd_h") / SECONDS_PER_HOUR / pl.col("tok_s_chip") * 1e6).fill_nan(None),
        )
        .drop("rated_w", "it_w", "usd_h")
    )


@dataclass(frozen=True, slots=True)
class _Racked:
    """One rack of a chip, as a fleet."""

    fleet: Fleet

    def per_chip(self, chip_w: np.ndarray) -> tuple[np.ndarray, float]:
        """IT watts of the rack for each chip at these draws, and what it costs an hour and chip beside its energy."""
        import numpy as np

        pool_ = self.fleet.pools[0]
        doing = Activity(chip_w * pool_.n_chips, np.zeros_like(chip_w))
        high = pool_.chip.high_load_w or Fact(float(chip_w.max()), unit="w", kind="power")
        parked = pool_.chip.parked_w or pool_.chip.idle_w
        power = PoolPower(pool_, parked, high, Activity(np.zeros(1), np.zeros(1)), doing, np.zeros(0, dtype=np.int64))
        terms = Terms.of(CostSpec.model_validate({}), catalog.load().finance())
        made = charges(self.fleet, terms, [power], Span(0, NANO, NANO))
        fixed = sum(one.nano_usd_per_h for one in made if one.part != "energy") / NANO
        watts: np.ndarray = rack_it_w(power, doing, Book()) / pool_.n_chips
        return watts, fixed / pool_.n_chips


def _rack(chip: Chip, notices: list[Notice]) -> _Racked | None:
    """The first rack of the catalogue with this chip; None, with a notice, if there is none or it has no price."""
    facts = catalog.load()
    for name in facts.names("racks"):
        rack = facts.rack(name)
        if rack.chip != chip.name:
            continue
        try:
            n_chips = int(rack.n_chips.number)
            _ = rack.capex_usd.number, rack.rated_w.number, rack.typical_w.number, rack.idle_w.number
        except FactError:
            continue
        layout = PoolLayout(rack.name, rack, chip, 1, 0, (), n_chips, 0, rack.capex_usd, None)
        general, finance = facts.general(), facts.finance()
        pue, price = general["pue_default"], finance["electricity_usd_per_kwh"]
        carbon = general["world_carbon_kgco2e_per_kwh"]
        return _Racked(Fleet((layout,), (), pue, price, carbon, rack.rated_w.number * pue.number, None, ()))
    text = f"no rack of the catalogue has {chip.name} and a price: no figure per rack kW or dollar"
    notices.append(Notice("no_rack", text))
    return None
