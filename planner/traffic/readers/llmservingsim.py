"""LLMServingSim: whole nanoseconds, as CSV or JSON lines; epoch stamps are above 2^53."""

from planner.traffic.layout import Clock, Layout
from planner.traffic.readers.table import TableReader

READER = TableReader(
    Layout(
        name="llmservingsim",
        title="LLMServingSim",
        arrival=(Clock("arrival_time_ns", "ns"),),
        input=("input_toks",),
        output=("output_toks",),
    )
)
