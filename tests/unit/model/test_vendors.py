"""Chips of a vendor that no measured point is of."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from planner.facts import catalog
from planner.model import trust
from planner.model.calibration import METRICS, shipped
from planner.model.points import place, whole_row
from planner.model.vendors import MEASURED, found, rows_of, vendor_of
from planner.scenario import load
from planner.study.run import run

TEXT = """\
schema: 1
title: another vendor
traffic:
  chat:
    model: gpt-oss-120b
    arrivals: poisson
    rate: 5 req/s
    input: {dist: fixed, value: 800 tok}
    output: {dist: fixed, value: 100 tok}
    slo: easy
slo:
  easy: {tpot: {p95: 50 ms}}
fleet:
  pools:
    a: {rack: hgx-mi355x, count: 1, deploy: [{model: gpt-oss-120b, chips: 8}]}
run: {length: 60 s, seed: 1}
"""


def row(chip: str, model: str) -> dict[str, object]:
    return {"chip": chip, "model": model}


def test_the_middle_is_that_of_stacks_and_the_extra_of_what_the_others_say() -> None:
    # Predicted 1 s each. Stack a/x is at 2, 2 and 8 (median r = ln 2), b/x at 4 (ln 4): the middle is 1.5 ln 2.
    rows = [row("a", "x"), row("a", "x"), row("a", "x"), row("b", "x")]
    off = np.log([2.0, 2.0, 8.0, 4.0])
    narrow = np.full((4, 2), 0.1)
    own, unknown = found(rows, dict.fromkeys(METRICS, off), dict.fromkeys(METRICS, narrow))["tpot"]
    assert own.middle == pytest.approx(1.5 * math.log(2))
    # Off the other stack's median: ln 2 - ln 4, twice, ln 8 - ln 4, and ln 4 - ln 2: all by ln 2.
    assert own.extra == pytest.approx(math.sqrt(math.log(2) ** 2 - 0.01))
    assert own.n == 4
    # Nothing is taken off for an unknown vendor: 0.76 of four residuals is the largest, ln 8.
    assert (unknown.middle, unknown.n) == (0.0, 0)
    assert unknown.extra == pytest.approx(math.sqrt(math.log(8) ** 2 - 0.01))


def test_a_band_that_holds_them_already_gets_nothing_more() -> None:
    rows, off = [row("a", "x"), row("b", "x")], np.log([1.05, 0.95])
    told = found(rows, dict.fromkeys(METRICS, off), dict.fromkeys(METRICS, np.full((2, 2), 0.5)))
    assert told["tpot"][0].extra == told["tpot"][1].extra == 0.0


def test_published_figures_bring_the_model_nearer_to_stacks_that_they_leave_out() -> None:
    """Each stack is predicted with the middle of the others."""
    rows = [whole_row(each) for each in rows_of("amd")]
    predicted = shipped().predict(place(rows))
    assert not any(predicted.reasons)
    seconds = np.array([each["tpot_ms"] / 1e3 for each in rows])
    plain = predicted.values["tpot_s"] / math.exp(shipped().vendor("amd", "tpot").middle)
    off = np.log(seconds / plain)
    stacks = np.array([f"{each['chip']}/{each['model']}" for each in rows])
    medians = {name: np.median(off[stacks == name]) for name in set(stacks.tolist())}
    left_out = np.array([off[i] - np.mean([v for k, v in medians.items() if k != at]) for i, at in enumerate(stacks)])
    assert np.median(np.abs(np.expm1(-left_out))) < 0.6 * np.median(np.abs(np.expm1(-off)))
    inside = (seconds >= predicted.values["tpot_low_s"]) & (seconds <= predicted.values["tpot_high_s"])
    assert 0.7 <= inside.mean() <= 0.95


def test_the_vendor_of_measured_chips_stays_as_it_was() -> None:
    chip = {"chip": "b300-sxm", "model": "gpt-oss-120b", "backend": "vllm", "precision": "fp4", "mode": "agg"}
    for metric in METRICS:
        assert shipped().vendor("nvidia", metric) is MEASURED
        known = shipped().band({**chip, "concurrency": 8.0}, metric)
        assert known == shipped().band({**chip, "concurrency": 8.0, "vendor": ""}, metric)


def test_a_vendor_of_whom_nothing_is_known_has_a_band_as_wide_as_another_turned_out() -> None:
    base = {"model": "gpt-oss-120b", "backend": "vllm", "precision": "fp4", "mode": "agg", "concurrency": 8.0}
    for metric in METRICS:
        unknown = shipped().vendor("nobody", metric)
        assert (unknown.middle, unknown.n) == (0.0, 0)
        wide, narrow = (shipped().band({**base, "chip": name}, metric) for name in ("tpu-v7", "b300-sxm"))
        assert wide[0] < narrow[0]
        assert wide[1] > narrow[1]
        # The middle that another vendor has lies in it: that is what may be missing here.
        assert math.log(wide[1]) > shipped().vendor("amd", metric).middle


def test_the_inferred_chip_keeps_its_band_under_its_own_engine_only() -> None:
    chip = catalog.load().chip("jalapeno")
    base = {"chip": "jalapeno", "model": "gpt-oss-120b", "precision": "fp4", "mode": "agg", "concurrency": 8.0}
    own = trust.of(chip, {**base, "backend": "openai"})
    other = trust.of(chip, {**base, "backend": "vllm"})
    assert other.tpot[1] / other.tpot[0] > 2 * own.tpot[1] / own.tpot[0]


def test_every_published_figure_is_of_a_chip_of_its_vendor() -> None:
    shelf = catalog.load()
    for vendor in shelf.names("published"):
        assert {vendor_of(each) for each in rows_of(vendor)} == {vendor}


def test_a_run_says_that_its_chips_were_not_measured() -> None:
    result = run(load("-", stdin_text=TEXT))
    told = [notice.message for notice in result.notices if notice.code == "stack"]
    assert len(told) == 1
    assert "no chip of amd was measured here: by 26 published figures steps take 1.6 times" in told[0]
    plain = run(load("-", stdin_text=TEXT.replace("hgx-mi355x", "hgx-b300")))
    assert not [notice for notice in plain.notices if "published" in notice.message]


def test_an_own_chip_of_an_unknown_vendor_has_the_wide_band(tmp_path: Path) -> None:
    text = (catalog.DATA / "chips" / "b200-sxm.yaml").read_text(encoding="utf-8").replace("nvidia", "somebody", 1)
    assert "vendor: somebody" in text
    (tmp_path / "mine.yaml").write_text(text)
    chip = catalog.load().chip("./mine.yaml", base=tmp_path)
    base = {"model": "gpt-oss-120b", "backend": "vllm", "precision": "fp4", "mode": "agg", "concurrency": 8.0}
    wide = trust.of(chip, {**base, "chip": chip.name, "vendor": chip.vendor})
    assert wide.tpot[1] > 1.9
