"""The project's own plain form, as CSV, JSON lines or Parquet; what `planner trace convert` writes.

`arrival_s` (or `_ms`, `_us`, `_ns`; ISO stamps go in `arrival`), `input_tokens` and `output_tokens` are needed.
"""

from planner.traffic.flags import FAILED, SERVED, TRUE, Flag
from planner.traffic.layout import Clock, Layout
from planner.traffic.readers.table import TableReader

READER = TableReader(
    Layout(
        name="generic",
        title="plain columns",
        arrival=(
            Clock("arrival_ns", "ns"),
            Clock("arrival_us", "us"),
            Clock("arrival_ms", "ms"),
            Clock("arrival_s", "s"),
            Clock("arrival", "iso"),
            Clock("timestamp", "iso"),
        ),
        input=("input_tokens",),
        output=("output_tokens",),
        cached=("cached_input_tokens",),
        total=("total_tokens",),
        id=("request_id",),
        session=("session_id",),
        class_=("class",),
        model=("model",),
        failed=(Flag("failed", TRUE), Flag("status", FAILED, SERVED)),
        hash_ids=("hash_ids",),
        block=("block_tokens",),
    )
)
