"""The keys of arrival laws, shapes, sessions, clients and operation: short and long forms, and their faults."""

from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator

from planner.scenario.json_schema import scenario as scenario_schema
from tests.unit.scenario.scenario_text import SMALL, Faults, Loads

DRAWN = "arrivals: poisson\n    rate: 4 req/s"


def with_law(text: str) -> str:
    """The small scenario with other arrivals: lines of its class."""
    return SMALL.replace(DRAWN, text.replace("\n", "\n    "))


def test_laws_and_shapes_in_short_and_long_form(loads: Loads) -> None:
    hawkes = loads(with_law("arrivals: hawkes\nrate: 4 req/s\nburst: {size: 8, decay: 2 s}\nshape: m-large"))
    chat = hawkes.traffic["chat"]
    assert chat.burst is not None
    assert chat.shape is not None
    assert (chat.burst.size, chat.burst.decay_s, chat.shape.demand) == (8.0, 2.0, "m-large")
    text = (
        f"{DRAWN}\nshape: {{factors: [1, 3], step: 12 h, start: 6 h}}\ngrowth: 40 %\n"
        "regions: {us: {share: 60 %}, eu: {share: 40 %, shift: 6 h}}"
    ).replace("    ", "")
    chat = loads(with_law(text)).traffic["chat"]
    assert chat.shape is not None
    assert chat.shape.factors == (1.0, 3.0)
    assert (chat.shape.step_s, chat.shape.start_s, chat.growth_frac_per_year) == (43_200.0, 21_600.0, 0.4)
    assert (chat.regions["eu"].share_frac, chat.regions["eu"].shift_s) == (0.4, 21_600.0)
    short = loads(with_law("arrivals: weibull\nrate: 4 req/s\nburstiness: 2\nshape: [1, 2, 3]")).traffic["chat"]
    assert short.shape is not None
    assert (short.shape.factors, short.shape.step_s) == ((1.0, 2.0, 3.0), 3600.0)


def test_closed_arrivals_and_pauses(loads: Loads) -> None:
    chat = loads(with_law("arrivals: closed\nconcurrency: 64\nthink: 2 s")).traffic["chat"]
    assert chat.think is not None
    assert (chat.concurrency, chat.think.kind, chat.think.value_s) == (64, "fixed", 2.0)
    text = f"{DRAWN}\nagents: {{steps: {{dist: geometric, mean: 10}}, tool: {{dist: exponential, mean: 3 s}}}}"
    agents = loads(with_law(text.replace("    ", ""))).traffic["chat"].agents
    assert agents is not None
    assert (agents.steps.mean_turns, agents.tool.mean_s) == (10.0, 3.0)


@pytest.mark.parametrize(
    ("law", "said"),
    [
        ("arrivals: weibull\nrate: 4 req/s", "burstiness is missing"),
        ("arrivals: hawkes\nrate: 4 req/s", "burst is missing"),
        ("arrivals: hawkes\nrate: 4 req/s\nburst: {size: 0.5, decay: 1 s}", "out of range"),
        ("arrivals: poisson\nrate: 4 req/s\nburst: {size: 2, decay: 1 s}", "burst has no effect here"),
        ("arrivals: hawkes\nrate: 4 req/s\nburst: {size: 2, decay: 1 s}\nburstiness: 2", "burstiness has no effect"),
        ("arrivals: closed", "concurrency is missing"),
        ("arrivals: closed\nconcurrency: 4\nrate: 4 req/s", "rate has no effect here"),
        ("arrivals: closed\nconcurrency: 4\nsessions: {turns: {dist: fixed, value: 2}}", "sessions has no effect"),
        ("arrivals: closed\nconcurrency: 4\nrequests: 2", "cannot be 4 at a time"),
        ("arrivals: poisson\nrate: 4 req/s\nconcurrency: 4", "concurrency has no effect here"),
        (
            "arrivals: poisson\nrate: 4 req/s\nshape: m-larg",
            "no demand of a service is named 'm-larg'; did you mean m-l",
        ),
        ("arrivals: poisson\nrate: 4 req/s\nshape: {demand: m-larg}", "did you mean m-large"),
        ("arrivals: poisson\nrate: 4 req/s\nshape: {demand: m-large, step: 1 h}", "step has no effect here"),
        ("arrivals: poisson\nrate: 4 req/s\nshape: {step: 1 h}", "the shape has no rates"),
        ("arrivals: poisson\nrate: 4 req/s\nshape: [0, 0]", "all factors are 0"),
        ("arrivals: poisson\nrate: 4 req/s\nshape: []", "no factors"),
        ("arrivals: poisson\nrate: 4 req/s\nregions: {eu: {share: 100 %}}", "regions has no effect here"),
        ("arrivals: poisson\nrate: 4 req/s\nshape: [1, 2]\nregions: {eu: {share: 90 %}}", "the shares sum to 90 %"),
        ("arrivals: poisson\nrate: 4 req/s\ngrowth: -100 %", "out of range"),
        ("arrivals: poisson\nrate: 4 req/s\ngrowth: inf %", "not a finite number"),
        (
            "arrivals: poisson\nrate: 4 req/s\nprefix_reuse: 40 %\nagents: {steps: {dist: fixed, value: 2}}",
            "prefix_reuse has no effect here",
        ),
        (
            "arrivals: poisson\nrate: 4 req/s\nsessions: {turns: {dist: fixed, value: 2}, "
            "think: {dist: uniform, low: 1 s}}",
            "high is missing",
        ),
        (
            "arrivals: poisson\nrate: 4 req/s\nagents: {steps: {dist: fixed, value: 2}, "
            "tool: {dist: lognormal, median: 4 s, p95: 2 s}}",
            "p95 is not above the median",
        ),
        ("arrivals: poisson\nrate: 4 req/s\nretries: {n: 0}", "out of range"),
        ("arrivals: poisson\nrate: 4 req/s\ntimeout: 30", "has no unit"),
        ("trace: azure-conv-2023\nshape: m-large", "shape has no effect here"),
    ],
)
def test_faults_of_traffic(faults: Faults, law: str, said: str) -> None:
    found = faults(with_law(law))
    assert any(said in str(fault) for fault in found), [str(fault) for fault in found]
    assert all(fault.line for fault in found)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("chips: 8", "chips: 8, preemption: swap", "kv_host is missing"),
        ("chips: 8", "chips: 8, speculation: {draft: 3}", "acceptance is missing; measure it"),
        ("chips: 8", "chips: 8, speculation: {draft: 65, acceptance: 70 %}", "64"),
        ("chips: 8", "chips: 8, speculation: {draft: 3, acceptance: 0.7}", "acceptance"),
        ("chips: 8", "chips: 8, speculation: {draft: 3, acceptance: 70 %, draft_cost: 2}", "draft_cost"),
        (
            "chips: 8",
            "chips: 8, role: prefill, decode_pool: a, speculation: {draft: 3, acceptance: 70 %}",
            "speculation has no effect here",
        ),
        ("chips: 8", "chips: 8, speculation: {draft: 3, acceptance: 120 %}", "out of range"),
        ("chips: 8", "chips: 8, kv_host: 512", "has no unit"),
        ("chips: 8", "chips: 8, prefix_cache: maybe", "not true or false"),
        ("count: 1", "count: 1, power_cap: 450 W", "W"),
        ("count: 1", "count: 1, failures: defualt", "a map of keys is meant"),
        ("count: 1", "count: 1, outages: [{at: 1 min}]", "length is missing"),
        ("count: 1", "count: 1, autoscale: {min: 4, max: 2}", "max 2 is below min 4"),
        ("fleet:\n", "fleet:\n  router: slo-awar\n", "did you mean slo-aware"),
    ],
)
def test_faults_of_operation(faults: Faults, old: str, new: str, said: str) -> None:
    found = faults(SMALL.replace(old, new))
    assert any(said in str(fault) for fault in found), [str(fault) for fault in found]


def test_failures_by_default_and_in_long_form(loads: Loads) -> None:
    short = loads(SMALL.replace("count: 1", "count: 1, failures: default")).fleet.pools["a"].failures
    assert short is not None
    assert short.rate_per_chip_year is None
    assert short.acceleration == 1.0
    text = "count: 1, failures: {rate: {value: 0.2 /chip-yr, low: 0.1 /chip-yr, grade: estimate}, repair: 4 h}"
    long = loads(SMALL.replace("count: 1", text)).fleet.pools["a"].failures
    assert long is not None
    assert long.rate_per_chip_year is not None
    assert long.repair_s is not None
    assert (long.rate_per_chip_year.used, long.repair_s.used) == (0.2, 14_400.0)


def test_the_json_schema_knows_the_short_forms() -> None:
    base = {
        "title": "t",
        "traffic": {"c": {"model": "m", "shape": "m-large", "think": "2 s"}},
        "fleet": {"pools": {"a": {"rack": "r", "failures": "default"}}},
    }
    validator = Draft202012Validator(scenario_schema())
    assert validator.is_valid(base)
    wrong: dict[str, object] = {**base, "traffic": {"c": {"model": "m", "shape": ["a"]}}}
    assert not validator.is_valid(wrong)
