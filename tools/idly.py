"""Runs a Python module at idle priority: it gets the cores when nobody else wants them (sched(7), `SCHED_IDLE`).

`python -m tools.idly pytest tests/simulation`.
"""

import os
import sys
from collections.abc import Sequence


def can_idle() -> bool:
    """Whether this system has a priority at which a process never keeps another from running."""
    return hasattr(os, "SCHED_IDLE")


def main(arguments: Sequence[str]) -> None:
    """Becomes that module's process."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    os.execv(sys.executable, [sys.executable, "-m", *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
