"""What is written wrongly is said at its place, with the way out, all of it at once."""

from __future__ import annotations

import pytest

from planner.errors import ScenarioError
from planner.scenario import load
from tests.unit.scenario.scenario_text import SMALL, Faults, Loads


def test_many_faults_in_one_report(faults: Faults) -> None:
    text = (
        SMALL.replace("rate: 4 req/s", "rate: 4 rq/s")
        .replace("p95: 500 ms", "p95: 500 mss")
        .replace("arrivals: poisson", "arrivals: posson")
        .replace("slo: quick", "slo: quik")
        .replace("jalapeno-rack", "jalapeno-rak")
        .replace("count: 1", "cuont: 1")
        .replace("grid: us-virginia", "grid: us-virgina")
        .replace("length: 10 min", "length: 10 min, warmup: 12 min, seeds: 0")
    )
    shown = [str(fault).split("s.yaml:", 1)[1] for fault in faults(text)]
    assert shown == [
        "5:15: traffic.chat.arrivals: 'posson' is not one of the known values; did you mean poisson?",
        "6:11: traffic.chat.rate: unknown unit 'rq/s'; did you mean req/s, kreq/s, Mreq/s?",
        "9:10: traffic.chat.slo: no limits are named 'quik'; did you mean quick?",
        "11:23: slo.quick.ttft.p95: unknown unit 'mss'; did you mean ms, s?",
        "14:5: fleet.pools.a: count is missing; add it: Number of racks; `{min, max}` lets `planner optimize` choose",
        "14:15: fleet.pools.a.rack: no rack is named 'jalapeno-rak'; did you mean jalapeno-rack?",
        "14:29: fleet.pools.a.cuont: unknown key 'cuont'; did you mean count, contract?",
        "15:14: site.grid: no site is named 'us-virgina'; did you mean us-virginia, us-georgia, us-arizona?",
        "16:31: run.warmup: the warm-up is not shorter than the run; nothing would be measured",
        "16:46: run.seeds: '0' is out of range; from 1 to 1,000",
    ]


CASES = [
    # what is written, what takes its place, the path and a part of the message
    ("rate: 4 req/s", "rate: 4", "traffic.chat.rate", "'4' has no unit; write a quantity such as 40 req/s"),
    ("rate: 4 req/s", "rate: 0 req/s", "traffic.chat.rate", "out of range; write a quantity above 0"),
    ("rate: 4 req/s", "rate: -1 req/s", "traffic.chat.rate", "out of range"),
    ("rate: 4 req/s", "rate: inf req/s", "traffic.chat.rate", "not a finite number"),
    ("rate: 4 req/s", "rate: nan req/s", "traffic.chat.rate", "not a finite number"),
    ("rate: 4 req/s", "rate: 1e300 req/s", "traffic.chat.rate", "out of range"),
    ("rate: 4 req/s", "rate: 1e999 req/s", "traffic.chat.rate", "too large a number"),
    ("rate: 4 req/s", "rate: 9e8 req/s", "traffic.chat.rate", "5.4e+11 requests a seed"),
    ("rate: 4 req/s", "rate: 4 ms", "traffic.chat.rate", "'ms' is a unit of time"),
    ("rate: 4 req/s", "rate: [4 req/s]", "traffic.chat.rate", "a quantity is meant, not a list"),
    ("    rate: 4 req/s\n", "", "traffic.chat", "rate is missing"),
    ("    arrivals: poisson\n", "", "traffic.chat", "arrivals is missing"),
    ("    output: 300 tok\n", "", "traffic.chat", "output is missing"),
    ("arrivals: poisson", "arrivals: poisson\n    burstiness: 2", "traffic.chat.burstiness", "has no effect here"),
    ("arrivals: poisson", "arrivals: gamma", "traffic.chat", "burstiness is missing"),
    ("arrivals: poisson", "arrivals: gamma\n    burstiness: 0", "traffic.chat.burstiness", "out of range"),
    ("arrivals: poisson", "arrivals: poisson\n    scale: 2", "traffic.chat.scale", "the class has none"),
    ("arrivals: poisson", "arrivals: poisson\n    repeat: true", "traffic.chat.repeat", "has no effect here"),
    ("arrivals: poisson", "trace: azure-conv-2023", "traffic.chat.rate", "the trace has the arrivals and lengths"),
    ("p95: 8 ktok", "p95: 1200 tok", "traffic.chat.input.p95", "not above the median of 1,200 tok"),
    ("p95: 8 ktok", "p95: 8 ktok, value: 3 tok", "traffic.chat.input.value", "value has no effect here"),
    ("median: 1200 tok, ", "", "traffic.chat.input", "median is missing"),
    ("output: 300 tok", "output: 0 tok", "traffic.chat.output.value", "out of range"),
    ("output: 300 tok", "output: 1.5 tok", "traffic.chat.output.value", "not whole"),
    ("output: 300 tok", "output: {dist: uniform, low: 5 tok, high: 4 tok}", "traffic.chat.output.high", "below low"),
    ("output: 300 tok", "output: {dist: empirical}", "traffic.chat.output", "lengths are missing"),
    ("output: 300 tok", "output: {dist: empirical, values: []}", "traffic.chat.output.values", "no lengths"),
    (
        "output: 300 tok",
        "output: {dist: empirical, values: [3 tok], weights: [1, 2]}",
        "traffic.chat.output.weights",
        "2 weights for 1 values",
    ),
    (
        "output: 300 tok",
        "output: {dist: empirical, values: [3 tok], weights: [0]}",
        "traffic.chat.output.weights",
        "all weights are 0",
    ),
    ("output: 300 tok", "output: {dist: zipf}", "traffic.chat.output.dist", "not one of the known values"),
    ("p95: 20 ms}", "p96: 20 ms}", "slo.quick.tpot.p96", "did you mean p99, p95, p90?"),
    ("tpot: {p95: 20 ms}", "tpot: {}", "slo.quick.tpot", "names no quantile"),
    ("{ttft: {p95: 500 ms}, tpot: {p95: 20 ms}}", "{attainment: 99 %}", "slo.quick", "no limit is named"),
    ("tpot: {p95: 20 ms}", "attainment: 101 %", "slo.quick.attainment", "at most 100 %"),
    ("tpot: {p95: 20 ms}", "attainment: 0.99", "slo.quick.attainment", "has no unit"),
    ("model: gpt-oss-120b\n", "model: gpt-oss-20b\n", "traffic.chat.model", "no pool deploys 'gpt-oss-20b'"),
    ("model: gpt-oss-120b\n", "model: gpt-os-120b\n", "traffic.chat.model", "did you mean gpt-oss-120b"),
    ("model: gpt-oss-120b\n", "model: ./m.json\n", "traffic.chat.model", "no such file: './m.json'"),
    ("model: gpt-oss-120b\n", "model: m.json\n", "traffic.chat.model", "a file is written ./m.json"),
    ("count: 1", "count: -1", "fleet.pools.a.count", "out of range"),
    ("count: 1", "count: 1.5", "fleet.pools.a.count", "not a whole number"),
    ("count: 1", "count: 1 kW", "fleet.pools.a.count", "not a number"),
    ("count: 1", "count: {min: 3, max: 2}", "fleet.pools.a.count.max", "max 2 is below min 3"),
    ("count: 1", "count: {min: 3}", "fleet.pools.a.count", "max is missing"),
    ("chips: 8", "chips: 8, tp: 3", "fleet.pools.a.deploy[0].chips", "tp 3 does not divide the 8 chips"),
    ("chips: 8", "chips: 8, tp: 2, dp: 2, pp: 1", "fleet.pools.a.deploy[0].chips", "tp 2 x pp 1 x dp 2 = 4 is not"),
    ("chips: 8", "chips: 8, ep: 3", "fleet.pools.a.deploy[0].ep", "ep 3 does not divide"),
    ("chips: 8", "chips: 8, role: both", "fleet.pools.a.deploy[0].role", "known: mixed, prefill, decode"),
    ("chips: 8", "chips: 8, role: prefill", "fleet.pools.a.deploy[0]", "decode_pool is missing"),
    ("chips: 8", "chips: 8, decode_pool: a", "fleet.pools.a.deploy[0].decode_pool", "no effect"),
    ("chips: 8", "chips: 8, engine: vlm", "fleet.pools.a.deploy[0].engine", "did you mean vllm"),
    (", chips: 8", "", "fleet.pools.a.deploy[0]", "chips is missing"),
    ("deploy: [{model: gpt-oss-120b, chips: 8}]", "deploy: []", "fleet.pools.a.deploy", "nothing is deployed"),
    ("count: 1", "count: 1, capex: -1 USD/rack", "fleet.pools.a.capex", "out of range"),
    ("count: 1", "count: 1, capex: 3 EUR/rack", "fleet.pools.a.capex", "convert to USD"),
    ("count: 1", "count: 1, rent: 2 USD/chip-h, existing: 1", "fleet.pools.a.existing", "the pool is rented"),
    ("count: 1", "count: 1, existing: 2", "fleet.pools.a.existing", "2 racks are owned already"),
    ("fleet:\n", "fleet:\n  routes: {chat: {a: 60 %}}\n", "fleet.routes.chat", "the shares sum to 60 %"),
    ("fleet:\n", "fleet:\n  routes: {chat: [b]}\n", "fleet.routes.chat[0]", "no pool is named 'b'"),
    ("fleet:\n", "fleet:\n  routes: {chatt: [a]}\n", "fleet.routes.chatt", "did you mean chat?"),
    ("fleet:\n", "fleet:\n  router: randomly\n", "fleet.router.policy", "did you mean random"),
    ("grid: us-virginia", "pue: 0.9", "site.pue", "at least 1.00"),
    ("grid: us-virginia", "pue: 1.2 kW", "site.pue", "where ratio is meant"),
    ("grid: us-virginia", "grid: us-virginia, carbon: 300 gCO2e/kWh", "site.grid", "no effect"),
    ("grid: us-virginia", "power_limit: 0 MW", "site.power_limit", "above 0"),
    ("grid: us-virginia", "grid: ./site.yaml", "site.grid", "is a file where the name of a site is meant"),
    ("site: {", "cost: {life: 0 yr}\nsite: {", "cost.life", "above 0"),
    ("site: {", "cost: {discount: -100 %}\nsite: {", "cost.discount", "out of range"),
    ("length: 10 min", "length: 0 s", "run.length", "above 0"),
    ("length: 10 min", "seed: 1", "run", "length is missing"),
    ("length: 10 min", "length: 10 min, seed: -1", "run.seed", "out of range"),
    ("length: 10 min", "length: 100 yr, window: 1 ms", "run.window", "more than ten million windows"),
    ("title: small\n", "", "", "title is missing"),
    ("title: small", "title: ''", "title", "a title is empty"),
    ("title: small", "title: small\nschema: 2", "schema", "from 1 to 1"),
    ("title: small", "title: small\ntitel: small", "titel", "did you mean title"),
    ("title: small", "title: small\nsweep: {axes: {run.sed: [1]}}", "run.sed", "did you mean seed"),
    ("title: small", "title: small\nsweep: {axes: {run.seeds: [1, 0]}}", "run.seeds", "'0' is out of range"),
    ("title: small", "title: small\nsweep: {axes: {run.seeds: []}}", 'sweep.axes."run.seeds"', "has 0 values"),
    ("title: small", "title: small\nsweep: {axis: {}}", "sweep", "axes is missing"),
]


@pytest.mark.parametrize(("old", "new", "path", "message"), CASES)
def test_one_fault(faults: Faults, old: str, new: str, path: str, message: str) -> None:
    assert SMALL.count(old) == 1
    found = faults(SMALL.replace(old, new))
    assert any(fault.path == path and message in f"{fault.what}; {fault.way_out}" for fault in found), found
    assert all(fault.line for fault in found)


def test_a_fault_of_a_variant_says_in_which(faults: Faults) -> None:
    text = SMALL + "overrides: {o: {traffic.chat.model: gpt-oss-20b}}\nscenarios: {v: [o]}\n"
    (fault,) = faults(text)
    assert "in scenario 'v': no pool deploys 'gpt-oss-20b'" in fault.what
    assert (fault.line, fault.path) == (17, "traffic.chat.model")


def test_duplicate_keys(faults: Faults) -> None:
    found = faults(SMALL.replace("title: small", "title: small\ntitle: large"))
    assert "written twice" in found[0].what
    assert (found[0].line, found[0].col) == (2, 1)


def test_norway_is_text_wherever_it_stands(loads: Loads) -> None:
    for spelled in ("no", "'no'", '"no"'):
        assert loads(SMALL.replace("us-virginia", spelled)).site.grid == "no"
    named = SMALL.replace("quick", "no").replace("title: small", "title: yes")
    s = loads(named)
    assert (list(s.slo), s.title) == (["no"], "yes")


def test_plain_scalars_are_read_by_the_schema(loads: Loads) -> None:
    s = loads(SMALL.replace("count: 1", "count: 1e2").replace("title: small", "title: 1e9"))
    assert (s.fleet.pools["a"].count, s.title) == (100, "1e9")


def test_a_person_s_own_rack_is_read_and_its_faults_are_reported(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("own")
    (folder / "s.yaml").write_text(SMALL.replace("jalapeno-rack", "./my-rack.yaml"))
    (folder / "my-rack.yaml").write_text("schema: racks/1\ntitle: mine\nchip: jalapeno\nchips: 8 mss\n")
    with pytest.raises(ScenarioError) as caught:
        load(folder / "s.yaml")
    assert any(fault.file.endswith("my-rack.yaml") and fault.line == 4 for fault in caught.value.faults)


def test_a_missing_file_and_a_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("none")
    with pytest.raises(ScenarioError, match="no such file"):
        load(folder / "s.yaml")
    with pytest.raises(ScenarioError, match="is a folder"):
        load(folder)


def test_a_class_that_has_a_trace_needs_no_length(loads: Loads) -> None:
    text = SMALL.replace("arrivals: poisson\n    rate: 4 req/s", "trace: azure-conv-2023")
    text = "\n".join(line for line in text.split("\n") if not line.startswith(("    input", "    output")))
    assert loads(text.replace("run: {length: 10 min}", "")).run.length_s is None


def test_models_go_by_their_names_in_the_catalogue(loads: Loads) -> None:
    s = loads(SMALL.replace("model: gpt-oss-120b\n", "model: openai/gpt-oss-120b\n"))
    assert s.traffic["chat"].model == "gpt-oss-120b"


def test_what_serves_nothing_is_said(loads: Loads) -> None:
    text = SMALL.replace("slo: quick\n", "\n").replace(
        "fleet:\n  pools:\n",
        "fleet:\n  pools:\n    b: {rack: hgx-h200, count: 1, deploy: [{model: qwen3-8b, chips: 1}]}\n",
    )
    assert [notice.code for notice in loads(text).notices] == ["slo_unused", "pool_unused"]


def test_who_decodes_has_to_deploy_the_model(faults: Faults) -> None:
    other = "b: {rack: gb300-nvl72, count: 1, deploy: [{model: gpt-oss-20b, chips: 4, role: decode}]}"
    text = SMALL.replace("chips: 8}]}", "chips: 8, role: prefill, decode_pool: b}]}\n    " + other)
    assert any("pool 'b' does not decode 'gpt-oss-120b'" in str(fault) for fault in faults(text))
    alone = SMALL.replace("chips: 8}]}", "chips: 8, role: decode}]}")
    assert any("no pool deploys 'gpt-oss-120b'" in str(fault) for fault in faults(alone))
