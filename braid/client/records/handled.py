"""The argument of a handler, and how a thread settles it."""

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from braid.client.records.delivery import Delivery
from braid.client.records.record import Record
from braid.kernel.errors import checked_wait

Tell = Callable[[Callable[[], None]], object]


class Handled(Protocol):
    """The argument of a handler: a record or a batch."""

    @property
    def work(self) -> Delivery:
        """The work on its lease."""
        ...

    def ack(self) -> None:
        """Acknowledges everything that is unsettled."""
        ...

    def abandon(self) -> None:
        """Gives back everything that is unsettled: another handler gets it."""
        ...


X = TypeVar("X", bound=Handled)


class ThreadRecord(Record):
    """A record that may be settled in any thread; the loop settles it soon afterwards."""

    __slots__ = ("_record", "_tell")

    def __init__(self, record: Record, tell: Tell) -> None:
        """Wraps `record`, which is settled itself, so that its consumer knows; `tell` runs a function on its loop."""
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
        """See `braid.Record.retry`; an invalid wait raises here, in the caller's thread."""
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
