"""A recorded trace made faster, denser, longer or shorter. All clocks are whole nanoseconds; nothing is rounded twice.

The order is: the clock first (`faster`, then `idle_cap`), copies on the new clock (`copies`), then `begun_at`, `repeat`
and `cut`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from planner import core
from planner.errors import Fault, TrafficError

if TYPE_CHECKING:
    import polars as pl

MAX_REQUESTS = 2**28
"""The most requests that one class can have in one run where they are held."""


def faster(requests: pl.DataFrame, speedup: float) -> pl.DataFrame:
    """The trace with its clock run `speedup` times as fast: every gap divided by it; no request is added or lost."""
    import polars as pl

    if speedup == 1.0:
        return requests
    ratio = ratio_of(speedup)
    time = pl.col("arrival_ns").cast(pl.Int128)
    scaled = (time * ratio.denominator + ratio.numerator // 2) // ratio.numerator
    return requests.with_columns(scaled.cast(pl.Int64).alias("arrival_ns"))


def ratio_of(speedup: float) -> Fraction:
    """A factor as it was written."""
    return Fraction(repr(speedup))


def faster_ns(time_ns: int, speedup: float) -> int:
    """One time of the clock that `faster` runs."""
    ratio = ratio_of(speedup)
    return (time_ns * ratio.denominator + ratio.numerator // 2) // ratio.numerator


def idle_cap(requests: pl.DataFrame, cap_ns: int | None) -> pl.DataFrame:
    """The trace with every gap longer than `cap_ns` cut to it."""
    import polars as pl

    if cap_ns is None:
        return requests
    gaps = pl.col("arrival_ns").diff().fill_null(0)
    return requests.with_columns(pl.min_horizontal(gaps, pl.lit(cap_ns)).cum_sum().alias("arrival_ns"))


def copies(requests: pl.DataFrame, scale: float, *, span_ns: int, key: int, seed: int) -> pl.DataFrame:
    """`scale` copies of the trace, superposed: the first as recorded, each other turned round its span.

    All arrivals are before `span_ns`, and stay so; the shifts come from `seed` and `key`.

    A fraction is one more copy of which each request stays with that probability; below 1 the recorded one is thinned.
    A column `copy`, where there is one, numbers the copies.
    """
    import polars as pl

    whole = int(scale)
    part = scale - whole
    too_many(requests.height * scale)
    n_copies = whole + (part > 0)
    spec = {"kind": "rotations", "seed": seed, "key": key, "n_copies": n_copies, "modulus_ns": span_ns}
    shifts = core.sample(spec)["shift_ns"].cast(pl.Int64).to_list()
    parts = []
    for number, shift in enumerate(shifts):
        source = requests
        if number == whole:
            thin = {
                "kind": "thinning",
                "seed": seed,
                "key": key,
                "copy": number,
                "n": requests.height,
                "keep_frac": part,
            }
            source = requests[core.sample(thin)["row"]]
        if "copy" in source.columns:
            source = source.with_columns(pl.lit(number, pl.UInt32).alias("copy"))
        turned = (pl.col("arrival_ns") + shift) % span_ns
        parts.append(source.with_columns(turned.alias("arrival_ns")) if shift else source)
    return parts[0] if len(parts) == 1 else pl.concat(parts).sort("arrival_ns", maintain_order=True)


def begun_at(requests: pl.DataFrame, start_ns: int, span_ns: int) -> pl.DataFrame:
    """The trace from `start_ns` on, and then from its begin up to there; a start beyond the span is of a later turn."""
    import polars as pl

    first_ns = start_ns % span_ns
    if not first_ns:
        return requests
    turned = (pl.col("arrival_ns") + (span_ns - first_ns)) % span_ns
    return requests.with_columns(turned).sort("arrival_ns", maintain_order=True)


def repeat(requests: pl.DataFrame, span_ns: int, length_ns: int) -> pl.DataFrame:
    """The trace started again right after its span, as often as `length_ns` takes; `copy` counts on."""
    import polars as pl

    n_passes = length_ns // span_ns + 1
    too_many(requests.height * n_passes)
    shifted = [pl.col("arrival_ns") + number * span_ns for number in range(n_passes)]
    if "copy" not in requests.columns:
        return pl.concat([requests.with_columns(shift) for shift in shifted])
    n_copies = requests["copy"].n_unique()
    passes = [requests.with_columns(shift, pl.col("copy") + k * n_copies) for k, shift in enumerate(shifted)]
    return pl.concat(passes)


def cut(requests: pl.DataFrame, length_ns: int) -> pl.DataFrame:
    """The requests that arrive by `length_ns`, that instant included."""
    import polars as pl

    return requests.filter(pl.col("arrival_ns") <= length_ns)


def too_many(n: float, *, path: str = "") -> None:
    """Refuse more requests of the class at `path` than memory can hold.

    Raises:
        TrafficError: says the way out.
    """
    if n > MAX_REQUESTS:
        raise TrafficError(too_many_fault(n, MAX_REQUESTS, path))


def too_many_fault(n: float, most: int, path: str) -> Fault:
    """The fault of a class with more than `most` requests."""
    what = f"{n:,.0f} requests in one run of one class"
    return Fault(what, f"at most {most:,}: lower scale or rate, or shorten run.length", path=path)
