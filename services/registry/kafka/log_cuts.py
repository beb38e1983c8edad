"""Detects whether a log was truncated while it carried traffic and was written again, from the log itself.

A producer reports which offsets were acknowledged for which of its records. Kafka stores the producer's id and sequence
with each batch (KIP-98), so the log shows whether those very records are there, whatever leaders it had since. If they
are not, the log was truncated before the leader epoch began that is there now (KIP-101): that whole epoch replaces what
was lost. Leader epochs alone prove nothing: they also grow when nothing is lost. An error means "not yet".
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from braid.kernel.errors import OffsetOutOfRange
from braid.kernel.limits.registry.health import EPOCH_LOOKS_MAX
from braid.kernel.limits.registry.resources import LOSS_TOLD_MAX
from braid.kernel.offset_ranges import OffsetRange, OffsetRanges, united
from braid.kernel.ports import BatchHead, KafkaAdmin, OffsetAt, TopicPartition
from braid.kernel.resumptions import Resumption
from services.registry.kafka.untold_log_cuts import UntoldRecords
from services.registry.model.channels import Channel, ChannelState
from services.registry.model.own_records import OwnRecords

HeadAt = Callable[[int], Awaitable[BatchHead | None]]


class Span(NamedTuple):
    """Offsets of a log: from `first` up to, not including, `stop`."""

    first: int
    stop: int


class Finding(NamedTuple):
    """The result of one look at the logs.

    Attributes:
        lost: Offsets that were truncated and assigned again.
        open: What cannot be decided yet: the log is shorter than it was, and may be late, or grow.
        evidence: What showed the loss, for people.
    """

    lost: OffsetRanges
    open: tuple[Resumption, ...]
    evidence: str


async def look(admin: KafkaAdmin, channel: Channel, resumptions: Iterable[Resumption]) -> Finding:
    """Checks the logs of a channel at each offset where a producer continued over a new connection.

    Raises:
        ClusterUnavailable: the cluster does not answer.
        NotFound: the topic is deleted.
    """
    lost: list[OffsetRange] = []
    undecided: list[Resumption] = []
    evidence: list[str] = []
    by_partition: dict[int, list[Resumption]] = {}
    for each in resumptions:
        by_partition.setdefault(each.partition, []).append(each)
    for number in sorted(by_partition):
        log = await _opened(admin, TopicPartition(channel.topic, number))
        for each in sorted(by_partition[number], key=lambda one: (-one.next, one)):
            try:
                spans = await log.lost(each, final=channel.state is not ChannelState.ACTIVE)
            except OffsetOutOfRange:  # retention, or compaction, or another cut at this moment
                undecided.append(each)
                continue
            if log.is_shorter(each):
                undecided.append(each)
            for span in spans:
                lost.append(OffsetRange(number, span.first, span.stop - 1))
                evidence.append(_evidence(channel, each, span))
    return Finding(united(lost), tuple(undecided), "; ".join(evidence[:LOSS_TOLD_MAX]))


def _evidence(channel: Channel, told: Resumption, span: Span) -> str:
    return (
        f"a producer had offsets of {channel.topic}/{told.partition} acknowledged up to {told.next}, and got offset"
        f" {told.resumed} later; other records lie from {span.first} on"
    )


async def _opened(admin: KafkaAdmin, partition: TopicPartition) -> "Log":
    starts = await admin.offsets_at({partition: OffsetAt.EARLIEST})
    ends = await admin.offsets_at({partition: OffsetAt.LATEST})
    return Log(starts[partition], ends[partition], lambda offset: admin.batch_head(partition, offset))


class Log:
    """A log between two offsets, and the batches of it that were read."""

    def __init__(self, start: int, end: int, head_at: HeadAt) -> None:
        self.start = start
        self.end = end
        self._head_at = head_at
        self._heads: list[BatchHead] = []
        self._spans: dict[int, Span] = {}
        self._reads = 0

    def is_shorter(self, told: Resumption) -> bool:
        """Whether the log ends below acknowledged records that retention cannot have deleted."""
        until = min(told.next, told.resumed) if told.stretches else max(told.next, told.resumed + 1)
        return self.end < until and self.start < told.next

    async def lost(self, told: Resumption, *, final: bool = False) -> list[Span]:
        """The acknowledged records that were truncated, as far as the log goes now; `final` if it will not grow.

        Everything above an offset that the producer was given twice is lost, however short the log is. Records that
        retention deleted meanwhile cannot be checked, and count as not lost.

        Raises:
            OffsetOutOfRange: a part of the log cannot be read.
        """
        self._reads = 0
        if not told.stretches:
            return [Span(*each) for each in await UntoldRecords(self, told).lost(final=final)]
        own = OwnRecords(told.producer, told.stretches)
        first, stop = own.index(self.start), own.index(self.end)
        again = await self._given_out_again(told)
        if first == stop or await self._in_one_piece(own, first, stop):
            return again
        return _joined([*await self._search(own, first, stop), *again])

    async def head(self, offset: int) -> BatchHead:
        """The header of the batch at an offset. Raises `OffsetOutOfRange` if there is none, or after too many reads."""
        for known in self._heads:
            if known.base <= offset <= known.last:
                return known
        self._reads += 1
        if self._reads > EPOCH_LOOKS_MAX:
            raise OffsetOutOfRange("the log has had too many leaders to be looked at at once")
        head = await self._head_at(offset)
        if head is None:
            raise OffsetOutOfRange(f"no batch lies at offset {offset}")
        self._heads.append(head)
        return head

    async def span(self, head: BatchHead) -> Span:
        """All offsets of the leader epoch that wrote a batch."""
        if head.leader_epoch not in self._spans:
            first = await self._first_of(head)
            self._spans[head.leader_epoch] = Span(first, await self._stop_of(head))
        return self._spans[head.leader_epoch]

    async def _first_of(self, head: BatchHead) -> int:
        low, high = self.start, max(self.start, head.base)
        while low < high:
            middle = await self.head((low + high) // 2)
            if middle.leader_epoch >= head.leader_epoch:
                high = max(self.start, middle.base)
            else:
                low = middle.last + 1
        return low

    async def _stop_of(self, head: BatchHead) -> int:
        low, high = head.last + 1, self.end
        while low < high:
            middle = await self.head((low + high) // 2)
            if middle.leader_epoch <= head.leader_epoch:
                low = middle.last + 1
            else:
                high = middle.base
        return low

    async def _given_out_again(self, told: Resumption) -> list[Span]:
        """Records lost because the producer was given an offset twice: all from where the present leader began."""
        at = max(told.resumed, self.start)
        if at >= told.next:
            return []
        first = (await self.span(await self.head(at))).first if at < self.end else at
        return [Span(first, told.next)]

    async def _in_one_piece(self, own: OwnRecords, first: int, stop: int) -> bool:
        """Whether a producer's first and last record are there, and one leader epoch holds both."""
        last = await self.head(own.offset(stop - 1))
        if not own.wrote(last, stop - 1):
            return False
        opening = await self.head(own.offset(first))
        return own.wrote(opening, first) and opening.leader_epoch == last.leader_epoch

    async def _search(self, own: OwnRecords, first: int, stop: int) -> list[Span]:
        """A producer's lost records between two positions, epoch after epoch of the log.

        If the log holds one leader's records at the offsets of a producer's, the producer's acknowledged records from
        before that leader are lost. All of that leader's offsets below them were assigned twice.
        """
        found: list[Span] = []
        while first < stop:
            span = await self.span(await self.head(own.offset(first)))
            until = min(stop, own.index(span.stop))
            there = await self._first_there(own, first, until)
            if there > first:
                joins = found and found[-1].stop == span.first
                begins = found.pop().first if joins else span.first
                found.append(Span(begins, own.offset(there - 1) + 1))
            first = until
        return found

    async def _first_there(self, own: OwnRecords, first: int, stop: int) -> int:
        """The first position of one epoch whose record is there; `stop` if none is."""
        if await self._lies(own, first):
            return first
        if not await self._lies(own, stop - 1):
            return stop
        low, high = first + 1, stop - 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if await self._lies(own, middle) else (middle + 1, high)
        return low

    async def _lies(self, own: OwnRecords, position: int) -> bool:
        return own.wrote(await self.head(own.offset(position)), position)


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Merges spans into as few as possible."""
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.first <= found[-1].stop:
            found[-1] = Span(found[-1].first, max(found[-1].stop, span.stop))
        else:
            found.append(span)
    return found
