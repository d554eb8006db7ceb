"""Laws of quantities: text made from a number reads back to it, order is kept, no text breaks the reader."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import assume, given
from hypothesis import strategies as st

from planner import units

KINDS = st.sampled_from(sorted(units.KINDS))
SIZES = st.floats(min_value=1e-12, max_value=1e15, allow_nan=False)


@given(kind=KINDS, value=st.one_of(SIZES, st.integers(0, 2**53).map(float)))
def test_text_of_a_number_reads_back_to_it(kind: str, value: float) -> None:
    value = float(round(value)) if units.KINDS[kind].is_whole else value
    assert units.parse(units.to_text(value, kind), kind) == value


@given(kind=KINDS, value=SIZES, data=st.data())
def test_a_quantity_is_its_number_times_the_factor_rounded_once(kind: str, value: float, data: st.DataObject) -> None:
    spec = units.KINDS[kind]
    assume(not spec.is_whole)
    unit = data.draw(st.sampled_from(sorted(spec.units)))
    assert units.parse(f"{value!r} {unit}", kind) == float(Fraction(repr(value)) * spec.units[unit])


@given(kind=st.sampled_from(["time", "bytes_per_s", "power", "energy", "frac", "tokens_per_s"]), value=SIZES)
def test_what_is_shown_is_within_half_a_figure(kind: str, value: float) -> None:
    text = units.format(value, kind).replace(",", "")
    shown = units.parse(text, kind)
    size = abs(shown - value) / value
    assume(float(text.split()[0]) >= 1)  # below the smallest prefix fewer figures are left
    assert size <= 0.005000001


def read_or_refusal(text: str, kind: str) -> float | str:
    try:
        return units.parse(text, kind)
    except units.UnitError as error:
        return str(error)


@given(kind=KINDS, text=st.text(max_size=60))
def test_any_text_is_read_or_refused(kind: str, text: str) -> None:
    got = read_or_refusal(text, kind)
    assert math.isfinite(got) if isinstance(got, float) else got


@given(text=st.from_regex(r"[+-]?\d{1,50}(\.\d{0,50})?([eE][+-]?\d{1,5})?( ?[A-Za-z%/]{0,6})?", fullmatch=True))
def test_long_numbers_neither_stall_nor_fill_the_screen(text: str) -> None:
    assert len(str(read_or_refusal(text, "bytes"))) < 300
