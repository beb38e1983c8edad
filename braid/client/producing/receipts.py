"""A producer's receipts of one channel: how far they go, and where the log may have been cut (`kernel/resumptions`).

Pure.
"""

from collections.abc import Callable, Mapping

from braid.client.producing.routes import ActiveChannel
from braid.kernel.ids import ChannelId
from braid.kernel.limits.client import RECEIPTS_CHANNELS_MAX
from braid.kernel.limits.registry.health import STRETCHES_MAX
from braid.kernel.ports import Written
from braid.kernel.resumptions import SEQUENCES, Resumption, Stretch


class _Run:
    """Acknowledgements of one partition that came over one connection, at rising offsets."""

    __slots__ = ("connection", "first", "next", "next_sequence", "producer", "sender", "starts")

    def __init__(self, sender: int, written: Written) -> None:
        self.sender = sender
        self.connection = written.connection
        self.producer = written.producer
        self.first = -1 if written.again else written.offset
        self.next = written.offset + 1
        self.next_sequence = (written.sequence + 1) % SEQUENCES
        self.starts = [Stretch(written.offset, -1, written.sequence)]  # the newest one has no end yet

    def follows(self, sender: int, written: Written) -> bool:
        """Whether an acknowledgement came over this run's connection."""
        return written.connection == self.connection and sender == self.sender

    def precedes(self, written: Written) -> bool:
        """Whether a record was sent after all of these, as far as sequences or another Kafka client show."""
        if self.producer < 0 or written.producer != self.producer:
            return self.producer < 0 or not written.again
        return (written.sequence - self.next_sequence) % SEQUENCES < SEQUENCES // 2

    def take(self, written: Written) -> None:
        """Adds an acknowledgement at a higher offset."""
        if written.offset != self.next or written.sequence != self.next_sequence:
            self._begin(written)
        self.next = written.offset + 1
        self.next_sequence = (written.sequence + 1) % SEQUENCES
        if self.first < 0 and not written.again:
            self.first = written.offset

    def ended(self, partition: int, resumed: int) -> Resumption:
        """Returns the report about this run, once the log continued."""
        first = self.first if self.first >= 0 else self.next - 1
        stretches = (*self.starts[:-1], self.starts[-1]._replace(next=self.next)) if self.producer >= 0 else ()
        return Resumption(partition, first, self.next, resumed, self.producer, stretches)

    def _begin(self, written: Written) -> None:
        """Begins another stretch.

        If there are too many, every second one of the older half is forgotten, never the first.
        """
        self.starts[-1] = self.starts[-1]._replace(next=self.next)
        self.starts.append(Stretch(written.offset, -1, written.sequence))
        if len(self.starts) > STRETCHES_MAX:
            half = STRETCHES_MAX // 2
            self.starts = self.starts[:half:2] + self.starts[half:]


class Receipts:
    """The receipts of one channel, over all clients that a producer opened for it."""

    def __init__(self, resumed: Callable[[Resumption], None] | None = None) -> None:
        """`resumed` is called with each partition whose log may have been cut before it continued."""
        self._resumed = resumed
        self._senders = 0
        self._runs: dict[int, _Run] = {}
        self._next: dict[int, int] = {}

    @property
    def next_offsets(self) -> Mapping[int, int]:
        """By partition, the offset after the highest one acknowledged."""
        return self._next

    def new_sender(self) -> int:
        """Returns a number for a new client, which shares no connection with earlier ones."""
        self._senders += 1
        return self._senders

    def take(self, sender: int, written: Written) -> None:
        """Notes an acknowledged record.

        A broker that forgot the offset of a repeated record says -1, which tells nothing.
        """
        partition, offset = written.partition, written.offset
        if offset < 0:
            return
        if offset >= self._next.get(partition, 0):
            self._next[partition] = offset + 1
        run = self._runs.get(partition)
        if run is None:
            self._runs[partition] = _Run(sender, written)
        elif run.follows(sender, written):
            if offset >= run.next:
                run.take(written)
            elif written.producer >= 0 and not written.again and run.precedes(written):  # the log begins again lower
                self._end(run, sender, written)
        elif (sender, written.connection) > (run.sender, run.connection):  # else one told late
            self._end(run, sender, written)

    def _end(self, run: _Run, sender: int, written: Written) -> None:
        self._runs[written.partition] = _Run(sender, written)
        if self._resumed is not None:
            resumed = written.offset if run.precedes(written) else max(written.offset, run.next)
            self._resumed(run.ended(written.partition, resumed))


class ReceiptsByLog:
    """Receipts of the logs in use, and of the logs that were left last.

    A store that is restored from a backup leads producers back to a channel they had left; what its cluster lost
    meanwhile is known by the receipts from before.
    """

    def __init__(self, resumed: Callable[[ActiveChannel, Resumption], None]) -> None:
        """`resumed` is called with each log that may have been cut before it continued."""
        self._resumed = resumed
        self._used: dict[_Log, Receipts] = {}
        self._left: dict[_Log, Receipts] = {}

    def use(self, channel: ActiveChannel) -> Receipts:
        """Returns the receipts of a channel's log; if the producer had left it, the earlier ones."""
        log = (channel.id, channel.place)
        receipts = self._used.get(log) or self._left.pop(log, None)
        if receipts is None:
            receipts = Receipts(lambda resumption: self._resumed(channel, resumption))
        self._used[log] = receipts
        return receipts

    def leave(self, channel: ActiveChannel) -> None:
        """Keeps the receipts of a channel that is left; beyond `RECEIPTS_CHANNELS_MAX` the oldest are forgotten."""
        log = (channel.id, channel.place)
        self._left[log] = self._used.pop(log)
        while len(self._left) > RECEIPTS_CHANNELS_MAX:
            del self._left[next(iter(self._left))]


_Log = tuple[ChannelId, tuple[str, str]]  # another channel may have the same id after a restore
