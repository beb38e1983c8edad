"""How far a producer's receipts of one channel go, and where a log went on over another connection. Pure.

A log that lost its end has another leader, or one that was started anew (KIP-101), so whoever writes on does so over
another connection. What was acknowledged over the one before is told then, and the registry looks whether it is there.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from braid.kernel.ports import Written


class Resumption(NamedTuple):
    """A partition's acknowledgements before and after a connection ended: offsets.

    Attributes:
        first: The first that came over the connection before, of records that were sent over no other.
        next: The one after the last of them.
        resumed: The first that came over the other connection.
    """

    partition: int
    first: int
    next: int
    resumed: int


class _Run:
    """Acknowledgements of one partition that came over one connection."""

    __slots__ = ("connection", "first", "next", "sender")

    def __init__(self, sender: int, written: Written) -> None:
        self.sender = sender
        self.connection = written.connection
        self.first = -1 if written.again else written.offset
        self.next = written.offset + 1


class Receipts:
    """Of one channel, over all clients that a producer opened for it."""

    def __init__(self, resumed: Callable[[Resumption], None] | None = None) -> None:
        """`resumed` hears of each partition that went on over another connection."""
        self._resumed = resumed
        self._senders = 0
        self._runs: dict[int, _Run] = {}
        self._next: dict[int, int] = {}

    @property
    def next_offsets(self) -> Mapping[int, int]:
        """By partition, the offset after the highest one acknowledged."""
        return self._next

    def new_sender(self) -> int:
        """A number for a client of its own, whose connections are none of those before."""
        self._senders += 1
        return self._senders

    def take(self, sender: int, written: Written) -> None:
        """A record was acknowledged. A broker that forgot where a repeated one lies says -1, which tells nothing."""
        partition, offset = written.partition, written.offset
        if offset < 0:
            return
        if offset >= self._next.get(partition, 0):
            self._next[partition] = offset + 1
        run = self._runs.get(partition)
        if run is None:
            self._runs[partition] = _Run(sender, written)
        elif run.connection == written.connection and run.sender == sender:
            if offset >= run.next:
                run.next = offset + 1
            if run.first < 0 and not written.again:
                run.first = offset
        elif (sender, written.connection) > (run.sender, run.connection):  # else one told late
            self._runs[partition] = _Run(sender, written)
            if self._resumed is not None:
                first = run.first if run.first >= 0 else run.next - 1
                self._resumed(Resumption(partition, first, run.next, offset))
