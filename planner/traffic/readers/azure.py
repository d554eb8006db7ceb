"""Azure Public Dataset "AzureLLMInferenceTrace": ISO stamps of up to nine digits, no zone in 2023, a zone in 2024.

The 2025 files add a count of images, which is left alone.
"""

from planner.traffic.layout import Clock, Layout
from planner.traffic.readers.table import TableReader

READER = TableReader(
    Layout(
        name="azure",
        title="Azure LLM inference trace",
        arrival=(Clock("TIMESTAMP", "iso"),),
        input=("ContextTokens",),
        output=("GeneratedTokens",),
    )
)
