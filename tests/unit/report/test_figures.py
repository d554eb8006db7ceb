"""The figures: laws of their frames, the same colours, what cannot be drawn is refused with the reason."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest

from planner import Result, units
from planner.errors import ScenarioError
from planner.report.figures import live, registry, sheet, style
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
        vega = style.compiled(drawn.chart)
        svg = style.inline_svg(vega, alt=drawn.alt)
        root = ElementTree.fromstring(svg)
        assert root.get("aria-label") == drawn.alt != ""
        assert len(list(root.iter("path"))) > 0
        assert "var(--" in svg
        assert style.png(drawn.chart).startswith(b"\x89PNG") if name in {"cost", "demand"} else True


def test_every_drawing_fits_the_schema_of_altair(result: Result, frames: dict[str, pl.DataFrame]) -> None:
    import altair

    for name, figure in registry.FIGURES.items():
        chart = registry.drawn(figure, frames[name], "base", registry.look_of(result)).chart
        if chart is not None:
            altair.Chart.from_dict({**chart, "config": style.config()})


def marks(vega: dict[str, object]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for mark in vega["marks"]:  # type: ignore[attr-defined]
        found += [mark, *(marks(mark) if "marks" in mark else [])]
    return found


def test_stills_are_the_live_drawings_without_what_is_only_live(
    result: Result, frames: dict[str, pl.DataFrame]
) -> None:
    look = registry.look_of(result)
    for name in registry.SIX:
        drawn = registry.drawn(registry.FIGURES[name], frames[name], "base", look)
        vega = style.compiled(drawn.chart)
        still, live = style.still(vega), style.live(vega)
        assert not any(str(mark.get("name", "")).startswith(style.LIVE) or "clip" in mark for mark in marks(still))
        has_live = any(str(mark.get("name", "")).startswith(style.LIVE) for mark in marks(live))
        assert has_live == (name in {"demand", "latency", "operating-point"})
        assert {signal["name"] for signal in live["signals"]} >= ({"pick", "t0", "t1"} if drawn.time else {"pick"})
        text = json.dumps(live)
        assert not any(f'"{colour}"' in text for colour in style.LIGHT.values()), name
        assert live["config"] == style.live_config()


def test_tables_say_what_the_rows_say(frames: dict[str, pl.DataFrame], result: Result) -> None:
    look = registry.look_of(result)
    drawn = {name: registry.drawn(registry.FIGURES[name], frames[name], "base", look) for name in registry.SIX}
    for each in drawn.values():
        assert each.sheet.rows
        assert {len(row) for row in each.sheet.rows} == {len(each.sheet.head)}
    busy = frames["busy"].filter(pl.col("variant") == "base", pl.col("pool") == "gb300")
    assert drawn["busy"].sheet.head == ["Time", "jalapeno", "gb300"]
    assert drawn["busy"].sheet.rows[0][0] == "0:00:00 to 0:00:20"
    assert drawn["busy"].sheet.rows[0][2] == units.format(busy["busy_frac"][0], "frac")
    cost = frames["cost"].filter(pl.col("variant") == "base")
    assert [row[2] for row in drawn["cost"].sheet.rows] == [units.format(usd, "money") for usd in cost["usd_per_h"]]


def test_long_tables_are_means_of_stretches() -> None:
    rows = pl.DataFrame(
        {"start_s": [60.0 * ix for ix in range(100)], "pool": ["a"] * 100, "x": [float(ix) for ix in range(100)]}
    )
    found = sheet.over_time(rows, live.time_of(6000.0), "x", "count", lambda row: row["pool"])
    assert len(found.rows) == 20
    assert found.rows[0] == ["0:00:00 to 0:05:00", "2"]
    assert found.rows[-1] == ["1:35:00 to 1:40:00", "97"]
    assert "Means of 5 stretches" in found.note


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


def test_names_of_curves_do_not_lie_upon_each_other_or_on_dots() -> None:
    from planner.report.figures import operating_point as figure

    ends, width = ((10.0, 1000.0), (1.0, 1e4)), 400.0
    curve = [
        {"line": f"pool-{ix}, gpt-oss-120b", "pool": "a", "x": 800.0, "y": 20.0 + ix, "n_seqs": 1} for ix in range(6)
    ]
    dots = figure._dot_labels(
        [{"x": 790.0, "y": 18.0, "pool": "a", "class": f"class {ix}"} for ix in range(40)], *ends, width
    )
    assert [dot["label"] for dot in dots] == ["class 0 and 39 more"]
    found = figure._labels(curve, dots, *ends, width)
    heights = sorted(figure._place(label["y"], ends[1], figure.HEIGHT) for label in found)
    assert all(b - a > 12.9 for a, b in pairwise(heights))
    assert heights[0] >= 6
    dot = figure._place(18.0, ends[1], figure.HEIGHT)
    assert all(abs(height - dot) >= 13 for height in heights)


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
