"""Quantities: text with a unit <-> a plain number in the one unit that planner keeps in memory. Standard library only.

A *kind* names what is measured and thereby the unit in memory (`KINDS`); the table of units of a kind is closed.
Dimensioned kinds are SI (`s`, `bytes`, `w`, `j`, ...); compounds with money or carbon keep the unit that their suffix
says (`usd_per_kwh`). `GB` is 1e9, `GiB` is 2^30, `ktok` is 1,000 tokens, a year is 365 days, a month a twelfth of it.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

Factor = int | Fraction

_KILO: dict[str, int] = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_BINARY: dict[str, int] = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_SMALL: dict[str, Fraction] = {
    "p": Fraction(1, 10**12),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "µ": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
}
_YEAR_S = 365 * 86_400
_MONTHS = Fraction(1, 12)
_COUNTED = (
    "chip chips GPU GPUs rack racks server servers tray trays core cores port ports people replicas layers events units"
)


def _prefixed(unit: str, prefixes: str) -> dict[str, Factor]:
    """`unit` with each of the space-separated prefixes of the table above; `-` stands for none."""
    table: dict[str, Factor] = {**_KILO, **_BINARY, **_SMALL}
    return {f"{p}{unit}": table[p] for p in ("" if p == "-" else p for p in prefixes.split())}


def _per(table: Mapping[str, Factor], *denominators: str) -> dict[str, Factor]:
    return {f"{unit}/{bottom}": factor for unit, factor in table.items() for bottom in denominators}


def _scaled(table: Mapping[str, Factor], factor: Factor) -> dict[str, Factor]:
    return {unit: Fraction(f) * factor for unit, f in table.items()}


@dataclass(frozen=True, slots=True)
class Kind:
    """What a quantity measures: its unit in memory, the units that files may use, and an example for messages."""

    unit: str
    units: Mapping[str, Factor]
    example: str
    is_bare: bool = False
    """A plain number is right (counts, factors)."""
    is_whole: bool = False
    """Only whole numbers are right."""


_BYTES = _prefixed("B", "- k M G T P Ki Mi Gi Ti Pi")
_BITS = _prefixed("bit", "- k M G T")
_FLOP = _prefixed("FLOP", "- G T P E")
_OP = _prefixed("OP", "- G T P E")
_WATT = _prefixed("W", "- k M G")
_USD = _prefixed("USD", "- k M G")
_TOKENS = {**_prefixed("tok", "- k M G T"), "token": 1, "tokens": 1}
_CO2: dict[str, Factor] = {"kgCO2e": 1, "gCO2e": Fraction(1, 1000), "tCO2e": 1000, "ktCO2e": 10**6}
_TIME: dict[str, Factor] = {
    **_prefixed("s", "- m u µ n"),
    "min": 60,
    "h": 3600,
    "d": 86_400,
    "day": 86_400,
    "days": 86_400,
    "wk": 7 * 86_400,
    "week": 7 * 86_400,
    "weeks": 7 * 86_400,
    "yr": _YEAR_S,
}
_YEARS: dict[str, Factor] = {"yr": 1, "year": 1, "years": 1, "month": _MONTHS, "months": _MONTHS}

KINDS: dict[str, Kind] = {
    "time": Kind("s", _TIME, "30 ms"),
    "years": Kind("years", _YEARS, "5 yr"),
    "bytes": Kind("bytes", _BYTES, "80 GiB"),
    "bytes_per_s": Kind("bytes_per_s", _per(_BYTES, "s"), "8 TB/s"),
    "bits_per_s": Kind("bits_per_s", {**_per(_BITS, "s"), **_per(_prefixed("b", "k M G T"), "s")}, "400 Gbit/s"),
    "flop_per_s": Kind(
        "flop_per_s", {**_per(_FLOP, "s"), **_prefixed("FLOPS", "G T P E"), **_per(_OP, "s")}, "989 TFLOP/s"
    ),
    "power": Kind("w", _WATT, "700 W"),
    "power_per_chip": Kind("w_per_chip", _per(_WATT, "chip", "GPU"), "1.73 kW/chip"),
    "energy": Kind(
        "j",
        {**_prefixed("J", "p n u µ m - k M G T"), **_scaled(_prefixed("Wh", "- k M G"), 3600)},
        "0.9 J",
    ),
    "money": Kind("usd", _USD, "0.75 MUSD"),
    "usd_per_rack": Kind("usd_per_rack", {**_per(_USD, "rack"), **_USD}, "0.75 MUSD/rack"),
    "usd_per_chip": Kind("usd_per_chip", {**_per(_USD, "chip", "GPU"), **_USD}, "6 kUSD/chip"),
    "usd_per_chip_h": Kind("usd_per_chip_h", _per(_USD, "chip-h", "GPU-h"), "2.90 USD/chip-h"),
    "usd_per_kwh": Kind(
        "usd_per_kwh", {"USD/kWh": 1, "USD/MWh": Fraction(1, 1000), "kUSD/GWh": Fraction(1, 1000)}, "0.08 USD/kWh"
    ),
    "usd_per_kw_month": Kind(
        "usd_per_kw_month",
        {**_per(_USD, "kW-month"), **_scaled(_per(_USD, "kW-yr"), _MONTHS)},
        "184 USD/kW-month",
    ),
    "usd_per_year": Kind("usd_per_year", {**_per(_USD, "yr"), **_scaled(_per(_USD, "month"), 12)}, "0.4 MUSD/yr"),
    "usd_per_person_year": Kind("usd_per_person_year", _per(_USD, "person-yr"), "260 kUSD/person-yr"),
    "usd_per_w": Kind("usd_per_w", {"USD/W": 1, "GUSD/GW": 1, "MUSD/MW": 1, "USD/MW": Fraction(1, 10**6)}, "33 USD/W"),
    "usd_per_mtok": Kind("usd_per_mtok", {"USD/Mtok": 1, "USD/ktok": 1000}, "2 USD/Mtok"),
    "usd_per_tco2e": Kind("usd_per_tco2e", {"USD/tCO2e": 1, "USD/kgCO2e": 1000}, "50 USD/tCO2e"),
    "frac": Kind("frac", {"%": Fraction(1, 100)}, "92 %"),
    "frac_per_year": Kind("frac_per_year", {"%": Fraction(1, 100), "%/yr": Fraction(1, 100)}, "9 %/yr"),
    "tokens": Kind("tokens", _TOKENS, "1200 tok"),
    "tokens_per_s": Kind("tokens_per_s", _per(_TOKENS, "s"), "184 ktok/s"),
    "tokens_per_s_per_kw": Kind("tokens_per_s_per_kw", _per(_TOKENS, "s/kW"), "19641 tok/s/kW"),
    "rate": Kind(
        "req_per_s",
        {
            **_per(_prefixed("req", "- k M"), "s"),
            **_scaled(_per(_prefixed("req", "- k M"), "min"), Fraction(1, 60)),
            **_scaled(_per(_prefixed("req", "- k M"), "h"), Fraction(1, 3600)),
        },
        "40 req/s",
    ),
    "mass": Kind("kg", {"kg": 1, "g": Fraction(1, 1000), "t": 1000}, "1360 kg"),
    "mass_co2": Kind("kgco2e", _CO2, "286 kgCO2e"),
    "carbon_intensity": Kind(
        "kgco2e_per_kwh", {**_per(_CO2, "kWh"), **_scaled(_per(_CO2, "MWh"), Fraction(1, 1000))}, "320 gCO2e/kWh"
    ),
    "water_per_kwh": Kind("l_per_kwh", {"L/kWh": 1}, "0.3 L/kWh"),
    "per_year": Kind("per_year", {f"/{x}": 1 for x in ("yr", "chip-yr", "GPU-yr", "rack-yr")}, "0.1 /chip-yr"),
    "people_per_mw": Kind("people_per_mw", {"people/MW": 1}, "1.5 people/MW"),
    "count": Kind("count", dict.fromkeys(_COUNTED.split(), 1), "8", is_bare=True, is_whole=True),
    "ratio": Kind("ratio", {"x": 1}, "1.2", is_bare=True),
}
"""Every kind of quantity; `KINDS[kind].unit` is the suffix of its name in memory."""

_BIT_UNIT = re.compile(r"([kMGT]?)(?:b|bit|bits)(/s|ps)?")
_SPELT = {
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("msec", "msecs", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("usec", "microsecond", "microseconds"), "us"),
    **dict.fromkeys(("m", "mins", "minute", "minutes"), "min"),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("y", "year", "years"), "yr"),
    **dict.fromkeys(("gbps", "gb/s"), "Gbit/s"),
    **dict.fromkeys(("percent", "pct"), "%"),
    **dict.fromkeys(("rps", "qps", "req/sec"), "req/s"),
    **dict.fromkeys(("tps", "tok/sec", "tokens/sec"), "tok/s"),
    **dict.fromkeys(("$", "dollar", "dollars"), "USD"),
    **dict.fromkeys(("watt", "watts"), "W"),
}
"""Words that people write for a unit, folded, and the unit to suggest."""
_WHOLE_UNITS = frozenset({"bytes", "tokens", "count"})
_NUMBER = re.compile(r"([+-]?)(\d{1,40}(?:_\d{1,40})*)?(?:\.(\d{0,40}))?(?:[eE]([+-]?\d{1,3}))?", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?\.?(nan|inf|infinity)\b", re.IGNORECASE)


class UnitError(ValueError):
    """A quantity that cannot be read: `what` is wrong and the `way_out`. It knows no file; callers add the place."""

    def __init__(self, what: str, way_out: str = "") -> None:
        self.what = what
        self.way_out = way_out
        super().__init__(f"{what}; {way_out}" if way_out else what)


def parse(text: str, kind: str) -> float:
    """The quantity in the unit of its kind, rounded once; whole bytes and tokens are exact.

    `kind` is a name of `KINDS`. Raises `UnitError` for a missing, unknown or foreign unit and for numbers that are
    no numbers; signs and ranges are the caller's to judge.

    >>> parse("30 ms", "time")
    0.03
    >>> parse("1.5 MW", "power")
    1500000.0
    """
    spec = KINDS[kind]
    number, unit = _split(text.strip(), spec)
    if unit == "":
        if not spec.is_bare:
            raise UnitError(f"'{_short(text)}' has no unit", f"write a quantity such as {spec.example}")
        factor: Factor = 1
    elif unit in spec.units:
        factor = spec.units[unit]
    else:
        raise _unknown_unit(unit, kind)
    exact = number * factor
    if spec.is_whole and exact.denominator != 1:
        raise UnitError(f"'{_short(text)}' is not a whole number", f"write a count such as {spec.example}")
    try:
        value = float(exact)
    except OverflowError:
        raise UnitError(f"'{_short(text)}' is too large a number", "write one below 1e308") from None
    if exact and not value:
        raise UnitError(f"'{_short(text)}' is too small a number", "write 0 if none is meant")
    return value


def _split(text: str, spec: Kind) -> tuple[Fraction, str]:
    if text == "":
        raise UnitError("no value", f"write a quantity such as {spec.example}")
    if _NOT_FINITE.match(text):
        raise UnitError(f"'{_short(text)}' is not a finite number", f"write a quantity such as {spec.example}")
    match = _NUMBER.match(text)
    digits = match is not None and (match[2] or match[3])
    if match is None or not digits:
        raise UnitError(f"'{_short(text)}' does not start with a number", f"write a quantity such as {spec.example}")
    unit = text[match.end() :].strip().replace("\u03bc", "µ")  # a Greek mu looks the same
    if unit[:1] in {",", "'", "_", "."} or unit[:1].isdigit() or re.match(r"[eE][+-]?\d", unit):
        raise UnitError(
            f"'{_short(text)}' is not a number that planner reads", "write 1200 or 1_200, and 0.5 with a point"
        )
    return Fraction(Decimal(match[0].replace("_", ""))), unit


def _unknown_unit(unit: str, kind: str) -> UnitError:
    spec = KINDS[kind]
    homes = [name for name, other in KINDS.items() if unit in other.units and name != kind]
    bits = _BIT_UNIT.fullmatch(unit)
    if bits and (kind == "bytes_per_s" or (kind == "bytes" and not bits[2])):
        as_bytes = f"{bits[1]}B{'/s' if kind == 'bytes_per_s' else ''}"
        return UnitError(
            f"'{unit}' counts bits where bytes are meant", f"divide by 8 and write {as_bytes} (such as {spec.example})"
        )
    if homes:
        return UnitError(
            f"'{unit}' is a unit of {_words(homes[0])} where {_words(kind)} is meant",
            f"write it such as {spec.example}",
        )
    if re.search(r"\b[kMG]?(EUR|GBP|JPY|CNY|CHF|CAD|AUD|INR|SEK|NOK)\b", unit):
        return UnitError(f"currency of '{_short(unit)}' is not known", f"convert to USD, such as {spec.example}")
    odd = [f"{c!r} ({unicodedata.name(c, 'no name')})" for c in unit[:40] if not c.isascii() and c != "µ"]
    seen = f", which has {', '.join(odd)}" if odd else ""
    return UnitError(f"unknown unit '{_short(unit)}'{seen}", _suggest(unit, spec.units))


def _suggest(unit: str, known: Iterable[str]) -> str:
    names = list(known)
    folded = unit.casefold()
    alike = [name for name in names if name.casefold() == folded]
    alike = alike or [name for name in (_SPELT.get(folded),) if name in names]
    if not alike:
        alike = sorted(
            (n for n in names if _edits(folded, n.casefold()) <= max(1, len(n) // 3) or folded.endswith(n.casefold())),
            key=lambda name: (_edits(folded, name.casefold()), names.index(name)),
        )[:3]
    return f"did you mean {', '.join(alike)}?" if alike else f"known: {', '.join(names[:12])}"


def _edits(a: str, b: str) -> int:
    """Levenshtein distance of two short words; long ones are simply far apart."""
    if len(a) > 24 or abs(len(a) - len(b)) > 3:
        return 99
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (x != y))
    return row[-1]


def _words(kind: str) -> str:
    named = {"frac": "share", "rate": "requests per second", "frac_per_year": "share a year"}
    return named.get(kind, kind.replace("_per_s", " per second").replace("_", " "))


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


# -- the way back ------------------------------------------------------------------------------------------------------

_LADDERS: dict[str, tuple[tuple[str, float], ...]] = {
    "time": (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("h", 3600.0), ("d", 86_400.0)),
    "energy": tuple(
        (f"{p}J", 10.0 ** (3 * i - 12)) for i, p in enumerate(("p", "n", "u", "m", "", "k", "M", "G", "T"))
    ),
    "frac": (("%", 0.01),),
    "frac_per_year": (("%/yr", 0.01),),
    "carbon_intensity": (("gCO2e/kWh", 1e-3),),
    "mass_co2": (("gCO2e", 1e-3), ("kgCO2e", 1.0), ("tCO2e", 1e3), ("ktCO2e", 1e6)),
    "usd_per_w": (("USD/W", 1.0),),
}
_PREFIXED = {
    "bytes": "B",
    "bytes_per_s": "B/s",
    "bits_per_s": "bit/s",
    "flop_per_s": "FLOP/s",
    "power": "W",
    "power_per_chip": "W/chip",
    "money": "USD",
    "usd_per_rack": "USD/rack",
    "usd_per_chip": "USD/chip",
    "usd_per_year": "USD/yr",
    "usd_per_person_year": "USD/person-yr",
    "tokens": "tok",
    "tokens_per_s": "tok/s",
    "rate": "req/s",
}
_LAST_STEP = {"min": 120.0, "h": 60.0, "d": 48.0}
"""Time goes over to minutes from 120 s, to hours from 60 min, to days from 48 h."""


def format(value: float | None, kind: str) -> str:
    """Three significant figures with the prefix that keeps 1..999, and the unit; `-` for a value that does not exist.

    >>> format(0.0142, "time"), format(8e12, "bytes_per_s"), format(None, "time")
    ('14.2 ms', '8.00 TB/s', '-')
    """
    if value is None:
        return "-"
    if not math.isfinite(value):
        return str(value)
    if kind == "count":
        return f"{value:,.0f}" if float(value).is_integer() else figures(value)
    if kind == "ratio":
        return figures(value)
    ladder = _ladder(kind)
    unit, factor = _rung(abs(value), ladder)
    return f"{figures(value / factor)} {unit}"


def figures(value: float) -> str:
    """A number with three significant figures and no exponent for everyday sizes: 0.912, 9.10, 312, 1,868."""
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(float(f"{value:.2e}"))))
    if size >= 6 or size < -4:
        return f"{value:.2e}"
    return f"{value:,.{max(0, 2 - size)}f}"


def to_text(value: float, kind: str) -> str:
    """The quantity as text that `parse` reads back to the same number; for resolved files, not for people.

    >>> to_text(0.03, "time")
    '0.03 s'
    """
    spec = KINDS[kind]
    number = repr(int(value)) if float(value).is_integer() and abs(value) < 2**63 else repr(float(value))
    if spec.is_bare:
        return number
    for unit, factor in spec.units.items():
        if factor == 1:
            return f"{number} {unit}"
    unit, factor = next(iter(spec.units.items()))
    shifted = Fraction(value) / factor
    exact = Decimal(shifted.numerator) / Decimal(shifted.denominator)  # 28 digits: more than a float holds
    texts = [f"{value / float(factor):.{digits}g} {unit}" for digits in range(1, 18)]
    return next((text for text in texts if parse(text, kind) == value), f"{exact} {unit}")


def number(text: str, kind: str) -> float | int:
    """As `parse`, with whole bytes, tokens and counts as `int`."""
    value = parse(text, kind)
    return int(value) if KINDS[kind].unit in _WHOLE_UNITS and value.is_integer() else value


def _ladder(kind: str) -> tuple[tuple[str, float], ...]:
    if kind in _LADDERS:
        return _LADDERS[kind]
    if kind in _PREFIXED:
        return tuple(
            (unit, float(factor)) for p, factor in _KILO.items() if (unit := p + _PREFIXED[kind]) in KINDS[kind].units
        )
    spec = KINDS[kind]
    return ((next((u for u, f in spec.units.items() if f == 1), ""), 1.0),)


def _rung(size: float, ladder: tuple[tuple[str, float], ...]) -> tuple[str, float]:
    best = ladder[0] if size else next((r for r in ladder if r[1] == 1.0), ladder[0])
    for (unit, factor), (_, below) in zip(ladder[1:], ladder, strict=False):
        start = below * _LAST_STEP[unit] if unit in _LAST_STEP else factor
        if float(f"{size / start:.2e}") >= 1.0:
            best = (unit, factor)
    return best


def kind_of(text: str) -> str | None:
    """The kind that a quantity's unit belongs to, first of the table where several do; None if it is no quantity.

    >>> kind_of("30 ms"), kind_of("1.5"), kind_of("72"), kind_of("Phoenix")
    ('time', 'ratio', 'count', None)
    """
    text = text.strip()
    match = _NUMBER.match(text)
    if match is None or not (match[2] or match[3]):
        return None
    unit = text[match.end() :].strip()
    if unit == "":
        return "count" if match[3] is None and match[4] is None else "ratio"
    return next((name for name, spec in KINDS.items() if unit in spec.units), None)
