"""Progress of long work: one line on a terminal, a plain line every 30 s elsewhere, nothing for work under a second."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.cli.output import Settings
    from planner.fleet.executor import Progress

QUIET_S = 1.0
LINE_S = 0.2
PLAIN_S = 30.0


class ProgressLine:
    """Shows how much simulated time is done and how long the rest will take."""

    def __init__(self, to: Settings) -> None:
        self.is_terminal = sys.stderr.isatty()
        self.is_shown = not to.quiet and (self.is_terminal or not to.as_json)
        self.start_s = time.monotonic()
        self.next_s = self.start_s + (QUIET_S if self.is_terminal else PLAIN_S)
        self.has_line = False

    def show(self, progress: Progress) -> None:
        """Called often; draws seldom."""
        now_s = time.monotonic()
        if not self.is_shown or now_s < self.next_s:
            return
        self.next_s = now_s + (LINE_S if self.is_terminal else PLAIN_S)
        frac = progress.done_s / progress.total_s if progress.total_s else 0.0
        spent_s = now_s - self.start_s
        left = f"{spent_s * (1 - frac) / frac:,.0f} s left" if frac > 0 else "starting"
        rate = progress.n_requests * frac / spent_s
        text = (
            f"simulating: {progress.done_s:,.0f} of {progress.total_s:,.0f} s ({100 * frac:.0f} %), "
            f"{progress.n_cells_done} of {progress.n_cells} runs done, about {rate:,.0f} requests/s, {left}"
        )
        self._draw(text)

    def note(self, frac: float, what: str) -> None:
        """The same for work that is not simulated time alone: the share done, and what of it in words."""
        spent_s = time.monotonic() - self.start_s
        left = f"{spent_s * (1 - frac) / frac:,.0f} s left" if frac > 0 else "starting"
        self.say(f"{what} ({100 * frac:.0f} %), {left}")

    def say(self, text: str) -> None:
        """The same for work of which nobody knows how long it takes."""
        now_s = time.monotonic()
        if not self.is_shown or now_s < self.next_s:
            return
        self.next_s = now_s + (LINE_S if self.is_terminal else PLAIN_S)
        self._draw(text)

    def _draw(self, text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}" if self.is_terminal else f"{text}\n")
        sys.stderr.flush()
        self.has_line = self.is_terminal

    def end(self) -> None:
        """Take the line away."""
        if self.has_line:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self.has_line = False
