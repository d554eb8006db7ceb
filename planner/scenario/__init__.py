"""What is asked: scenario files read, merged and checked.

Read `schema` for what a scenario holds (its sections are in `sections_*`, the kinds of value in `fields`), `load` for
the way from file to `Scenario`, `layers` and `tree` for merging, `checks` for faults between sections, `unsupported`
for what is read and not every verb acts on, `dump` for the way back to YAML, `diff` for two scenarios side by side.
"""

from planner.scenario.load import changed, load, load_all, read_stdin
from planner.scenario.schema import Scenario
from planner.scenario.unsupported import refuse_unsupported

__all__ = ["Scenario", "changed", "load", "load_all", "read_stdin", "refuse_unsupported"]
