"""OpenAI usage exports: sums a bucket of time and model, as the API's pages (one, a list, or one a line) or as CSV.

An aggregate: it counts requests and has no arrivals. Buckets are in UTC. A bucket without results is a time without
requests; a day that no bucket covers is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

from planner.errors import Notice
from planner.traffic import csv_rows, json_rows
from planner.traffic.account import plain_reasons
from planner.traffic.readers.table import Wanted, cell_text
from planner.traffic.schema import REASONS, Trace, request_schema
from planner.traffic.source import Source

DAY_S = 86_400
_COUNTS = {
    "n": "num_model_requests",
    "input": "input_tokens",
    "output": "output_tokens",
    "cached": "input_cached_tokens",
}
_MOST = 10**18
"""The most that one row may count: a day of a large service has more tokens than a request can."""
_MOST_DAYS = 40_000
_KEYS = ("project_id", "user_id", "api_key_id", "model", "batch", "service_tier")


@dataclass(frozen=True, slots=True)
class Bucket:
    """One bucket of time and its result rows, each a map of text."""

    start_s: int
    end_s: int
    rows: list[dict[str, str | None]]


@dataclass(frozen=True, slots=True)
class UsageReader:
    """Reads usage of completions by bucket."""

    name: str = "openai-usage"
    title: str = "OpenAI usage export"

    def sniff(self, columns: Sequence[str]) -> bool:
        """Whether these keys are a page's, or a bucket's, or these columns the CSV export's."""
        keys = set(columns)
        is_page = {"object", "data"} <= keys and ("has_more" in keys or "next_page" in keys or len(keys) == 2)
        is_bucket = {"start_time", "end_time", "results"} <= keys
        return is_page or is_bucket or {"start_time", "num_model_requests", "input_tokens", "output_tokens"} <= keys

    def read(self, source: Source, wanted: Wanted) -> Trace:
        """Sums over all buckets, requests by day, and what is missing.

        Raises:
            TrafficError: no bucket, or no result row that can be used.
        """
        import polars as pl

        if wanted.class_column or wanted.model_column:
            raise source.refuse(
                "a usage export has no requests to map to classes", "take class_column and model_column away"
            )
        pages, bad = _pages(source)
        buckets = [bucket for page in pages for bucket in page.buckets]
        if not buckets:
            raise source.refuse(
                "no bucket of usage in it",
                "export usage of completions, by day or by hour",
                line=bad[0] if bad else None,
            )
        _refuse_double_counts(buckets, source)
        rejected, kept = _judge(buckets)
        if bad:
            rejected = {"bad_line": len(bad), **rejected}
        rows_read = sum(len(bucket.rows) for bucket in buckets) + len(bad)
        totals = _totals(buckets, kept)
        if not totals["n_requests"]:
            counts = ", ".join(f"{n:,} {reason}" for reason, n in rejected.items()) or "no requests in any"
            raise source.refuse(
                f"no usable row among {rows_read:,}: {counts}", "export a time in which there was usage"
            )
        return Trace(
            requests=pl.DataFrame(schema=dict(list(request_schema().items())[:3])),
            format=self.name,
            path=source.path,
            digest=source.digest,
            rows_read=rows_read,
            rejected=rejected,
            warnings=tuple(_warnings(pages, totals)),
            bad_line_numbers=tuple(bad[:1000]),
            is_aggregate=True,
            totals=totals,
        )


@dataclass(frozen=True, slots=True)
class Page:
    """Buckets of one answer of the API, and whether it says that more follow."""

    buckets: list[Bucket]
    has_more: bool


def _pages(source: Source) -> tuple[list[Page], list[int]]:
    """The pages of a file, and the lines that are none."""
    if source.container == "csv":
        return _csv_page(source)
    if source.container == "parquet":
        raise source.refuse("usage exports are read from JSON and CSV only", "export JSON or CSV")
    found = json_rows.read(source)
    bad = list(found.bad_lines)
    if found.envelope is not None:
        return [Page(list(_buckets(found.rows, source)), bool(found.envelope.get("has_more")))], bad
    if found.rows and "results" in found.rows[0]:  # a bare list of buckets
        return [Page(list(_buckets(found.rows, source)), has_more=False)], bad
    pages = []
    for row in found.rows:
        data = row.get("data")
        items = [item for item in data if isinstance(item, dict)] if isinstance(data, list) else []
        pages.append(Page(list(_buckets(items, source)), bool(row.get("has_more"))))
    return pages, bad


def _buckets(items: list[dict[str, Any]], source: Source) -> Iterator[Bucket]:
    for item in items:
        start, end = _epoch(item.get("start_time")), _epoch(item.get("end_time"))
        if start is None or end is None or end <= start:
            raise source.refuse(
                f"a bucket from {item.get('start_time')!r} to {item.get('end_time')!r}",
                "start_time and end_time are whole epoch seconds, in order",
            )
        rows = item.get("results")
        fields = [*_COUNTS.values(), *_KEYS]
        texts = [
            {name: cell_text(row.get(name), is_count=name in _COUNTS.values()) for name in fields}
            for row in (rows if isinstance(rows, list) else [])
            if isinstance(row, dict)
        ]
        yield Bucket(start, end, texts)


def _epoch(value: Any) -> int | None:
    """Whole seconds since 1970, however spelt; None for what is none."""
    text = str(value).removesuffix(".0") if isinstance(value, (int, json_rows.Literal)) else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 13 else None


def _refuse_double_counts(buckets: list[Bucket], source: Source) -> None:
    """Raises `TrafficError` where one request would be counted twice: in two widths of bucket, or in two groupings."""
    spans = sorted({(bucket.start_s, bucket.end_s) for bucket in buckets})
    if spans[-1][1] - spans[0][0] > _MOST_DAYS * DAY_S:
        raise source.refuse(
            f"buckets from {spans[0][0]} to {spans[-1][1]} s since 1970", f"at most {_MOST_DAYS:,} days in one file"
        )
    for (start, end), (following, _) in pairwise(spans):
        if following < end:
            what = f"the bucket from {start} to {end} and the one from {following} overlap: requests are in both"
            raise source.refuse(what, "export one width of bucket, and each time once")
    groupings = {frozenset(k for k in _KEYS if row[k]) for bucket in buckets for row in bucket.rows}
    for one, other in combinations(sorted(groupings, key=sorted), 2):
        if (one - other and other - one) or ("model" in one | other and not (one and other)):
            words = " and ".join(sorted("+".join(sorted(keys)) or "nothing" for keys in (one, other)))
            raise source.refuse(
                f"rows are grouped by {words} side by side: requests are in both", "export with one group_by"
            )


def _csv_page(source: Source) -> tuple[list[Page], list[int]]:
    """The dashboard's CSV export: one result row a line, its bucket beside it."""
    table = csv_rows.read(source)
    place = {name.casefold(): str(k) for k, name in enumerate(table.columns)}
    by_bucket: dict[tuple[int, int], list[dict[str, str | None]]] = {}
    bad = list(table.bad_lines)
    for row in table.frame.iter_rows(named=True):
        stamps = [row.get(place.get(name, ""), "") or "" for name in ("start_time", "end_time")]
        if not all(stamp.isascii() and stamp.isdigit() and len(stamp) < 13 for stamp in stamps) or int(
            stamps[1]
        ) <= int(stamps[0]):
            bad.append(row["line"])
            continue
        rows = by_bucket.setdefault((int(stamps[0]), int(stamps[1])), [])
        texts = {name: row.get(place.get(name, "")) for name in (*_COUNTS.values(), *_KEYS)}
        if any(texts[name] for name in _COUNTS.values()):  # a line of dates alone is a bucket without results
            rows.append(texts)
    return [Page([Bucket(start, end, rows) for (start, end), rows in by_bucket.items()], has_more=False)], sorted(bad)


def _judge(buckets: list[Bucket]) -> tuple[dict[str, int], list[tuple[Bucket, dict[str, int]]]]:
    """Refused rows by reason, and the counts of the others with their bucket."""
    import polars as pl

    flat = [(bucket, row) for bucket in buckets for row in bucket.rows]
    columns = {role: pl.Series([row[name] for _, row in flat], dtype=pl.String) for role, name in _COUNTS.items()}
    frame = plain_reasons(pl.DataFrame(columns), needed=("n", "input", "output"), counts=tuple(_COUNTS), most=_MOST)
    seen: set[tuple[Any, ...]] = set()
    counted: dict[str, int] = {}
    kept = []
    for (bucket, row), judged in zip(flat, frame.iter_rows(named=True), strict=True):
        reason = judged["reason"]
        key = (bucket.start_s, bucket.end_s, *(row[name] for name in _KEYS))
        if reason is None and key in seen:
            reason = "duplicate_id"
        if reason is None:
            seen.add(key)
            kept.append((bucket, {role: judged[f"n_{role}"] or 0 for role in _COUNTS}))
        else:
            counted[reason] = counted.get(reason, 0) + 1
    return {name: counted[name] for name in REASONS if name in counted}, kept


def _totals(buckets: list[Bucket], kept: list[tuple[Bucket, dict[str, int]]]) -> dict[str, Any]:
    first = min(bucket.start_s for bucket in buckets)
    last = max(bucket.end_s for bucket in buckets)
    day_0 = first // DAY_S
    by_day: list[int | None] = [None] * ((last - 1) // DAY_S - day_0 + 1)
    for bucket in buckets:
        for day in _days(bucket):
            by_day[day - day_0] = 0
    for bucket, counts in kept:
        by_day[bucket.start_s // DAY_S - day_0] += counts["n"]  # type: ignore[operator]
    for bucket in buckets:
        if len(_days(bucket)) > 1:  # which of its days a request belongs to is unknown
            for day in _days(bucket):
                by_day[day - day_0] = None
    covered = _union_s(buckets)
    sums = {role: sum(counts[role] for _, counts in kept) for role in _COUNTS}
    return {
        "n_requests": sums["n"],
        "sum_input_tokens": sums["input"],
        "sum_output_tokens": sums["output"],
        "sum_cached_input_tokens": sums["cached"],
        "sum_uncached_input_tokens": sums["input"] - sums["cached"],
        "duration_s": float(last - first),
        "covered_s": float(covered),
        "by_day_requests": by_day,
        "day_zone": "UTC",
        "mean_rate_req_per_s": sums["n"] / covered if covered else None,
        "mean_rate_req_per_s_on_day_1": None if by_day[0] is None else by_day[0] / DAY_S,
    }


def _days(bucket: Bucket) -> range:
    """The days since 1970, in UTC, that a bucket touches."""
    return range(bucket.start_s // DAY_S, (bucket.end_s - 1) // DAY_S + 1)


def _union_s(buckets: list[Bucket]) -> int:
    """Seconds that at least one bucket covers."""
    covered = 0
    upto = 0
    for start, end in sorted((bucket.start_s, bucket.end_s) for bucket in buckets):
        covered += max(0, end - max(start, upto))
        upto = max(upto, end)
    return covered


def _warnings(pages: list[Page], totals: dict[str, Any]) -> Iterator[Notice]:
    yield Notice(
        "no_arrival_times", "sums by bucket, no arrivals: a class needs arrivals, rate, input and output of its own"
    )
    last = max(pages, key=lambda page: max((bucket.end_s for bucket in page.buckets), default=0))
    if last.has_more:
        yield Notice("has_more", "the last page says that more follow: this is not the whole")
    if any(bucket.rows and len(_days(bucket)) > 1 for page in pages for bucket in page.buckets):
        yield Notice("crosses_midnight", "buckets reach from one day in UTC into the next: those days have no count")
    gap_s = totals["duration_s"] - totals["covered_s"]
    if gap_s > 0:
        yield Notice("missing_buckets", f"no bucket covers {gap_s:,.0f} s of the span: unknown, not zero")


READER = UsageReader()
