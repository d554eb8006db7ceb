"""Mooncake: milliseconds, and hashes of the prompt's 512-token blocks, each of which stands for all before it too."""

from planner.traffic.layout import Clock, Layout
from planner.traffic.readers.table import TableReader

READER = TableReader(
    Layout(
        name="mooncake",
        title="Mooncake",
        arrival=(Clock("timestamp", "ms"),),
        input=("input_length",),
        output=("output_length",),
        hash_ids=("hash_ids",),
        block_tokens=512,
    )
)
