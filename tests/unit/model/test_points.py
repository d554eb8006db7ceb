"""Tables of measured points: rules by name, faults with their places, rows to deployments."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.errors import FactError
from planner.model.calibration import shipped
from planner.model.points import read_points, steady

HEAD = (
    "point,deployment,model,chip,backend,precision,mode,isl_mean,osl_mean,concurrency,chips,attention_dp,"
    "prefill_workers,prefill_chips,prefill_attention_dp,decode_workers,decode_chips,decode_attention_dp,clean,ttft_ms,tpot_ms\n"
)
AGG = "a,d,llama-3.1-8b,h100-sxm,vllm,bf16,agg,900,900,{c},1,1,,,,,,,true,60,8\n"
SPLIT = "b,e,deepseek-r1,gb200,trtllm,fp4,disagg,900,900,64,,,,4,4,,8,1,true,,\n"


def points(tmp_path: Path, *rows: str, head: str = HEAD):
    path = tmp_path / "points.csv"
    path.write_text(head + "".join(rows), encoding="utf-8")
    return read_points(path)


def test_rows_of_one_deployment_share_a_group(tmp_path: Path) -> None:
    found = points(tmp_path, AGG.format(c=4), AGG.format(c=8), SPLIT)
    assert found.group_ix == [0, 0, 1]
    assert found.refusals == ["", "", ""]
    assert found.groups[0]["prefill"] is None
    assert found.groups[1]["layout"]["tp"] == 8
    assert found.groups[1]["prefill"]["dp"] == 4


def test_an_eight_bit_cache_beside_eight_bit_weights(tmp_path: Path) -> None:
    found = points(tmp_path, AGG.format(c=4), AGG.format(c=4).replace("bf16", "fp8"))
    assert [group["precision"]["kv_bytes_per_element"] for group in found.groups] == [2.0, 1.0]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("llama-3.1-8b", "llama-9", "llama-9"),
        ("h100-sxm", "h1000", "h1000"),
        (",agg,", ",aggg,", "mode 'aggg'; did you mean"),
        ("900,900", "900,0", "osl_mean must be positive"),
        ("agg,900", "agg,", "no isl_mean"),
        (",1,1,,", ",,1,,", "no chips"),
        (",1,1,,", ",4,3,,", "attention_dp 3: chips must be a multiple of it, not 4"),
        (",1,1,,", ",4,8,,", "attention_dp 8: chips must be a multiple of it, not 4"),
        (",1,1,,", ",1.5,0,,", "chips 1.5, attention_dp 0: must be whole and positive"),
        (",4,1,1,", ",inf,1,1,", "concurrency must be positive"),
        (",4,1,1,", ",nan,1,1,", "no concurrency"),
    ],
)
def test_a_row_that_cannot_be_placed_says_why(tmp_path: Path, old: str, new: str, says: str) -> None:
    found = points(tmp_path, AGG.format(c=4).replace(old, new), AGG.format(c=4))
    assert found.group_ix == [-1, 0]
    assert says in found.refusals[0]


def test_a_missing_column_and_a_word_for_a_number(tmp_path: Path) -> None:
    with pytest.raises(FactError, match="no column 'concurrency'"):
        points(tmp_path, head=HEAD.replace("concurrency,", ""))
    with pytest.raises(FactError, match=r"points.csv:2: concurrency: 'many' is not a number"):
        points(tmp_path, AGG.format(c="many"))


def test_every_cell_that_is_no_number_or_date_is_told_at_once(tmp_path: Path) -> None:
    head = HEAD.replace("ttft_ms", "measured_on,ttft_ms")
    rows = [AGG.format(c=c).replace("true,60", f"true,{day},60") for c, day in ((4, "soon"), ("a", ""), ("b", ""))]
    with pytest.raises(FactError) as error:
        points(tmp_path, *rows, AGG.format(c=4).replace("true,60", "true,,x"), head=head)
    assert [(fault.path, fault.line, fault.what) for fault in error.value.faults] == [
        ("measured_on", 2, "'soon' is not a date"),
        ("concurrency", 3, "'a' is not a number (2 rows)"),
        ("ttft_ms", 5, "'x' is not a number"),
    ]


def test_a_date_moves_the_time_between_tokens_and_nothing_else(tmp_path: Path) -> None:
    head = HEAD.replace("ttft_ms", "measured_on,ttft_ms")
    dates = ("", "2026-01-01", "2025-10-03", "2026-04-01T10:00:00", "2031-01-01", "2026-06-30")
    rows = [AGG.format(c=4).replace("true,60", f"true,{day},60") for day in dates]
    found = shipped().predict(points(tmp_path, *rows, head=head)).values
    none, middle, before, after, far, last = found["tpot_s"]
    assert none == middle
    assert after < middle < before  # stacks got faster
    assert far == last  # no faster than at the end of what was measured
    assert len(set(found["ttft_s"])) == 1
    with pytest.raises(FactError, match=r"points.csv:2: measured_on: 'soon' is not a date"):
        points(tmp_path, AGG.format(c=4).replace("true,60", "true,soon,60"), head=head)


def test_weights_that_do_not_fit_are_a_physical_reason(tmp_path: Path) -> None:
    from planner.model.calibration import shipped

    row = AGG.format(c=4).replace("llama-3.1-8b", "llama-3.1-405b")
    found = points(tmp_path, row, AGG.format(c=4))
    table, reasons = steady(found, shipped().engines, shipped().habits)
    assert reasons[0].startswith("weights: ")
    assert reasons[1] == ""
    assert table["tpot_s"][1] > 0


def test_pipeline_stages_are_columns_of_each_pool(tmp_path: Path) -> None:
    head = HEAD.replace("attention_dp,clean", "attention_dp,prefill_pp,decode_pp,pp,clean")
    agg = AGG.replace(",1,1,,", ",{chips},1,,").replace(",true,60", ",,,{pp},true,60")
    split = SPLIT.replace(",true,,", ",1,4,,true,,")
    rows = [agg.format(c=4, chips=8, pp=pp) for pp in ("", 2, 3, 1.5)]
    found = points(tmp_path, *rows, split, head=head)
    assert [group["layout"]["pp"] for group in found.groups] == [1, 2, 4]
    assert [group["layout"]["tp"] for group in found.groups] == [8, 4, 2]
    assert found.groups[2]["prefill"]["dp"] == 4
    assert found.refusals[2] == "pp 3: chips must be a multiple of attention_dp x pp"
    assert found.group_ix == [0, 1, -1, -1, 2]
    calibration = shipped()
    values, _ = steady(found, calibration.engines, calibration.habits)
    # Two stages of four chips: fewer chips a layer, so a token takes longer than on eight.
    assert values["tpot_s"][1] > values["tpot_s"][0]


def test_drafts_are_columns_and_shorten_the_time_between_tokens(tmp_path: Path) -> None:
    head = HEAD.replace("attention_dp,clean", "attention_dp,draft_tokens,draft_acceptance,draft_cost,clean")
    rows = [
        AGG.format(c=4).replace(",true,60", f",{drafts},true,60") for drafts in (",,", "3,0.7,0", "3,,0", "3,0,0.1")
    ]
    found = points(tmp_path, *rows, head=head)
    assert found.refusals[2] == "draft_tokens without draft_acceptance: acceptance has to be known"
    calibration = shipped()
    values, reasons = steady(found, calibration.engines, calibration.habits)
    plain, drafted, _, wasted = values["tpot_s"]
    # 1 + 0.7 + 0.49 + 0.343 = 2.533 tokens a step that verifies four; where none is accepted a step only takes longer.
    assert plain / 2.533 < drafted < 1.1 * plain / 2.533
    assert wasted > plain
    assert reasons[2]
