"""The command line: `planner`, and `python -m planner` where its script is not on the path."""

from __future__ import annotations

import signal
from typing import NoReturn


def main() -> NoReturn:
    """Load the command and run it. Ctrl-C waits until it is loaded: only then can it be answered as it should."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    from planner.cli.main import main as command

    command()


if __name__ == "__main__":
    main()
