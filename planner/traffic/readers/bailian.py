"""Qwen-Bailian usage traces: the keys of Mooncake and a chat number, but seconds, and blocks of 16 tokens."""

from planner.traffic.layout import Clock, Layout
from planner.traffic.readers.table import TableReader

READER = TableReader(
    Layout(
        name="bailian",
        title="Qwen-Bailian",
        arrival=(Clock("timestamp", "s"),),
        input=("input_length",),
        output=("output_length",),
        id=("chat_id",),
        class_=("type",),
        hash_ids=("hash_ids",),
        block_tokens=16,
        also=("chat_id",),
    )
)
