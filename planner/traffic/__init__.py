"""What arrives: traces, drawn traffic and profiles of real services, as one frame of requests.

Reading guide: `trace.py` (a file -> `Trace`; its format is told by its content), `account.py` (which rows are requests,
and why the others are not), `readers/` (one file a format), `requests.py` (a scenario's classes -> what is simulated),
`transform.py` (scale, speed, repeat), `profiles.py` and `fit_profile.py` (real services, seeded), `demand.py`.
"""

from planner.traffic.readers import FORMATS
from planner.traffic.schema import REASONS, Trace
from planner.traffic.trace import read

__all__ = ["FORMATS", "REASONS", "Trace", "read"]
