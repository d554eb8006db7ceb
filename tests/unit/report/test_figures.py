"""The figures: laws of their frames, the same colours, what cannot be drawn is refused with the reason."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest

from planner import Result
from planner.errors import ScenarioError
from planner.report.figures import registry, style
from planner.report.figures.frames import decades
from tests import reviews


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return reviews.several(tmp_path_factory.mktemp("several"))


@pytest.fixture(scope="module")
def frames(result: Result) -> dict[str, pl.DataFrame]:
    return registry.frames(result, registry.select(["all"]))


def rows(frame: pl.DataFrame, variant: str = "base") -> list[dict[str, object]]:
    return frame.filter(pl.col("variant") == variant).to_dicts()


def test_cost_bars_stand_upon_each_other_and_reach_the_whole(result: Result, frames: dict[str, pl.DataFrame]) -> None:
    for variant, tree in result.variants.items():
        bars = rows(frames["cost"], variant)
        at = 0.0
        for bar in bars:
            assert bar["from_usd_per_h"] == pytest.approx(at)
            at += bar["usd_per_h"]
        assert at == pytest.approx(tree["cost"]["usd_per_h"], rel=1e-12)
        for part, usd in tree["cost"]["parts"].items():
            assert sum(bar["usd_per_h"] for bar in bars if bar["part"] == part) == pytest.approx(usd or 0.0)


def test_demand_is_all_the_output_tokens_that_arrive(result: Result, frames: dict[str, pl.DataFrame]) -> None:
    found = rows(frames["demand"])
    starts = sorted({row["start_s"] for row in found})
    width = starts[1] - starts[0]
    asked = sum(row["demand_tokens_per_s"] for row in found) * width * 2  # two seeds
    table = result.tables["classes"].filter(pl.col("variant") == "base")
    assert asked == pytest.approx(table["output_tokens"].sum(), rel=1e-3)  # mean lengths are of each seed


def test_capacity_is_inside_the_limit_and_more_with_a_looser_one(result: Result) -> None:
    from planner.report.figures.demand import capacity_tokens_per_s

    curves = result.tables["curves"].filter((pl.col("variant") == "base") & (pl.col("model") == "kimi-k2.5"))
    found = [capacity_tokens_per_s(curves.to_dicts(), limit) for limit in (0.0001, 0.004, 0.02, None)]
    assert found[0] == 0
    assert found == sorted(found)
    one = curves.filter(pl.col("seed") == 3)
    inside = one.filter(pl.col("tpot_s") <= 0.02)["tokens_per_s_out"].max()
    assert found[2] == pytest.approx(inside, rel=0.01)


def test_curves_rise_with_the_batch_and_slow_each_user(result: Result) -> None:
    keys = ["variant", "seed", "pool", "model"]
    for _, curve in result.tables["curves"].group_by(keys, maintain_order=True):
        assert curve["n_seqs"].to_list() == sorted(curve["n_seqs"].to_list())
        assert curve["tpot_s"].to_list() == sorted(curve["tpot_s"].to_list())
        assert curve["n_seqs"][0] == 1


def test_the_run_lies_below_its_curve(frames: dict[str, pl.DataFrame]) -> None:
    found = rows(frames["operating-point"])
    for run in (row for row in found if row["what"] == "run"):
        curve = [
            row for row in found if (row["what"], row["pool"], row["model"]) == ("curve", run["pool"], run["model"])
        ]
        slower = [row for row in curve if row["tokens_per_s_per_user"] <= run["tokens_per_s_per_user"]]
        assert run["tokens_per_s_out_per_kw_chip_rated"] < max(
            row["tokens_per_s_out_per_kw_chip_rated"] for row in slower or curve
        )


def test_latency_rises_with_the_quantile_and_is_that_of_the_result(frames: dict[str, pl.DataFrame]) -> None:
    one = reviews.one()
    frame = registry.frames(one, registry.select(["latency"]))["latency"]
    for metric in ("ttft", "tpot"):
        mine = frame.filter(pl.col("metric") == metric)
        assert mine["value_s"].to_list() == sorted(mine["value_s"].to_list())
        for name, quantile in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
            value = mine.filter((pl.col("quantile") - quantile).abs() < 1e-9)["value_s"][0]
            assert value == one.variants["base"]["classes"]["chat"][f"{metric}_s"][name]
    limits = frames["latency"].filter((pl.col("variant") == "base") & pl.col("limit_s").is_not_null())
    assert sorted(limits["limit_s"].to_list()) == [0.002, 0.02, 0.5, 3.0, 60.0]


def test_busy_cells_mean_what_the_pool_was(frames: dict[str, pl.DataFrame]) -> None:
    found = frames["busy"].filter(pl.col("variant") == "base")
    assert ((found["busy_frac"] >= 0) & (found["busy_frac"] <= 1 + 1e-9)).all()
    assert found["end_s"].max() == 180.0


def test_sensitivity_is_widest_first_and_around_the_cost(result: Result, frames: dict[str, pl.DataFrame]) -> None:
    found = rows(frames["sensitivity"])
    swings = [row["swing_usd_per_h"] for row in found]
    assert swings == sorted(swings, reverse=True)
    assert {row["usd_per_h"] for row in found} == {result.variants["base"]["seeds"][0]["cost"]["usd_per_h"]}


def test_shares_are_whole(frames: dict[str, pl.DataFrame]) -> None:
    for name in ("steps", "balance"):
        for _, mine in frames[name].group_by(["variant", "pool", "model"]):
            assert math.fsum(mine["share_frac"]) == pytest.approx(1.0)
    inside = frames["attainment"]["attainment_frac"].drop_nulls()
    assert ((inside >= 0) & (inside <= 1)).all()


def test_every_figure_is_drawn_as_svg_that_parses_with_its_words(
    result: Result, frames: dict[str, pl.DataFrame]
) -> None:
    look = registry.look_of(result)
    for name, figure in registry.FIGURES.items():
        drawn = registry.drawn(figure, frames[name], "base", look)
        if name in registry.NEEDS:
            assert drawn.chart is None
            assert drawn.why == registry.NEEDS[name]
            continue
        svg = style.inline_svg(drawn.chart, alt=drawn.alt)
        root = ElementTree.fromstring(svg)
        assert root.get("aria-label") == drawn.alt != ""
        assert len(list(root.iter("path"))) > 0
        assert "var(--" in svg
        assert style.png(drawn.chart).startswith(b"\x89PNG") if name in {"cost", "demand"} else True


def test_a_pool_has_one_colour_in_all_variants(result: Result) -> None:
    look = registry.look_of(result)
    assert list(look.pools) == ["jalapeno", "gb300"]
    assert look.colours == [style.LIGHT["p0"], style.LIGHT["p1"]]


def test_what_no_result_can_show_is_refused_with_what_can() -> None:
    with pytest.raises(ScenarioError) as caught:
        registry.select(["queue", "laency", "price-surface"])
    text = str(caught.value)
    assert "in-flight" in text
    assert "did you mean latency" in text
    assert "planner sweep" in text


def test_a_short_axis_has_ticks_and_a_long_one_few() -> None:
    assert decades([0.021, 0.034])[1] == [0.02]
    assert len(decades([1e-9, 1e6])[1]) <= 5


def contrast(one: str, other: str) -> float:
    """Of WCAG 2.2, 1.4.3."""

    def luminance(colour: str) -> float:
        parts = [int(colour[ix : ix + 2], 16) / 255 for ix in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def test_words_have_the_contrast_of_wcag_aa() -> None:
    from planner.report import page_style

    for colours, extra in ((style.LIGHT, page_style._LIGHT), (style.DARK, page_style._DARK)):
        for role, colour in {**colours, **extra}.items():
            if role not in {"line", "paper", "well", "shade"}:
                assert contrast(colour, extra["paper"]) >= 4.5, role


def test_timeline_gives_batches(tmp_path: Path) -> None:
    import planner

    sets = ("run.length=20 s", "run.warmup=1 s")
    scenario = planner.load(reviews.ROOT / "scenarios" / "01-one-rack.yaml", sets=sets)
    frame = registry.frames(planner.run(scenario, keep_timeline=True), registry.select(["batch"]))["batch"]
    assert math.fsum(frame["share_frac"]) == pytest.approx(1.0)
    assert frame["n_decoding"].max() > 1
