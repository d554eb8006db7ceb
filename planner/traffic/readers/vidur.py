"""Vidur: seconds. Older files have other names, and the total before its parts."""

from planner.traffic.layout import Clock, Layout
from planner.traffic.readers.table import TableReader

READER = TableReader(
    Layout(
        name="vidur",
        title="Vidur",
        arrival=(Clock("arrived_at", "s"), Clock("Time", "s")),
        input=("num_prefill_tokens", "PromptTokenCount"),
        output=("num_decode_tokens", "GeneratedTokenCount"),
        total=("num_total_tokens", "TotalTokenCount"),
    )
)
