"""Mutants of what drains wait for: see `mutants`."""

from typing import Final

from services.registry import drain
from tests.simulation.mutants import Mutant

RESET_FAULTS: Final = ("reset-progress", "reset-progress", "reset-progress", "kill-service")


def _sees_no_resets(*arguments: object) -> tuple[str, ...]:
    return ()


WAIT_MUTANTS: Final = (
    Mutant(
        "a drain that does not wait for a reset",
        "I11 resets",
        [(drain, "_resets", _sees_no_resets)],
        RESET_FAULTS,
        {"fault_seconds": 60.0, "fault_interval_seconds": 10.0},
    ),
)
