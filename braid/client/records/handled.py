"""What a handler is called with, and how it is settled from a thread."""

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from braid.client.records.delivery import Delivery
from braid.client.records.record import Record
from braid.kernel.errors import checked_wait

Tell = Callable[[Callable[[], None]], object]


class Handled(Protocol):
    """What a handler is called with: a record or a batch."""

    @property
    def work(self) -> Delivery:
        """Whose it is."""
        ...

    def ack(self) -> None:
        """All that was not settled is done."""
        ...

    def abandon(self) -> None:
        """All that was not settled is handled by somebody else."""
        ...


X = TypeVar("X", bound=Handled)


class ThreadRecord(Record):
    """A record that is settled from any thread; its fate is decided some time soon."""

    __slots__ = ("_record", "_tell")

    def __init__(self, record: Record, tell: Tell) -> None:
        """Settles `record` itself, so that who handed it out knows of it; `tell` runs a function on its loop."""
        super().__init__(record.raw, record.work)
        self._record = record
        self._tell = tell

    @property
    def settled(self) -> bool:
        """See `braid.Record.settled`."""
        return self._record.settled

    def ack(self) -> None:
        """See `braid.Record.ack`."""
        self._tell(self._record.ack)

    def retry(self, after_seconds: float = 0.0) -> None:
        """See `braid.Record.retry`; what is wrong with the wait is raised here, where somebody hears of it."""
        self._tell(partial(self._record.retry, checked_wait(after_seconds)))

    def postpone(self, after_seconds: float) -> None:
        """See `braid.Record.postpone`."""
        self._tell(partial(self._record.postpone, checked_wait(after_seconds)))

    def reject(self, reason: str) -> None:
        """See `braid.Record.reject`."""
        self._tell(lambda: self._record.reject(reason))

    def dead_letter(self, error: BaseException | str) -> None:
        """See `braid.Record.dead_letter`."""
        self._tell(lambda: self._record.dead_letter(error))
