"""BurstGPT: seconds; a failure has 0 response tokens. Newer files add a session and an elapsed time."""

from planner.traffic.layout import Clock, Layout
from planner.traffic.readers.table import TableReader

READER = TableReader(
    Layout(
        name="burstgpt",
        title="BurstGPT",
        arrival=(Clock("Timestamp", "s"),),
        input=("Request tokens",),
        output=("Response tokens",),
        total=("Total tokens",),
        session=("Session ID",),
        class_=("Log Type",),
        model=("Model",),
    )
)
