"""LiteLLM spend logs, as JSON lines, a list, a page of the API, or CSV: start times in ISO or epoch seconds.

`cache_hit` marks answers from the gateway's own cache, for which no model ran; cached prompt tokens are something
else, the serving engine's prefix cache, and such a request is load. `metadata` may be text that holds JSON.
"""

from planner.traffic.flags import FAILED, SERVED, TRUE, Flag
from planner.traffic.layout import Clock, Layout
from planner.traffic.readers.table import TableReader

_DETAIL = "prompt_tokens_details.cached_tokens"

READER = TableReader(
    Layout(
        name="litellm",
        title="LiteLLM spend log",
        arrival=(Clock("startTime", "iso|s"),),
        input=("prompt_tokens",),
        output=("completion_tokens",),
        cached=(
            _DETAIL,
            f"metadata.usage_object.{_DETAIL}",
            f"metadata.additional_usage_values.{_DETAIL}",
            "metadata.additional_usage_values.cache_read_input_tokens",
            "cached_tokens",
        ),
        total=("total_tokens",),
        id=("request_id",),
        session=("session_id",),
        model=("model",),
        failed=(Flag("status", FAILED, SERVED), Flag("metadata.status", FAILED, SERVED), Flag("exception")),
        cache_hit=(Flag("cache_hit", TRUE),),
    )
)
