"""A person's own file: every fault at once, each with line, column, path and the way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.errors import FactError
from planner.facts import catalog, schema

CHIP = """\
title: My chip
memory: {value: 100 GB, grade: vendor, source: data sheet of March}
memory_bandwidth: 4 TB/s
flops_dense: {bf16: 1000 TFLOP/s, fp8: 2000 TFLOP/s, fp4: null}
tdp: 500 W
idle: 60 W
scale_up: {bandwidth: 400 GB/s, domain: 8, latency: 3 us}
scale_out: {nic: 400 Gbit/s, bandwidth: 50 GB/s, latency: 20 us}
"""
RACK = """\
title: My rack
chip: gb300
chips: 36
rated: 70 kW
typical: 55 kW
idle: 12 kW
capex: 2 MUSD/rack
"""


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def faults(folder: Path, text: str, kind: str = "chip") -> list[str]:
    write(folder, "my.yaml", text)
    with pytest.raises(FactError) as caught:
        catalog.read_file(folder / "my.yaml", kind)
    return [str(fault).removeprefix(f"{folder}/") for fault in caught.value.faults]


def test_a_chip_of_short_and_long_facts(tmp_path: Path) -> None:
    chip = catalog.read_file(write(tmp_path, "my-chip.yaml", CHIP), "chip")
    assert isinstance(chip, schema.Chip)
    assert (chip.name, chip.title, chip.engine) == ("my-chip", "My chip", "generic")
    assert chip.memory_bytes.number == 100e9
    assert (chip.memory_bytes.grade, chip.memory_bytes.source) == ("vendor", ("data sheet of March",))
    assert (chip.tdp_w.number, chip.tdp_w.grade, chip.tdp_w.path) == (500, "assumed", "chips.my-chip.tdp_w")
    assert chip.flop_per_s["fp4"].used is None


def test_a_rack_by_its_path_beside_the_scenario(tmp_path: Path) -> None:
    write(tmp_path, "my-rack.yaml", RACK)
    rack = catalog.load().rack("./my-rack.yaml", base=tmp_path)
    assert (rack.name, rack.chip, rack.n_chips.number, rack.capex_usd.number) == ("my-rack", "gb300", 36, 2e6)


def test_a_rack_may_carry_a_chip_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, "my-chip.yaml", CHIP)
    write(tmp_path, "my-rack.yaml", RACK.replace("gb300", "./my-chip.yaml"))
    shelf = catalog.load()
    rack = shelf.rack("./my-rack.yaml", base=tmp_path)
    assert shelf.chip(rack.chip).memory_bytes.number == 100e9


def test_a_quote_may_be_undisclosed_with_a_placeholder(tmp_path: Path) -> None:
    text = RACK.replace(
        "capex: 2 MUSD/rack", "capex: {value: null, default: 2 MUSD, low: 1 MUSD, high: 3 MUSD, grade: undisclosed}"
    )
    rack = catalog.read_file(write(tmp_path, "r.yaml", text), "racks")
    assert isinstance(rack, schema.Rack)
    assert (rack.capex_usd.value, rack.capex_usd.number, rack.capex_usd.is_assumed) == (None, 2e6, True)


def test_all_faults_of_a_file_at_once(tmp_path: Path) -> None:
    text = CHIP.replace("4 TB/s", "32 Tbit/s").replace("500 W", "-5 W").replace("60 W", "nan W")
    text = text.replace("100 GB", "100 gb").replace("fp8: 2000", "fp8: 4000").replace("domain: 8, ", "")
    text += "idel: 3 W\n"
    assert faults(tmp_path, text) == [
        "my.yaml:2:17: memory.value: unknown unit 'gb'; did you mean GB?",
        "my.yaml:3:19: memory_bandwidth: 'Tbit/s' counts bits where bytes are meant; divide by 8 and write TB/s"
        " (such as 8 TB/s)",
        "my.yaml:4:40: flops_dense.fp8: fp8 is 4 x bf16, not 2; a data sheet that prints sparse figures shows twice the"
        " dense ones; write the dense rate",
        "my.yaml:5:6: tdp: '-5 W' is negative",
        "my.yaml:6:7: idle: 'nan W' is not a finite number; write a quantity such as 700 W",
        "my.yaml:7:11: scale_up.domain: missing 'domain'; write it such as `domain: 8`",
        "my.yaml:9:1: idel: unknown key 'idel'; did you mean idle?",
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tdp: 500 W\n", "", "my.yaml:1:1: tdp: missing 'tdp'; write it such as `tdp: 700 W`"),
        ("500 W", "500", "my.yaml:5:6: tdp: '500' has no unit; write a quantity such as 700 W"),
        ("500 W", "inf W", "my.yaml:5:6: tdp: 'inf W' is not a finite number; write a quantity such as 700 W"),
        ("500 W", "1e999 W", "my.yaml:5:6: tdp: '1e999 W' is too large a number"),
        ("500 W", "0 W", "my.yaml:5:6: tdp: '0 W' is zero"),
        ("500 W", "5 GB", "my.yaml:5:6: tdp: 'GB' is a unit of bytes where power is meant; write it such as 700 W"),
        ("500 W", "null", "my.yaml:5:6: tdp: has no value; write it such as `tdp: 700 W`"),
        ("500 W", "[500 W]", "my.yaml:5:6: tdp: is not a single value; write it such as `tdp: 700 W`"),
        ("500 W", "{low: 1 W}", "my.yaml:5:6: tdp.value: missing 'value'; write it such as `tdp: 700 W`"),
        ("500 W", "{value: 500 W, low: 600 W}", "my.yaml:5:14: tdp: lies outside low..high"),
        ("500 W", "{value: 5 W, low: 6 W, high: 4 W}", "my.yaml:5:24: tdp.low: low is above high"),
        ("500 W", "{value: 5 W, grade: guess}", "my.yaml:5:26: tdp.grade: unknown grade 'guess'; known: measured, "),
        ("500 W", "{value: 5 W, note: a, b}", "my.yaml:5:28: tdp.b: unknown key 'b'; known: value, "),
        ("500 W", "{value: 5 W, default: 6 W}", "tdp: only an undisclosed fact has a `default`; write it as `value`"),
        ("500 W", "{value: 5 W, grade: undisclosed}", "tdp: an undisclosed fact has no value; move it to `default`"),
        ("500 W", "{value: null, grade: undisclosed}", "tdp: undisclosed without a placeholder; add `default:`"),
        ("500 W", "{value: null}", "tdp: has no value; write one, or `grade: undisclosed` with a `default`"),
        ("500 W", "{value: 5 W, unit: W}", "tdp.unit: the unit belongs into the value"),
        ("domain: 8", "domain: 8.5", "scale_up.domain: '8.5' is not a whole number"),
        ("latency: 3 us", "latency: 3 GB/s", "scale_up.latency: 'GB/s' is a unit of bytes per second where time is"),
        ("fp8: 2000", "fp8: 1000", "flops_dense.fp8: fp8 is 1 x bf16, not 2"),
        ("fp4: null", "fp4: 8000 TFLOP/s", "flops_dense.fp4: fp4 is 4 x fp8, not 2 or 3"),
        (", fp4: null", "", "flops_dense.fp4: missing 'fp4'"),
        ("title: My chip", "title: [x]", "title: 'title' is not text"),
        ("title: My chip", "titel: My chip", "titel: unknown key 'titel'; did you mean title?"),
        ("title: My chip", "schema: racks/1\ntitle: x", "schema: the file says 'racks/1'; here 'chips/1' is read"),
        ("scale_up: {", "scale_up: 5\nscale_down: {", "scale_up: is not a mapping; write `key: value` lines below it"),
    ],
)
def test_faults_of_a_chip(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in CHIP
    found = faults(tmp_path, CHIP.replace(old, new))
    assert any(message in fault for fault in found), found


def test_the_rate_of_a_chip_without_native_fp8_may_be_that_of_bf16(tmp_path: Path) -> None:
    fp8 = "{value: 1000 TFLOP/s, note: 'no native fp8: same rate as bf16'}"
    chip = catalog.read_file(write(tmp_path, "c.yaml", CHIP.replace("fp8: 2000 TFLOP/s", f"fp8: {fp8}")), "chip")
    assert isinstance(chip, schema.Chip)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("chip: gb300", "chip: gb3000", "chip: no chip 'gb3000' in the catalogue; did you mean gb300"),
        ("chip: gb300\n", "", "missing 'chip'"),
        ("chips: 36", "chips: 0", "chips: '0' is zero"),
        ("chips: 36", "chips: 36 kW", "chips: 'kW' is a unit of power where count is meant"),
        ("typical: 55 kW", "typical: 75 kW", "typical: typical power is above rated power"),
        ("capex: 2 MUSD/rack", "capex: 2 MUSD/chip", "capex: 'MUSD/chip' is a unit of usd per chip where"),
        ("capex: 2 MUSD/rack", "capex: 2 MEUR", "capex: currency of 'MEUR' is not known; convert to USD"),
        ("idle: 12 kW", "idle: 12 kW\navailable_from: 2026-02-30", "'2026-02-30' is not a date; write it such as"),
        ("idle: 12 kW", "idle: 12 kW\nliquid_share: 120 %", "liquid_share: '120 %' is more than 100 %"),
        ("idle: 12 kW", "idle: 12 kW\nidle: 13 kW", "'idle' is written twice, first at line 6"),
    ],
)
def test_faults_of_a_rack(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in RACK
    found = faults(tmp_path, RACK.replace(old, new), "rack")
    assert any(message in fault for fault in found), found


def test_groups_name_their_members(tmp_path: Path) -> None:
    text = (catalog.DATA / "models" / "gpt-oss-120b.yaml").read_text()
    text = text.replace("  top_k: 4\n", "  topk: 4\n").replace("  experts: 128\n", "  experts: many\n")
    found = faults(tmp_path, text, "model")
    assert any("moe.topk: unknown key 'topk'; did you mean top_k?" in fault for fault in found)
    assert any("moe.top_k: missing 'top_k'" in fault for fault in found)
    assert any("moe.experts: 'many' does not start with a number" in fault for fault in found)


def test_a_kind_that_no_file_holds(tmp_path: Path) -> None:
    with pytest.raises(FactError) as caught:
        catalog.read_file(write(tmp_path, "c.yaml", CHIP), "chipp")
    assert "a file cannot hold 'chipp'; did you mean chip?" in str(caught.value)
