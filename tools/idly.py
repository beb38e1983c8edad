"""Runs a command at idle priority: it gets the cores when nobody else wants them (sched(7), `SCHED_IDLE`).

It is nice, too: that changes nothing for such a process, but the system counts its time apart (`tools.core_use`).
`python -m tools.idly make check`. What the command starts has that priority, too.
"""

import os
import sys
from collections.abc import Sequence
from typing import Final

NICE: Final = 19


def can_idle() -> bool:
    """Whether this system has a priority at which a process never keeps another from running."""
    return hasattr(os, "SCHED_IDLE")


def main(command: Sequence[str]) -> None:
    """Becomes that command's process; it is looked for on `PATH`."""
    os.nice(NICE)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    os.execvp(command[0], [*command])


if __name__ == "__main__":
    main(sys.argv[1:])
