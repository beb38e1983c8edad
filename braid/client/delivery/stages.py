"""Where the work on a lease stands, and what it turns to when a record is not simply done."""

import asyncio
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from braid.client.records.record import Record


class Stage(Enum):
    """Where the work on a lease stands."""

    RESTORING = auto()  # committed progress is being read
    WORKING = auto()
    DRAINING = auto()  # asked back: nothing new is handed out
    ENDED = auto()


class LeaseLife:
    """Where the work on a lease stands, as records see it whatever becomes of the cursor they came by."""

    __slots__ = ("gone", "stage")

    def __init__(self) -> None:
        """Its committed progress is being read."""
        self.stage = Stage.RESTORING
        self.gone = asyncio.Event()  # the lease is

    def enter(self, stage: Stage) -> None:
        """It stands there from now on."""
        self.stage = stage
        if stage is Stage.ENDED:
            self.gone.set()


class Settling(Protocol):
    """What becomes of records that are not simply done."""

    def park(self, record: "Record", delay_seconds: float, /) -> None:
        """Brings the record back after a wait."""
        ...

    def write_dead_letter(self, record: "Record", error: BaseException | str, /) -> None:
        """Copies the record to the dlq lane, then calls `Cursor.copied`."""
        ...

    def settled(self, count: int, /) -> None:
        """Records are done: a commit may be due."""
        ...
