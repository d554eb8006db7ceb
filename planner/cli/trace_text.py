"""The figures of a trace as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner import units
from planner.traffic.readers import reader

_LENGTHS = ("min", "p50", "p90", "p95", "p99", "max", "mean")


def inspected(name: str, figures: Mapping[str, Any], *, is_named: bool) -> str:
    """What `trace inspect` shows; `is_named`: the format was given, not told from the content."""
    how = "as named" if is_named else "told by its content"
    title = reader(figures["format"]).title
    rows = [("rows", _rows(figures))]
    if figures["rejected"]:
        rows.append(("refused", ", ".join(f"{reason} {n:,}" for reason, n in figures["rejected"].items())))
    if figures["bad_line_numbers"]:
        numbers = [str(n) for n in figures["bad_line_numbers"][:10]]
        more = len(figures["bad_line_numbers"]) - len(numbers)
        rows.append(("bad lines", ", ".join(numbers) + (f" and {more:,} more" if more else "")))
    rows += _span(figures) + _tokens(figures)
    for key in ("by_class", "by_model"):
        if key in figures:
            shares = ", ".join(f"{value or '-'} {n:,}" for value, n in list(figures[key].items())[:10])
            rows.append((key.replace("_", " "), shares))
    width = max(len(head) for head, _ in rows)
    lines = [f"{name}   {figures['format']} ({title}), {how}"]
    lines += [f"  {head:<{width}}  {text}" for head, text in rows]
    if "input" in figures:
        lines += ["", *_length_table(figures)]
    return "\n".join(lines)


def _rows(figures: Mapping[str, Any]) -> str:
    refused = sum(figures["rejected"].values())
    kept = f"{figures['n_requests']:,} requests" if "n_requests" in figures else "no requests, rates by window"
    return f"{figures['rows_read']:,} read, {refused:,} refused; {kept}"


def _span(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    rate = units.format(figures.get("mean_rate_req_per_s"), "rate")
    span = f"{units.format(figures['duration_s'], 'time')} ({figures['duration_s']:,.9g} s), {rate} on average"
    rows = [("span", span)]
    if "peak_requests_in_any_60_s" in figures:
        cv = figures["gap_cv"]
        spread = "-" if cv is None else units.figures(cv)
        longest = units.format(figures["longest_gap_s"], "time")
        peak = f"{figures['peak_requests_in_any_60_s']:,} in the busiest 60 s"
        rows.append(("arrivals", f"{peak}, longest gap {longest}, gap CV {spread}"))
    if "expected_requests" in figures:
        peak = units.format(figures["peak_rate_req_per_s"], "rate")
        covered = units.format(figures["covered_s"], "time")
        rows.append(
            ("windows", f"{figures['expected_requests']:,.6g} requests expected in {covered} known, peak {peak}")
        )
    if "by_day_requests" in figures:
        days = ", ".join("-" if n is None else f"{n:,}" for n in figures["by_day_requests"][:14])
        rows.append((f"by day ({figures['day_zone']})", days))
    return rows


def _tokens(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    if "sum_input_tokens" not in figures:
        return []
    text = f"{figures['sum_input_tokens']:,} in, {figures['sum_output_tokens']:,} out"
    if "sum_cached_input_tokens" in figures:
        text += f"; {figures['sum_cached_input_tokens']:,} of the input was cached"
    rows = [("tokens", text)]
    if "prefix_hit_tokens_infinite_cache" in figures:
        share = units.format(figures["prefix_hit_frac_infinite_cache"], "frac")
        hit = f"{figures['prefix_hit_tokens_infinite_cache']:,} tokens ({share} of the input)"
        rows.append(("prefixes", f"{hit} repeat an earlier prompt's blocks of {figures['block_tokens']}"))
    return rows


def _length_table(figures: Mapping[str, Any]) -> list[str]:
    rows: list[tuple[str, ...]] = [("tokens a request", *_LENGTHS)]
    rows += [(side, *(f"{figures[side][key]:,.0f}" for key in _LENGTHS)) for side in ("input", "output")]
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return ["  " + "  ".join(_aligned(row, widths)) for row in rows]


def _aligned(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    """The first cell to the left, the others to the right."""
    for k, (cell, width) in enumerate(zip(row, widths, strict=True)):
        yield cell.rjust(width) if k else cell.ljust(width)
