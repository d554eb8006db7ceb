"""Joint cost and energy shared out over tokens: prefill pays for input, decode for output, idle in proportion."""

from __future__ import annotations

import math
from collections.abc import Sequence

MTOK = 1_000_000
S_PER_H = 3600


def phases(totals: Sequence[float], prefill: Sequence[float], decode: Sequence[float]) -> tuple[float, float] | None:
    """What of the pools' `totals` goes to prefill and to decode, by each pool's own measure of the two phases.

    A pool without work is capacity held for the others: it is shared as they are together. None if no pool worked.
    """
    shares = [p / (p + d) if p + d > 0 else None for p, d in zip(prefill, decode, strict=True)]
    busy = [(total, share) for total, share in zip(totals, shares, strict=True) if share is not None]
    if not busy:
        return None
    total = math.fsum(total for total, _ in busy)
    if total > 0:
        frac = math.fsum(total * share for total, share in busy) / total
    else:  # only idle pools cost anything
        frac = math.fsum(prefill) / math.fsum([*prefill, *decode])
    whole = math.fsum(totals)
    return whole * frac, whole * (1 - frac)


def over(amount: float | None, tokens: float) -> float | None:
    """An amount for each of some tokens; None where there are none."""
    return None if amount is None or tokens <= 0 else amount / tokens


def usd_per_mtok(
    usd_per_h: Sequence[float],
    prefill_chip_s: Sequence[float],
    decode_chip_s: Sequence[float],
    *,
    input_tokens: float,
    output_tokens: float,
    span_s: float,
    allocation: str = "busy-time",
) -> dict[str, float | None]:
    """Cost per million tokens; the sequences are over pools, tokens and busy chip time are of the same span.

    `allocation` says how joint cost goes to input and output: by busy time, evenly over tokens, or all to output.
    """
    hours = span_s / S_PER_H
    usd = [cost * hours for cost in usd_per_h]
    whole = math.fsum(usd)
    split = phases(usd, prefill_chip_s, decode_chip_s)
    if split is not None and allocation == "tokens":
        frac = input_tokens / (input_tokens + output_tokens) if input_tokens + output_tokens > 0 else 0.0
        split = (whole * frac, whole * (1 - frac))
    elif split is not None and allocation == "output":
        split = (0.0, whole)
    to_input, to_output = split if split is not None else (None, None)
    return {
        "usd_per_mtok_in": over(to_input, input_tokens / MTOK),
        "usd_per_mtok_out": over(to_output, output_tokens / MTOK),
        "usd_per_mtok_all": over(whole, (input_tokens + output_tokens) / MTOK),
        "usd_per_mtok_out_whole": over(whole, output_tokens / MTOK),
    }


def j_per_token(
    facility_j: Sequence[float],
    prefill_j: Sequence[float],
    decode_j: Sequence[float],
    *,
    input_tokens: float,
    output_tokens: float,
) -> dict[str, float | None]:
    """Facility energy per token, idle included; the sequences are over pools, split by the energy of their steps."""
    split = phases(facility_j, prefill_j, decode_j)
    to_input, to_output = split if split is not None else (None, None)
    whole = math.fsum(facility_j)
    return {
        "j_per_token_in": over(to_input, input_tokens),
        "j_per_token_out": over(to_output, output_tokens),
        "j_per_token_all": over(whole, input_tokens + output_tokens),
        "j_per_token_out_whole": over(whole, output_tokens),
    }
