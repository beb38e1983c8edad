"""Whether a log lost its end while it carried traffic and was written on since: a look at the cluster itself.

Every batch bears the epoch of the leader that took it, and a new leader's epoch begins where its log ended then
(KIP-101, KIP-320). What producers had acknowledgements for beyond the end of an epoch, over connections of that epoch,
was cut off, although other records may lie at its offsets by now. An error means "not yet".
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from braid.kernel.errors import OffsetOutOfRange
from braid.kernel.limits import LOSS_TOLD_MAX
from braid.kernel.limits_losses import EPOCH_LOOKS_MAX
from braid.kernel.offset_ranges import OffsetRange, Ranges, united
from braid.kernel.ports import KafkaAdmin, OffsetAt, TopicPartition
from services.registry.channels import Channel, Resumption

EpochAt = Callable[[int], Awaitable[int]]


class Span(NamedTuple):
    """Offsets of a log that one leader epoch gave: from `first` up to `stop`, which is not part of it."""

    first: int
    stop: int


class Finding(NamedTuple):
    """What a look found.

    Attributes:
        lost: Offsets that were cut off, and given out again.
        open: What cannot be said yet: the log is shorter than what it had, and may be late, or grow.
        evidence: What showed the loss, for people.
    """

    lost: Ranges
    open: tuple[Resumption, ...]
    evidence: str


async def look(admin: KafkaAdmin, channel: Channel, resumptions: Iterable[Resumption]) -> Finding:
    """Looks at the logs that went on after connections had ended.

    Raises:
        ClusterUnavailable: the cluster does not answer.
        NotFound: the topic is gone.
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
                cut = await log.cut(each)
            except OffsetOutOfRange:  # retention, or compaction, or another cut at this moment
                cut = None
            if cut is None:
                undecided.append(each)
            elif cut < each.next:
                lost.append(OffsetRange(number, cut, each.next - 1))
                evidence.append(
                    f"a producer saw {channel.topic}/{number} up to {each.next}, and got offset {each.resumed} over"
                    f" another connection; the log had ended at {cut} in between"
                )
    return Finding(united(lost), tuple(undecided), "; ".join(evidence[:LOSS_TOLD_MAX]))


async def _opened(admin: KafkaAdmin, partition: TopicPartition) -> "_Log":
    starts = await admin.offsets_at({partition: OffsetAt.EARLIEST})
    ends = await admin.offsets_at({partition: OffsetAt.LATEST})

    async def epoch_at(offset: int) -> int:
        found = await admin.fingerprint(partition, offset + 1)
        if found is None:
            raise OffsetOutOfRange(f"nothing lies at offset {offset} of {partition.topic}/{partition.partition}")
        return found.leader_epoch

    return _Log(starts[partition], ends[partition], epoch_at)


class _Log:
    """A log between two offsets, and the spans of its epochs as far as they are known."""

    def __init__(self, start: int, end: int, epoch_at: EpochAt) -> None:
        self._start = start
        self._end = end
        self._epoch_at = epoch_at
        self._spans: list[Span] = []
        self._looks = 0

    async def cut(self, told: Resumption) -> int | None:
        """Where the log ended when it got the leader that came after what is told; None while nobody can say.

        What retention deleted meanwhile cannot be looked at, and was not lost.
        """
        first = max(told.first, self._start)
        if first >= told.next:
            return told.next
        if first >= self._end:
            return None
        before = await self._span(first)
        if told.resumed < self._end and before.first <= told.resumed < before.stop:
            # The same epoch: the leader stayed, or nothing of the older one is left from where the other begins.
            return before.first if told.resumed < told.next else told.next
        if before.stop >= min(told.next, self._end):
            return told.next if before.stop >= told.next else None
        return before.stop

    async def _span(self, offset: int) -> Span:
        for known in self._spans:
            if known.first <= offset < known.stop:
                return known
        epoch = await self._at(offset)
        low, high = self._start, offset  # the first offset of the epoch is not below `low`, nor above `high`
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if await self._at(middle) >= epoch else (middle + 1, high)
        first = low
        low, high = offset + 1, self._end  # its stop is not below `low`, nor above `high`
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if await self._at(middle) <= epoch else (low, middle)
        self._spans.append(Span(first, low))
        return self._spans[-1]

    async def _at(self, offset: int) -> int:
        self._looks += 1
        if self._looks > EPOCH_LOOKS_MAX:
            raise OffsetOutOfRange("the log has had too many leaders to be looked at at once")
        return await self._epoch_at(offset)
