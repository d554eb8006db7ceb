"""Response surfaces: monotone, ending where sampling ended, their limits confirmed by simulation, kept by digest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from planner.errors import ScenarioError
from planner.fleet.layout import lay_out
from planner.scenario import Scenario, load
from planner.study import surface as module
from planner.study.curves import Surface, between, curve, frame, loads, monotone
from planner.study.group import Part, group_of, measure
from planner.study.run import mean_lengths
from planner.study.scaled import day_fracs, flat, mean_rates, peak_frac, scaled
from planner.study.short import short_traffic
from planner.study.surface import Wanted, surfaces, wanted

TEXT = """
schema: 1
title: Small
traffic:
  chat:
    model: gpt-oss-20b
    arrivals: poisson
    rate: 40 req/s
    input: {dist: lognormal, median: 600 tok, p95: 2 ktok}
    output: {dist: lognormal, median: 150 tok, p95: 500 tok}
    slo: quick
  long:
    model: gpt-oss-20b
    arrivals: poisson
    rate: 10 req/s
    input: 2000 tok
    output: 100 tok
    slo: quick
slo:
  quick: {ttft: {p95: 300 ms}, tpot: {p95: 6 ms}}
fleet:
  pools:
    h: {rack: hgx-h100, count: 1, deploy: [{model: gpt-oss-20b, chips: 2}]}
run: {length: 5 min, warmup: 30 s, seed: 3}
"""


def scenario(text: str = TEXT) -> Scenario:
    return load("-", stdin_text=text)


@pytest.fixture(scope="module")
def found() -> Surface:
    [only] = surfaces(scenario(), [replace(wanted(scenario())[0], n_replicas=2)], workers=1, n_seeds=2)
    return only


def test_what_a_group_simulates_is_placed_as_in_the_fleet_whatever_it_does_there() -> None:
    """Engines are chosen by role: a pool that decodes for another beside its own requests has one engine for both."""
    pools = """\
    a: {rack: hgx-h200, count: 1, deploy: [{model: gpt-oss-120b, chips: 4, per_rack: 2}]}
    p: {rack: hgx-h200, count: 1, deploy: [{model: gpt-oss-120b, chips: 4, role: prefill, decode_pool: a}]}
"""
    text = TEXT.replace("gpt-oss-20b", "gpt-oss-120b")
    whole = scenario(text[: text.index("    h: {rack")] + pools + text[text.index("run: {length") :])
    lengths = mean_lengths(whole)
    placed = {(one.pool, one.model): one for one in lay_out(whole, lengths).placed}
    seen = set()
    for want in wanted(whole):
        group = group_of(
            whole,
            want.part,
            dict(want.mix),
            2,
            lengths=lengths,
            rates=mean_rates(whole),
            phase=want.phase,
            partner=want.partner,
        )
        for one in group.fleet.placed:
            assert (one.engine, one.tp, one.dp, one.spec) == (
                (own := placed[one.pool, one.model]).engine,
                own.tp,
                own.dp,
                own.spec,
            )
        seen.add(want.phase)
    assert seen == {"mixed", "prefill", "decode"}


def test_the_limit_holds_below_and_breaks_above_under_seeds_that_no_surface_used(found: Surface) -> None:
    plain = scenario()
    group = group_of(plain, found.part, found.mix, 2, lengths=mean_lengths(plain), rates=mean_rates(plain))

    def strains(load: float) -> list[float | None]:
        made = measure(group, load, seed=99, length_s=200.0, warmup_s=20.0)
        return [figures["strain"] for figures in made.classes.values()]

    assert found.low_req_per_s <= found.limit_req_per_s <= found.high_req_per_s
    assert found.limit_req_per_s == min(found.limits_req_per_s.values())
    assert all(s is not None and s <= 1 for s in strains(found.limit_req_per_s * 0.9))
    assert any(s is None or s > 1 for s in strains(found.limit_req_per_s * 1.15))


def test_curves_rise_with_load_and_there_is_nothing_beyond_the_last_sample(found: Surface) -> None:
    places = loads(found)
    for name in found.mix:
        ttft = [v for v in curve(found, lambda m, name=name: m.classes[name]["ttft_s.p95"]) if v is not None]  # type: ignore[misc]
        assert ttft == sorted(ttft)
    assert found.at(places[-1]) is not None
    assert found.at(places[-1] * 1.001) is None
    assert found.at(-1.0) is None
    at_rest = found.at(0.0)
    assert at_rest is not None
    assert (at_rest.steps_w, at_rest.parked_chips, at_rest.tokens_per_s_out) == (0.0, 2.0, 0.0)
    half = found.at(found.limit_req_per_s / 2)
    assert half is not None
    assert half.steps_w > 0
    assert half.tokens_per_s_in > half.tokens_per_s_out > 0


def test_the_same_whatever_the_workers_and_read_back_from_its_folder(
    found: Surface, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [replace(wanted(scenario())[0], n_replicas=2)]
    [again] = surfaces(scenario(), asked, folder=tmp_path, workers=2, n_seeds=2)
    assert again == found
    monkeypatch.setattr(module, "measure", lambda *_, **__: pytest.fail("simulated again"))
    assert surfaces(scenario(), asked, folder=tmp_path, n_seeds=2) == [found]
    [file] = tmp_path.iterdir()
    file.write_text("{}")
    with pytest.raises(pytest.fail.Exception):
        surfaces(scenario(), asked, folder=tmp_path, workers=1, n_seeds=2)


def test_a_surface_of_another_scenario_is_never_read(
    found: Surface, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [replace(wanted(scenario())[0], n_replicas=2)]
    surfaces(scenario(), asked, folder=tmp_path, workers=1, n_seeds=2)
    [file] = tmp_path.iterdir()
    file.write_text(file.read_text().replace(found.digest, "0" * 64))  # as it would be under a name that is not its own
    monkeypatch.setattr(module, "measure", lambda *_, **__: pytest.fail("sampled anew"))
    with pytest.raises(pytest.fail.Exception, match="sampled anew"):
        surfaces(scenario(), asked, folder=tmp_path, workers=1, n_seeds=2)


def test_another_limit_is_another_surface(found: Surface) -> None:
    text = TEXT.replace("tpot: {p95: 6 ms}", "tpot: {p95: 5 ms}")
    tighter = scenario(text)
    [digest] = [s.digest for s in surfaces(tighter, [replace(wanted(tighter)[0], n_replicas=1)], n_seeds=1, workers=1)]
    assert digest != found.digest


def test_one_phase_is_sampled_with_ample_replicas_of_the_other() -> None:
    text = TEXT.replace(
        "h: {rack: hgx-h100, count: 1, deploy: [{model: gpt-oss-20b, chips: 2}]}",
        "h: {rack: hgx-h100, count: 1, deploy: [{model: gpt-oss-20b, chips: 2, role: prefill, decode_pool: d}]}\n"
        "    d: {rack: hgx-h200, count: 1, deploy: [{model: gpt-oss-20b, chips: 1}]}",
    )
    split = scenario(text)
    asked = wanted(split)
    assert [(w.part, w.phase, w.partner) for w in asked] == [
        (Part("h", 0), "prefill", Part("d", 0)),
        (Part("d", 0), "mixed", None),
        (Part("d", 0), "decode", Part("h", 0)),
    ]
    both = surfaces(split, [replace(asked[0], n_replicas=1), replace(asked[2], n_replicas=1)], n_seeds=1)
    prefill, decode = both
    assert prefill.limit_req_per_s > 0
    assert decode.limit_req_per_s > 0
    middle = prefill.at(prefill.limit_req_per_s / 2)
    assert middle is not None
    assert middle.tokens_per_s_out < middle.tokens_per_s_in / 10
    assert frame(both).height == sum(len(s.samples) * len(s.mix) for s in both)


def test_a_class_that_no_load_can_serve_has_the_limit_zero_and_says_what_it_reached() -> None:
    text = TEXT.replace("tpot: {p95: 6 ms}", "tpot: {p95: 10 us}")
    hard = scenario(text)
    [none] = surfaces(hard, [replace(wanted(hard)[0], n_replicas=1)], n_seeds=1)
    assert none.limit_req_per_s == 0
    light = none.at(loads(none)[0])
    assert light is not None
    assert (light.classes["chat"]["tpot_s.p95"] or 0) > 10e-6


def test_monotone_and_between() -> None:
    assert monotone([3.0, 1.0, 2.0]) == [2.0, 2.0, 2.0]
    assert monotone([1.0, 3.0, 2.0, 4.0], rising=False) == [2.5, 2.5, 2.5, 2.5]
    assert between([1.0, 2.0], [10.0, 20.0], 1.5) == 15.0
    assert between([1.0, 2.0], [10.0, None], 1.0) == 10.0
    assert between([1.0, 2.0], [10.0, None], 1.5) is None
    assert between([1.0], [10.0], 0.5, at_zero=0.0) == 5.0
    assert between([1.0], [10.0], 0.5) == 10.0


def test_scaled_classes() -> None:
    chat = scenario().traffic["chat"]
    assert scaled(chat, 2.5).rate_req_per_s == 100.0
    assert mean_rates(scenario()) == {"chat": 40.0, "long": 10.0}
    assert day_fracs(chat) == ()
    shape = "chat:\n    shape: {factors: [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 25]}"
    shaped = scenario(TEXT.replace("chat:", shape, 1)).traffic["chat"]
    assert peak_frac(shaped, name="chat", length_s=None, base_dir=Path()) == pytest.approx(12.5)  # 25 / (48 / 24)
    assert flat(shaped).shape is None
    closed = TEXT.replace("arrivals: poisson\n    rate: 40 req/s", "arrivals: closed\n    concurrency: 4")
    with pytest.raises(ScenarioError, match="closed arrivals have no rate"):
        mean_rates(scenario(closed))


def test_windows_of_a_trace_have_its_rate_and_its_peak_is_seen() -> None:
    text = TEXT.replace("arrivals: poisson\n    rate: 40 req/s", "trace: azure-conv-2023\n    scale: 60")
    lines = [line for line in text.splitlines() if "600 tok" not in line and "150 tok" not in line]
    recorded = scenario("\n".join(lines))
    whole = replace(recorded, run=recorded.run.model_copy(update={"length_s": None}))
    rates = mean_rates(whole)
    run = recorded.run.model_copy(update={"length_s": 60.0})
    made = short_traffic(replace(recorded, run=run, traffic={"chat": recorded.traffic["chat"]}), 1, prefixes=True)
    assert made.frame.height / 60.0 == pytest.approx(rates["chat"], rel=0.05)
    assert made.frame["arrival_ns"].is_sorted()
    assert peak_frac(recorded.traffic["chat"], name="chat", length_s=None, base_dir=Path()) == pytest.approx(
        1.52, abs=0.05
    )


def test_wanted_has_the_proportions_of_the_traffic() -> None:
    assert wanted(scenario()) == [Wanted(Part("h", 0), (("chat", 0.8), ("long", 0.2)))]
