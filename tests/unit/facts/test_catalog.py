"""The shipped catalogue: every file reads, every source resolves, what is undisclosed says so."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from planner import units, yaml_tree
from planner.errors import FactError
from planner.facts import catalog, schema, tables
from planner.facts.fact import GRADES, Fact
from planner.facts.keys import Key, Section

SHELF = catalog.load()


def things() -> list[tuple[str, str]]:
    return [(kind, name) for kind in catalog.KINDS if kind != "sources" for name in SHELF.names(kind)]


def every_fact() -> Iterator[tuple[str, Fact]]:
    for kind, name in things():
        for path, fact in catalog.facts_of(SHELF.any(kind, name)).items():
            yield f"{kind}/{name} {path}", fact


def test_the_catalogue_holds_the_hardware_and_models_of_the_day() -> None:
    assert {"jalapeno", "gb200", "gb300", "h100-sxm", "h200-sxm", "b200-sxm"} <= set(SHELF.names("chips"))
    assert {"jalapeno-rack", "gb200-nvl72", "gb300-nvl72", "hgx-h200"} <= set(SHELF.names("racks"))
    assert {"gpt-oss-120b", "deepseek-r1", "kimi-k2.5", "llama-3.1-8b"} <= set(SHELF.names("models"))
    assert {"generic", "trtllm", "vllm", "sglang", "openai"} == set(SHELF.names("engines"))
    assert {"no", "us-virginia"} <= set(SHELF.names("sites"))  # Norway is text, not false


def test_every_source_resolves() -> None:
    known = SHELF.sources()
    cited = {(where, source) for where, fact in every_fact() for source in fact.source}
    cited |= {(w, s) for w, fact in every_fact() for other in fact.alternatives for s in other.source}
    cited |= {(target.id, source) for target in SHELF.headline().targets for source in target.source}
    assert {(where, source) for where, source in cited if source not in known} == set()


def test_every_fact_has_a_grade_and_a_source() -> None:
    for where, fact in every_fact():
        assert fact.grade in GRADES, where
        assert fact.source, where


def test_an_undisclosed_number_has_a_range_and_a_placeholder_or_says_that_there_is_none() -> None:
    without = set()
    for where, fact in every_fact():
        if fact.grade != "undisclosed":
            assert fact.default is None, where
            continue
        assert fact.value is None, where
        assert fact.range_grade in GRADES, where
        if fact.kind in units.KINDS and fact.default is None:
            assert fact.low is None, where
            assert fact.high is None, where
            without.add(where)
        elif fact.kind in units.KINDS:
            assert fact.low is not None, where
            assert fact.high is not None, where
    assert without == {
        "chips/jalapeno on_chip_sram_bytes",
        "prices/jalapeno facts.owner_neocloud_usd_per_chip_h",
        "prices/jalapeno facts.rental_3y_usd_per_chip_h",
    }


def test_ranges_hold_what_they_belong_to() -> None:
    for where, fact in every_fact():
        used = fact.used
        if isinstance(used, int | float) and not isinstance(used, bool):
            assert fact.low is None or fact.low <= used, where
            assert fact.high is None or used <= fact.high, where


def test_what_the_planner_needs_of_a_thing_is_always_a_number() -> None:
    for name in SHELF.names("chips"):
        chip = SHELF.chip(name)
        needed = (chip.memory_bytes, chip.memory_bytes_per_s, chip.flop_per_s["bf16"], chip.tdp_w, chip.idle_w)
        assert all(fact.number > 0 for fact in (*needed, chip.scale_up.bytes_per_s, chip.scale_out.bytes_per_s)), name
        assert chip.engine in SHELF.names("engines")
    for name in SHELF.names("racks"):
        rack = SHELF.rack(name)
        assert rack.chip in SHELF.names("chips")
        assert rack.idle_w.number < rack.typical_w.number < rack.rated_w.number
        assert rack.capex_usd.number > 0
        # A rack draws more than its chips alone, at rest and at work.
        chip = SHELF.chip(rack.chip)
        assert rack.idle_w.number > rack.n_chips.number * chip.idle_w.number
        if chip.high_load_w is not None:
            assert rack.typical_w.number > rack.n_chips.number * chip.high_load_w.number, name


def test_the_name_of_an_attribute_ends_in_its_unit() -> None:
    tails = {"time": "_s", "bytes": "_bytes", "power": "_w", "mass": "_kg", "money": "_usd", "usd_per_rack": "_usd"}
    tails |= {"mass_co2": "kgco2e", "frac_per_year": "_frac", "per_year": "_year", "usd_per_w": "", "years": ""}
    plain = {"count", "ratio", "people_per_mw"}

    def check(keys: tuple[Key | Section, ...], section: str = "") -> None:
        for key in keys:
            if isinstance(key, Section):
                check(key.keys, key.attr)
            elif key.kind in units.KINDS and key.kind not in plain:
                tail = tails.get(key.kind, units.KINDS[key.kind].unit)
                assert key.attr.endswith(tail) or section.endswith(tail), key

    for table in (schema.CHIP, schema.RACK, schema.MODEL, schema.ENGINE, schema.SERVING, schema.SITE):
        check(table)
    for table in (tables.FINANCE, tables.GENERAL, tables.EFFICIENCY, tables.CHIP_PRICE, *tables.RELIABILITY.values()):
        check(table)


def test_every_key_of_the_typed_tables_is_an_attribute() -> None:
    pairs = [
        (schema.CHIP, schema.Chip),
        (schema.RACK, schema.Rack),
        (schema.MODEL, schema.Model),
        (schema.ENGINE, schema.Engine),
        (schema.SERVING, schema.Serving),
        (schema.SITE, schema.Site),
    ]
    for table, cls in pairs:
        assert {key.attr for key in table} <= set(cls.__slots__), cls


def test_a_fact_knows_where_it_lives() -> None:
    assert SHELF.chip("jalapeno").memory_bytes.path == "chips.jalapeno.memory_bytes"
    assert SHELF.chip("gb300").scale_up.latency_s.path == "chips.gb300.scale_up.latency_s"
    assert SHELF.chip("gb300").flop_per_s["fp4"].path == "chips.gb300.flop_per_s.fp4"
    assert SHELF.finance()["upkeep_frac"].path == "prices.finance.upkeep_frac"


def test_what_a_silent_scenario_uses() -> None:
    finance, general = SHELF.finance(), SHELF.general()
    assert finance["life_years"].number == 5
    assert finance["discount_frac"].number == 0.1
    assert finance["residual_frac"].number == 0.05
    assert finance["upkeep_frac"].number == 0.03
    assert finance["network_usd_per_chip"].number == 6000
    assert finance["storage_frac"].number == 0.03
    assert finance["electricity_usd_per_kwh"].number == 0.08
    assert general["pue_default"].number == 1.2
    assert general["world_carbon_kgco2e_per_kwh"].number == 0.475
    assert SHELF.reliability()["defaults"]["chip_failures_per_year"].number == 0.1
    serving = SHELF.serving()
    assert (serving.chunk_tokens.number, serving.block_tokens.number) == (8192, 16)
    assert serving.runtime_reserve_bytes.number == 3_758_096_384
    assert serving.collective_buffer_bytes.number == 411_041_792


def test_host_memory_of_a_rack_is_that_of_its_trays() -> None:
    memory = SHELF.rack("gb300-nvl72").host_memory_bytes
    assert memory is not None
    assert memory.number == 18 * 960e9
    assert (memory.low, memory.grade, memory.path) == (18 * 944e9, "vendor", "racks.gb300-nvl72.host_memory_bytes")
    assert SHELF.rack("hgx-mi300x").host_memory_bytes is None


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("gpt-oss-120b", "gpt-oss-120b"),
        ("openai/gpt-oss-120b", "gpt-oss-120b"),
        ("Llama-3.3-70B-Instruct", "llama-3.1-70b"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "qwen3-30b-a3b"),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "qwen3-235b-a22b"),
        ("deepseek-ai/DeepSeek-R1-0528", "deepseek-r1"),
        ("DeepSeek-V3.1", "deepseek-v3"),
        ("google/gemma-3-27b-it", "gemma-3-27b"),
    ],
)
def test_models_answer_to_their_checkpoints(written: str, name: str) -> None:
    assert SHELF.model(written).name == name


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: SHELF.chip("gb20"), "no 'gb20' among the catalogue's chips; did you mean gb200, gb300?"),
        (lambda: SHELF.rack("jalapeno"), "did you mean jalapeno-rack?"),
        (lambda: SHELF.model("gpt-oss-120"), "did you mean gpt-oss-120b"),
        (lambda: SHELF.site("virginia"), "did you mean us-virginia?"),
        (lambda: SHELF.engine("vlm"), "did you mean vllm"),
        (lambda: SHELF.names("chip"), "unknown kind of facts 'chip'; did you mean chips?"),
        (lambda: SHELF.chip("a/../gb200"), "no 'a/../gb200' among the catalogue's chips"),
        (lambda: SHELF.any("racks", "rack"), "no 'rack' among the catalogue's racks"),
    ],
)
def test_an_unknown_name_lists_the_nearest(ask: object, message: str) -> None:
    with pytest.raises(FactError) as caught:
        ask()  # type: ignore[operator]
    assert message in str(caught.value)


def test_only_what_is_asked_for_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    original = yaml_tree.read_file

    def spy(path: Path | str, **options: object) -> yaml_tree.Node:
        read.append(Path(path).stem)
        return original(path, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(yaml_tree, "read_file", spy)
    shelf = catalog.Catalog()
    shelf.chip("gb300")
    shelf.chip("gb300")
    assert read == ["gb300"]


def test_the_whole_catalogue_loads_quickly() -> None:
    shelf = catalog.Catalog()
    start = time.perf_counter()
    for kind, name in things():
        shelf.any(kind, name)
    assert time.perf_counter() - start < 3.0  # a tenth of a second on a laptop; a loaded builder is slower


def test_the_same_catalogue_is_handed_out() -> None:
    assert catalog.load() is catalog.load()
