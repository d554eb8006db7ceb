"""Frontiers with racks: power bases that are never mixed, and the money rules of a run."""

from __future__ import annotations

import polars as pl
import pytest

from planner.aggregate.cost import annuity_frac
from planner.errors import FactError, Infeasible
from planner.facts import catalog
from planner.model.sweep import Lengths
from planner.study.frontier import Frontier, frontier

LENGTHS = Lengths(8192, 1024, 0.8)


@pytest.fixture(scope="module")
def found() -> Frontier:
    return frontier("gpt-oss-120b", ["jalapeno", "gb200"], LENGTHS)


def test_both_stacks_are_shown_and_named(found: Frontier) -> None:
    stacks = {(chip, stack) for chip, stack in found.points.select("chip", "stack").unique().rows()}
    assert stacks == {("jalapeno", "inferred"), ("gb200", "measured"), ("gb200", "pooled")}
    assert set(found.points["grade"]) <= {"estimate", "assumed"}
    assert set(found.points.filter(pl.col("chip") == "jalapeno")["grade"]) == {"assumed"}


def test_marks_are_of_unbeaten_points(found: Frontier) -> None:
    for chip in ("jalapeno", "gb200"):
        of_chip = found.points.filter(pl.col("chip") == chip)
        best = of_chip.filter("pareto")
        assert best.height > 3
        for row in best.iter_rows(named=True):
            beating = of_chip.filter(
                (pl.col("tbt_s") <= row["tbt_s"])
                & (pl.col("tok_s_chip") >= row["tok_s_chip"])
                & ((pl.col("tbt_s") < row["tbt_s"]) | (pl.col("tok_s_chip") > row["tok_s_chip"]))
            )
            assert beating.is_empty()


def test_power_bases_stand_in_order(found: Frontier) -> None:
    pue = catalog.load().general()["pue_default"].number
    for row in found.points.iter_rows(named=True):
        rated_kw = {"jalapeno": 0.7, "gb200": 1.2}[row["chip"]]
        assert row["mixed_tok_s_kw_chip_rated"] == pytest.approx(row["tok_s_chip"] * 9 / rated_kw)
        assert row["mixed_tok_s_kw_facility"] == pytest.approx(row["mixed_tok_s_kw_rack_it"] / pue)


def test_cost_is_the_rack_s_hour_over_its_tokens(found: Frontier) -> None:
    facts = catalog.load()
    rack, finance, general = facts.rack("gb200-nvl72"), facts.finance(), facts.general()
    yearly = annuity_frac(*(finance[name].number for name in ("life_years", "discount_frac", "residual_frac")))
    capex, chips = rack.capex_usd.number, rack.n_chips.number
    fixed = capex * yearly * (1 + finance["storage_frac"].number) + capex * finance["upkeep_frac"].number
    fixed += chips * finance["network_usd_per_chip"].number * yearly
    for row in found.points.filter(pl.col("chip") == "gb200").head(50).iter_rows(named=True):
        facility_kw = row["tok_s_chip"] * 9 / row["mixed_tok_s_kw_rack_it"] * general["pue_default"].number
        usd_h = fixed / 8760 / chips + facility_kw * finance["electricity_usd_per_kwh"].number
        assert row["usd_per_mtok"] == pytest.approx(usd_h / 3600 / (row["tok_s_chip"] * 9) * 1e6, rel=1e-6)
        assert row["usd_per_mtok_out"] == pytest.approx(9 * row["usd_per_mtok"])


def test_bands_hold_the_point(found: Frontier) -> None:
    for name in ("tbt", "ttft", "e2e"):
        inside = (pl.col(f"{name}_low_s") <= pl.col(f"{name}_s")) & (pl.col(f"{name}_s") <= pl.col(f"{name}_high_s"))
        assert found.points.filter(~inside).is_empty()
    assert found.points.filter(pl.col("tok_s_chip") < pl.col("tok_s_chip_low")).is_empty()


def test_wrong_names_and_what_fits_nowhere() -> None:
    with pytest.raises(FactError, match="gb200"):
        frontier("gpt-oss-120b", ["gb20"], LENGTHS)
    with pytest.raises(Infeasible, match="fits none of"):
        frontier("deepseek-r1", ["rtx-4090"], LENGTHS)


def test_stages_are_tried_where_asked_for_and_where_nothing_else_fits() -> None:
    # GLM-5 in fp8 does not fit eight H100; two servers in stages hold it.
    only = frontier("glm-5", ["h100-sxm"], LENGTHS)
    assert set(only.points["pp"]) <= {2, 4, 8}
    assert set(only.points["grade"]) == {"assumed"}
    assert "pipeline_stages" in {notice.code for notice in only.notices}
    plain = frontier("gpt-oss-120b", ["h100-sxm"], LENGTHS)
    asked = frontier("gpt-oss-120b", ["h100-sxm"], LENGTHS, most_stages=4)
    assert set(plain.points["pp"]) == {1}
    assert set(asked.points["pp"]) == {1, 2, 4}
    chips = asked.points.filter(pl.col("mode") == "agg")
    assert (chips["chips"] == chips["tp"] * chips["dp"] * chips["pp"]).all()
    # What has one stage is what it was without the others.
    columns = [name for name in plain.points.columns if name not in {"pareto", "pareto_of"}]
    kept = asked.points.filter((pl.col("pp") == 1) & (pl.col("prefill_pp") <= 1) & (pl.col("mode") == "agg"))
    assert kept.select(columns).equals(plain.points.filter(pl.col("mode") == "agg").select(columns))


def test_drafts_give_a_user_more_tokens() -> None:
    drafts = {"draft_tokens": 3, "acceptance_frac": 0.7, "draft_cost_frac": 0.05}
    plain = frontier("llama-3.1-70b", ["gb200"], LENGTHS).points
    drafted = frontier("llama-3.1-70b", ["gb200"], LENGTHS, speculation=drafts).points
    assert drafted["tok_s_user"].max() > 1.5 * plain["tok_s_user"].max()  # type: ignore[operator]
