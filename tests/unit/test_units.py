"""Quantities as text: the closed table of units, rounding once, refusals that name the way out."""

from __future__ import annotations

from fractions import Fraction

import pytest

from planner import units

# One line per unit of the table, written out by hand: a factor that is off by 1,000 fails here.
GOLDEN = {
    "time": "1 s=1, 1 ms=1e-3, 1 us=1e-6, 1 µs=1e-6, 1 ns=1e-9, 1 min=60, 1 h=3600,"
    " 1 d=86400, 1 day=86400, 1 days=86400, 1 wk=604800, 1 week=604800, 1 weeks=604800, 1 yr=31536000",
    "years": "1 yr=1, 1 year=1, 1 years=1, 12 month=1, 12 months=1",
    "bytes": "1 B=1, 1 kB=1e3, 1 MB=1e6, 1 GB=1e9, 1 TB=1e12, 1 PB=1e15, 1 KiB=1024, 1 MiB=1048576, 1 GiB=1073741824,"
    " 1 TiB=1099511627776, 1 PiB=1125899906842624",
    "bytes_per_s": "1 B/s=1, 1 kB/s=1e3, 1 MB/s=1e6, 1 GB/s=1e9, 1 TB/s=1e12, 1 PB/s=1e15, 1 KiB/s=1024,"
    " 1 MiB/s=1048576, 1 GiB/s=1073741824, 1 TiB/s=1099511627776, 1 PiB/s=1125899906842624",
    "bits_per_s": "1 bit/s=1, 1 kbit/s=1e3, 1 Mbit/s=1e6, 1 Gbit/s=1e9, 1 Tbit/s=1e12, 1 kb/s=1e3, 1 Mb/s=1e6,"
    " 1 Gb/s=1e9, 1 Tb/s=1e12",
    "flop_per_s": "1 FLOP/s=1, 1 GFLOP/s=1e9, 1 TFLOP/s=1e12, 1 PFLOP/s=1e15, 1 EFLOP/s=1e18, 1 GFLOPS=1e9,"
    " 1 TFLOPS=1e12, 1 PFLOPS=1e15, 1 EFLOPS=1e18, 1 OP/s=1, 1 GOP/s=1e9, 1 TOP/s=1e12, 1 POP/s=1e15, 1 EOP/s=1e18",
    "power": "1 W=1, 1 kW=1e3, 1 MW=1e6, 1 GW=1e9",
    "power_per_chip": "1 W/chip=1, 1 W/GPU=1, 1 kW/chip=1e3, 1 kW/GPU=1e3, 1 MW/chip=1e6, 1 MW/GPU=1e6, 1 GW/chip=1e9,"
    " 1 GW/GPU=1e9",
    "energy": "1 pJ=1e-12, 1 nJ=1e-9, 1 uJ=1e-6, 1 µJ=1e-6, 1 mJ=1e-3, 1 J=1, 1 kJ=1e3, 1 MJ=1e6, 1 GJ=1e9, 1 TJ=1e12,"
    " 1 Wh=3600, 1 kWh=3.6e6, 1 MWh=3.6e9, 1 GWh=3.6e12",
    "money": "1 USD=1, 1 kUSD=1e3, 1 MUSD=1e6, 1 GUSD=1e9",
    "usd_per_rack": "1 USD/rack=1, 1 kUSD/rack=1e3, 1 MUSD/rack=1e6, 1 GUSD/rack=1e9, 1 USD=1, 1 kUSD=1e3, 1 MUSD=1e6,"
    " 1 GUSD=1e9",
    "usd_per_chip": "1 USD/chip=1, 1 USD/GPU=1, 1 kUSD/chip=1e3, 1 kUSD/GPU=1e3, 1 MUSD/chip=1e6, 1 MUSD/GPU=1e6,"
    " 1 GUSD/chip=1e9, 1 GUSD/GPU=1e9, 1 USD=1, 1 kUSD=1e3, 1 MUSD=1e6, 1 GUSD=1e9",
    "usd_per_chip_h": "1 USD/chip-h=1, 1 USD/GPU-h=1, 1 kUSD/chip-h=1e3, 1 kUSD/GPU-h=1e3, 1 MUSD/chip-h=1e6,"
    " 1 MUSD/GPU-h=1e6, 1 GUSD/chip-h=1e9, 1 GUSD/GPU-h=1e9",
    "usd_per_kwh": "1 USD/kWh=1, 1 USD/MWh=1e-3, 1 kUSD/GWh=1e-3",
    "usd_per_kw_month": "1 USD/kW-month=1, 1 kUSD/kW-month=1e3, 1 MUSD/kW-month=1e6, 1 GUSD/kW-month=1e9,"
    " 12 USD/kW-yr=1, 12 kUSD/kW-yr=1e3, 12 MUSD/kW-yr=1e6, 12 GUSD/kW-yr=1e9",
    "usd_per_year": "1 USD/yr=1, 1 kUSD/yr=1e3, 1 MUSD/yr=1e6, 1 GUSD/yr=1e9, 1 USD/month=12, 1 kUSD/month=12e3,"
    " 1 MUSD/month=12e6, 1 GUSD/month=12e9",
    "usd_per_person_year": "1 USD/person-yr=1, 1 kUSD/person-yr=1e3, 1 MUSD/person-yr=1e6, 1 GUSD/person-yr=1e9",
    "usd_per_w": "1 USD/W=1, 1 GUSD/GW=1, 1 MUSD/MW=1, 1 USD/MW=1e-6",
    "usd_per_mtok": "1 USD/Mtok=1, 1 USD/ktok=1e3",
    "usd_per_tco2e": "1 USD/tCO2e=1, 1 USD/kgCO2e=1e3",
    "frac": "1 %=0.01",
    "frac_per_year": "1 %=0.01, 1 %/yr=0.01",
    "tokens": "1 tok=1, 1 ktok=1e3, 1 Mtok=1e6, 1 Gtok=1e9, 1 Ttok=1e12, 1 token=1, 1 tokens=1",
    "tokens_per_s": "1 tok/s=1, 1 ktok/s=1e3, 1 Mtok/s=1e6, 1 Gtok/s=1e9, 1 Ttok/s=1e12, 1 token/s=1, 1 tokens/s=1",
    "tokens_per_s_per_kw": "1 tok/s/kW=1, 1 ktok/s/kW=1e3, 1 Mtok/s/kW=1e6, 1 Gtok/s/kW=1e9, 1 Ttok/s/kW=1e12,"
    " 1 token/s/kW=1, 1 tokens/s/kW=1",
    "rate": "1 req/s=1, 1 kreq/s=1e3, 1 Mreq/s=1e6, 60 req/min=1, 60 kreq/min=1e3, 60 Mreq/min=1e6, 3600 req/h=1,"
    " 3600 kreq/h=1e3, 3600 Mreq/h=1e6",
    "mass": "1 kg=1, 1 g=1e-3, 1 t=1e3",
    "mass_co2": "1 kgCO2e=1, 1 gCO2e=1e-3, 1 tCO2e=1e3, 1 ktCO2e=1e6",
    "carbon_intensity": "1 kgCO2e/kWh=1, 1 gCO2e/kWh=1e-3, 1 tCO2e/kWh=1e3, 1 ktCO2e/kWh=1e6, 1 kgCO2e/MWh=1e-3,"
    " 1 gCO2e/MWh=1e-6, 1 tCO2e/MWh=1, 1 ktCO2e/MWh=1e3",
    "water_per_kwh": "1 L/kWh=1",
    "per_year": "1 /yr=1, 1 /chip-yr=1, 1 /GPU-yr=1, 1 /rack-yr=1",
    "people_per_mw": "1 people/MW=1",
    "count": "1=1, 1 chip=1, 1 chips=1, 1 GPU=1, 1 GPUs=1, 1 rack=1, 1 racks=1, 1 server=1, 1 servers=1, 1 tray=1,"
    " 1 trays=1, 1 core=1, 1 cores=1, 1 port=1, 1 ports=1, 1 people=1, 1 replicas=1, 1 layers=1, 1 events=1, 1 units=1",
    "ratio": "1=1, 1 x=1",
}  # fmt: skip


def golden() -> list[tuple[str, str, float]]:
    lines = [(kind, *pair.strip().rsplit("=", 1)) for kind, text in GOLDEN.items() for pair in text.split(",")]
    return [(kind, text, float(value)) for kind, text, value in lines]


def is_right() -> bool:
    return all(units.parse(text, kind) == value for kind, text, value in golden())


def test_every_unit_has_its_factor() -> None:
    for kind, text, value in golden():
        assert units.parse(text, kind) == value, (kind, text)


def test_every_unit_of_the_table_stands_in_the_golden_list() -> None:
    listed = {(kind, text.partition(" ")[2]) for kind, text, _ in golden()}
    table = {(kind, unit) for kind, spec in units.KINDS.items() for unit in spec.units}
    assert table <= listed
    assert {kind for kind, unit in listed if unit == ""} == {k for k, spec in units.KINDS.items() if spec.is_bare}


def test_a_factor_off_by_a_thousand_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, spec in units.KINDS.items():
        for unit in spec.units:
            for wrong in (1000, Fraction(1, 1000)):
                mutated = dict(spec.units) | {unit: Fraction(spec.units[unit]) * wrong}
                with monkeypatch.context() as patch:
                    patch.setitem(units.KINDS, kind, units.Kind(spec.unit, mutated, spec.example, spec.is_bare))
                    assert not is_right(), (kind, unit)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("8 TB/s", "bytes_per_s", 8e12),
        ("30 ms", "time", 0.03),
        ("30ms", "time", 0.03),
        (" 0.08   USD/kWh ", "usd_per_kwh", 0.08),
        ("320 gCO2e/kWh", "carbon_intensity", 0.32),
        ("110 USD/kW-yr", "usd_per_kw_month", 110 / 12),
        ("92 %", "frac", 0.92),
        ("99.9 %", "frac", 0.999),
        ("0.75 MUSD/rack", "usd_per_rack", 750_000.0),
        ("85899345920 B", "bytes", 85_899_345_920),
        ("80 GiB", "bytes", 85_899_345_920),
        ("189471 MiB", "bytes", 198_674_743_296),
        ("1_200 tok", "tokens", 1200),
        ("1e3", "count", 1000),
        (".5 s", "time", 0.5),
        ("+5 s", "time", 5.0),
        ("-5 s", "time", -5.0),
        ("1e-7 s", "time", 1e-7),
        ("5 \u00b5s", "time", 5e-6),
        ("5 \u03bcs", "time", 5e-6),
        ("0e-500 s", "time", 0.0),
    ],
)
def test_reads(text: str, kind: str, value: float) -> None:
    assert units.parse(text, kind) == value


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("30 mss", "time", "unknown unit 'mss'; did you mean ms, s?"),
        ("5 kw", "power", "unknown unit 'kw'; did you mean kW?"),
        ("5", "time", "'5' has no unit; write a quantity such as 30 ms"),
        ("0.92", "frac", "'0.92' has no unit; write a quantity such as 92 %"),
        ("", "time", "no value; write a quantity such as 30 ms"),
        ("fast", "time", "'fast' does not start with a number; write a quantity such as 30 ms"),
        ("nan s", "time", "'nan s' is not a finite number; write a quantity such as 30 ms"),
        ("-inf GB", "bytes", "'-inf GB' is not a finite number; write a quantity such as 80 GiB"),
        ("1e400 s", "time", "'1e400 s' is too large a number; write one below 1e308"),
        (
            "1e9999 s",
            "time",
            "'1e9999 s' is not a number that planner reads; write 1200 or 1_200, and 0.5 with a point",
        ),
        (
            "1,200 tok",
            "tokens",
            "'1,200 tok' is not a number that planner reads; write 1200 or 1_200, and 0.5 with a point",
        ),
        ("1e-400 s", "time", "'1e-400 s' is too small a number; write 0 if none is meant"),
        ("1,5 s", "time", "'1,5 s' is not a number that planner reads; write 1200 or 1_200, and 0.5 with a point"),
        (
            "30 m\u0455",
            "time",
            "unknown unit 'm\u0455', which has '\u0455' (CYRILLIC SMALL LETTER DZE); did you mean ms?",
        ),
        ("\u0663 s", "time", "'\u0663 s' does not start with a number; write a quantity such as 30 ms"),
        ("30 sec", "time", "unknown unit 'sec'; did you mean s?"),
        ("2 hours", "time", "unknown unit 'hours'; did you mean h?"),
        ("5 rps", "rate", "unknown unit 'rps'; did you mean req/s?"),
        ("1.5 mW", "power", "unknown unit 'mW'; did you mean MW?"),
        ("400 Gbps", "bits_per_s", "unknown unit 'Gbps'; did you mean Gbit/s?"),
        ("7.5 chips", "count", "'7.5 chips' is not a whole number; write a count such as 8"),
        ("8 GB", "bytes_per_s", "'GB' is a unit of bytes where bytes per second is meant; write it such as 8 TB/s"),
        ("0.1 EUR/kWh", "usd_per_kwh", "currency of 'EUR/kWh' is not known; convert to USD, such as 0.08 USD/kWh"),
    ],
)
def test_refuses_with_the_way_out(text: str, kind: str, message: str) -> None:
    with pytest.raises(units.UnitError) as caught:
        units.parse(text, kind)
    assert str(caught.value) == message


@pytest.mark.parametrize("unit", ["Gbit/s", "Gb/s", "Gbps", "Gbit"])
def test_bits_where_bytes_are_meant_are_named(unit: str) -> None:
    with pytest.raises(units.UnitError) as caught:
        units.parse(f"400 {unit}", "bytes_per_s")
    assert (
        str(caught.value) == f"'{unit}' counts bits where bytes are meant; divide by 8 and write GB/s (such as 8 TB/s)"
    )


@pytest.mark.parametrize("unit", ["Gb", "Gbit", "Gbits"])
def test_bits_of_memory_are_named(unit: str) -> None:
    with pytest.raises(units.UnitError, match=f"'{unit}' counts bits where bytes are meant; divide by 8 and write GB "):
        units.parse(f"80 {unit}", "bytes")
    with pytest.raises(units.UnitError, match="a unit of bits per second where bytes is meant"):
        units.parse("8 Tb/s", "bytes")


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, "time", "-"),
        (0.0, "time", "0 s"),
        (0.0142, "time", "14.2 ms"),
        (0.00069, "time", "690 us"),
        (0.0009996, "time", "1.00 ms"),
        (2.414, "time", "2.41 s"),
        (119.0, "time", "119 s"),
        (600.0, "time", "10.0 min"),
        (3600.0, "time", "1.00 h"),
        (30 * 7 * 86_400.0, "time", "210 d"),
        (999.4, "power", "999 W"),
        (999.6, "power", "1.00 kW"),
        (-3.2e9, "power", "-3.20 GW"),
        (8e12, "bytes_per_s", "8.00 TB/s"),
        (85_899_345_920, "bytes", "85.9 GB"),
        (0.996, "frac", "99.6 %"),
        (0.08, "usd_per_kwh", "0.0800 USD/kWh"),
        (0.3435, "carbon_intensity", "344 gCO2e/kWh"),
        (72, "count", "72"),
        (1_200_000, "count", "1,200,000"),
        (1.2, "ratio", "1.20"),
        (float("inf"), "time", "inf"),
    ],
)
def test_formats_three_figures_with_a_prefix(value: float | None, kind: str, text: str) -> None:
    assert units.format(value, kind) == text


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("30 ms", "time"),
        ("72", "count"),
        ("1.5", "ratio"),
        ("2e3", "ratio"),
        ("0.5 %", "frac"),
        ("1 MUSD/rack", "usd_per_rack"),
        ("4 MUSD", "money"),
        ("5 yr", "time"),
        ("Phoenix", None),
        ("3 apples", None),
        ("", None),
    ],
)
def test_kind_of(text: str, kind: str | None) -> None:
    assert units.kind_of(text) == kind


def test_an_example_of_each_kind_reads() -> None:
    for kind, spec in units.KINDS.items():
        assert units.parse(spec.example, kind) >= 0
