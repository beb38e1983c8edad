"""The producer's own copies of unacknowledged records, bounded in bytes, in the order they were sent. No I/O."""

import asyncio
from collections import deque
from collections.abc import Iterator

from braid.client.records.outgoing import Headers, Receipt
from braid.kernel.errors import BraidError
from braid.kernel.ids import ChannelId
from braid.kernel.limits.client import PRODUCER_COPIES, PRODUCER_HEADER_BYTES, PRODUCER_RECORD_BYTES


class Pending:
    """One record that is not acknowledged yet."""

    __slots__ = (
        "channel",
        "deadline",
        "future",
        "headers",
        "held",
        "id",
        "key",
        "lane",
        "partition",
        "sequence",
        "size",
        "stamp_ms",
        "value",
    )

    def __init__(
        self,
        sequence: int,
        lane: str,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        stamp_ms: int,
        size: int,
        *,
        id: str,
        deadline: float,
        held: int = 0,
    ) -> None:
        """`held` is the record's part of the outbox's bound."""
        self.sequence = sequence
        self.lane = lane
        self.key = key
        self.value = value
        self.headers = headers
        self.stamp_ms = stamp_ms
        self.id = id
        self.size = size
        self.held = held
        self.channel: ChannelId | None = None
        self.partition = -1  # of the channel, once it has one
        self.deadline = deadline
        self.future: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()


def record_bytes(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Returns the uncompressed size of a record: key, value and headers."""
    size = len(key or b"") + len(value or b"")
    for name, data in headers:  # every record passes here: no generator
        size += len(name) + len(data)
    return size


def held_bytes(size: int, headers: Headers) -> int:
    """Estimates the memory held for a record of `size` bytes until its fate is known, with the Kafka client's copy."""
    return int(size * PRODUCER_COPIES) + PRODUCER_RECORD_BYTES + len(headers) * PRODUCER_HEADER_BYTES


class Outbox:
    """Copies of unacknowledged records in order of sending, and the bound on their memory.

    A sender that would exceed the bound waits; waiting senders are served in their order.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._records: dict[int, Pending] = {}
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._filled = asyncio.Event()
        self._closed: BraidError | None = None

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Pending]:
        return iter(self._records.values())

    @property
    def bytes(self) -> int:
        """The bytes that the copies hold."""
        return self._bytes

    def oldest(self) -> Pending | None:
        """The record that has waited longest."""
        return next(iter(self._records.values()), None)

    async def filled(self) -> None:
        """Waits until there is any record."""
        await self._filled.wait()

    def try_reserve(self, held: int) -> bool:
        """Reserves `held` bytes if they fit and no sender waits; False if `reserve` must be used."""
        if self._closed is not None or self._waiting or not self._fits(held):
            return False
        self._bytes += held
        return True

    async def reserve(self, held: int) -> None:
        """Waits until `held` bytes fit (one record always fits into an empty outbox), and takes them.

        Raises:
            BraidError: what `close` was given.
        """
        if self._closed is not None:
            raise self._closed
        if self._waiting or not self._fits(held):
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            entry = (held, waiter)
            self._waiting.append(entry)
            try:
                await waiter
            except asyncio.CancelledError:
                self._forget(entry)
                raise
            return
        self._bytes += held

    def close(self, error: BraidError) -> None:
        """Accepts no more records: senders that wait for room, or ask for some, get the error."""
        self._closed = error
        while self._waiting:
            _, waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(error)

    def add(self, record: Pending) -> None:
        """Keeps a copy whose bytes were reserved."""
        self._records[record.sequence] = record
        self._filled.set()

    def remove(self, record: Pending) -> bool:
        """Forgets a record and frees its bytes; False when it was forgotten before."""
        if self._records.pop(record.sequence, None) is None:
            return False
        if not self._records:
            self._filled.clear()
        self._bytes -= record.held
        self._wake()
        return True

    def on_channel(self, channel: ChannelId) -> list[Pending]:
        """The records in flight to a channel, in order."""
        return [record for record in self._records.values() if record.channel == channel]

    def _fits(self, held: int) -> bool:
        return self._bytes == 0 or self._bytes + held <= self._max_bytes

    def _wake(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            held, waiter = self._waiting.popleft()
            if not waiter.done():
                self._bytes += held
                waiter.set_result(None)

    def _forget(self, entry: tuple[int, asyncio.Future[None]]) -> None:
        if entry in self._waiting:
            self._waiting.remove(entry)
        elif not entry[1].cancelled() and entry[1].exception() is None:  # it was woken before it was cancelled
            self._bytes -= entry[0]
        self._wake()
