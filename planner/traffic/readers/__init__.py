"""One file a format; `FORMATS` is the registry.

Most formats are a `Layout` (names of columns, unit of the clock) read by `table.py`; a format that is no table of
requests has a reader of its own. To add one: a file here with `READER`, a line in `FORMATS`, a fixture and a test.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.traffic.readers.table import Wanted
    from planner.traffic.schema import Trace
    from planner.traffic.source import Source

# In the order in which they are tried: a format whose columns another one has too comes before it.
FORMATS = (
    "azure",
    "burstgpt",
    "vidur",
    "splitwise",
    "llmservingsim",
    "bailian",
    "mooncake",
    "litellm",
    "openai-usage",
    "vllm-bench",
    "servegen",
    "generic",
)


class Reader(Protocol):
    """What each format's `READER` can do."""

    @property
    def name(self) -> str:
        """The format's name, as in `FORMATS`."""

    @property
    def title(self) -> str:
        """Who writes such files."""

    def sniff(self, columns: Sequence[str]) -> bool:
        """Whether a file with these columns, keys or first fields is of this format."""

    def read(self, source: Source, wanted: Wanted) -> Trace:
        """The trace of a file that is taken to be of this format."""


def reader(name: str) -> Reader:
    """The reader of the format called `name`, one of `FORMATS`."""
    module = importlib.import_module(f"planner.traffic.readers.{name.replace('-', '_')}")
    found: Reader = module.READER
    return found
