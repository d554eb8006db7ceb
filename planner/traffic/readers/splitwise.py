"""Splitwise simulator: seconds, one row a request with its own number."""

from planner.traffic.layout import Clock, Layout
from planner.traffic.readers.table import TableReader

READER = TableReader(
    Layout(
        name="splitwise",
        title="Splitwise",
        arrival=(Clock("arrival_timestamp", "s"),),
        input=("prompt_size",),
        output=("token_size",),
        id=("request_id",),
    )
)
