"""The stages of the work on a lease, and the port for records that are not simply done."""

import asyncio
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from braid.client.records.record import Record


class Stage(Enum):
    """The stage of the work on a lease."""

    RESTORING = auto()  # committed progress is being read
    WORKING = auto()
    DRAINING = auto()  # asked back: nothing new is handed out
    ENDED = auto()


class LeaseLife:
    """The stage of the work on a lease, as its records see it even after their cursor has changed."""

    __slots__ = ("gone", "stage")

    def __init__(self) -> None:
        """Begins while committed progress is being read."""
        self.stage = Stage.RESTORING
        self.gone = asyncio.Event()  # the lease is gone

    def enter(self, stage: Stage) -> None:
        """Enters a stage."""
        self.stage = stage
        if stage is Stage.ENDED:
            self.gone.set()


class Settling(Protocol):
    """Receives records that are not simply done: to be retried, or to be copied to the dlq lane."""

    def park(self, record: "Record", delay_seconds: float, /) -> None:
        """Brings the record back after a wait."""
        ...

    def write_dead_letter(self, record: "Record", error: BaseException | str, /) -> None:
        """Copies the record to the dlq lane, then calls `Cursor.copied`."""
        ...

    def settled(self, count: int, /) -> None:
        """Counts records that are done; a commit may be due."""
        ...
