"""Reads where work on a lease begins: committed progress, checked against its log and never trusted beyond it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import NamedTuple

from braid.kernel.envelope import Decoded, MetadataKind, decode
from braid.kernel.envelope.epochs import newest_epoch
from braid.kernel.envelope.fit import cut
from braid.kernel.errors import NotFound
from braid.kernel.ports import Committed, Fingerprint, KafkaAdmin, KafkaOffsets, KnownLog, OffsetAt, TopicPartition
from braid.kernel.progress.cursors import CursorPart, backlog_permille, divided, tracker
from braid.kernel.progress.fields import EnvelopeFields
from braid.kernel.progress.ranges import EMPTY
from braid.kernel.progress.tracker import Progress

_log = logging.getLogger("braid.consumer")


Spilled = Callable[[EnvelopeFields], Awaitable[EnvelopeFields | None]]


class Behind(NamedTuple):
    """A backlog cursor: its tracker, and the end of its range."""

    progress: Progress
    until: int


class RestoreFinding(NamedTuple):
    """A range of committed progress that the log does not support, or that is gone.

    Attributes:
        kind: See `ProgressDoubted` in the assigner's events.
        start: First offset it is about.
        end: First offset beyond.
        reason: For people.
    """

    kind: str
    start: int
    end: int
    reason: str


class Restored(NamedTuple):
    """The progress with which work on a lease begins.

    Attributes:
        progress: The tracker that follows the log's end.
        topic_id: The topic's.
        behind: Backlog cursors below it, by increasing offset; none where the partition is not split.
        backlog_permille: The share of the work that those may take, in thousandths.
        findings: What was not as committed.
        leader_epoch: The newest leader epoch among what is done; -1: unknown.
    """

    progress: Progress
    topic_id: bytes
    behind: Sequence[Behind] = ()
    backlog_permille: int = 0
    findings: Sequence[RestoreFinding] = ()
    leader_epoch: int = -1

    @property
    def end(self) -> int:
        """The offset from which nothing is done."""
        trackers = (self.progress, *(each.progress for each in self.behind))
        return max(each.done_ranges.end or each.base for each in trackers)

    @property
    def log(self) -> KnownLog:
        """The newest leader epoch and the end of what is done in the log."""
        return KnownLog(self.leader_epoch, self.end)


async def restore(
    group: str,
    partition: TopicPartition,
    offsets: KafkaOffsets,
    admin: KafkaAdmin,
    *,
    spilled: Spilled | None = None,
    divide: bool = True,
) -> Restored:
    """Reads a group's progress in a partition, with its cursors; as a single one unless `divide`.

    What did not fit the commit is read by `spilled`, given what the commit says; where that finds nothing, or is not
    there, the commit's own claims are all.

    - No commit: the topic is younger than the group's registration, which fixed where all others start; so all of it
      is to be done.
    - Offsets below the log's start: stated as expired.
    - The topic the commit speaks of, but with an end below what is claimed: the claims below that end.
    - The same where the log was cut short and written on since: its later leaders than the newest that the commit
      knows of began to write at the cut (KIP-101), and nothing is claimed beyond it.
    - A log that is not the one the commit speaks of (another topic id, another batch below the base): the log's start.

    All with a warning that names the range no longer provable.

    Raises:
        ClusterUnavailable: the cluster does not answer.
        NotFound: the topic is gone.
    """
    topic, seen = await _look(group, partition, offsets, admin)
    if seen.committed.offset < 0:
        restored = _without_commit(seen, topic)
    elif not _same_log(seen, topic.id):
        restored = Restored(Progress(seen.start), topic.id, findings=list(_doubts(seen, topic.id)))
    else:
        fields, missed = await _whole(seen, spilled)
        restored = _from_commit(seen, topic, fields, [*_doubts(seen, topic.id), *missed], divide=divide)
    _tell(group, partition, restored.findings)
    return restored


# --- what is asked of the cluster


class _Topic(NamedTuple):
    """The topic's id, and the epoch of the partition's present leader; -1: not told."""

    id: bytes
    leader_epoch: int


class ClaimedProgress(NamedTuple):
    """A commit, and the log's identity below what it claims."""

    committed: Committed
    below: Fingerprint | None


class LogBounds(NamedTuple):
    """The log's start and end, and the offset above which a commit proves nothing: the end, or a cut."""

    start: int
    log_end: int
    end: int


class SeenProgress(NamedTuple):
    """A commit as far as the log supports it, the log's bounds, and the log's identity below what the commit claims."""

    committed: Committed
    decoded: Decoded
    start: int
    log_end: int
    end: int
    below: Fingerprint | None


async def _look(
    group: str, partition: TopicPartition, offsets: KafkaOffsets, admin: KafkaAdmin
) -> tuple[_Topic, SeenProgress]:
    """Reads the topic, and the group's commit as far as its log supports it.

    A hand-over waits for this, so all requests are sent at once. A commit beyond an end that was read before it is
    checked again: a member that lost its lease may commit meanwhile, and a new leader of the partition may know its end
    late.
    """
    topics, claimed, bounds = await asyncio.gather(
        admin.describe_topics([partition.topic]),
        _claimed(group, partition, offsets, admin),
        _bounds(partition, admin),
    )
    described = topics.get(partition.topic)
    if described is None:
        raise NotFound(f"topic {partition.topic} does not exist")
    present = next(iter(described.leader_epochs[partition.partition : partition.partition + 1]), -1)
    seen = _seen(claimed, await _provable(claimed, bounds, partition, admin, present))
    if seen.decoded.beyond_log_end:
        claimed = await _claimed(group, partition, offsets, admin)
        seen = _seen(claimed, await _provable(claimed, await _bounds(partition, admin), partition, admin, None))
    return _Topic(described.topic_id, present), seen


async def _claimed(group: str, partition: TopicPartition, offsets: KafkaOffsets, admin: KafkaAdmin) -> ClaimedProgress:
    committed = (await offsets.committed(group, [partition]))[partition]
    claims = decode(committed.offset, committed.metadata).fields
    return ClaimedProgress(committed, await _below(claims, partition, admin))


async def _bounds(partition: TopicPartition, admin: KafkaAdmin) -> tuple[int, int]:
    """Reads the log's start and its end."""
    starts, ends = await asyncio.gather(
        admin.offsets_at({partition: OffsetAt.EARLIEST}), admin.offsets_at({partition: OffsetAt.LATEST})
    )
    return starts[partition], ends[partition]


async def _provable(
    claimed: ClaimedProgress, bounds: tuple[int, int], partition: TopicPartition, admin: KafkaAdmin, present: int | None
) -> LogBounds:
    """Returns the log's bounds, and where leaders later than those a commit knows of began to write.

    If the commit knows of the `present` leader's epoch (None: not looked up), there were no later leaders.
    """
    (start, end), known = bounds, newest_epoch(claimed.committed)
    if claimed.committed.offset < 0 or known < 0 or (present is not None and present <= known):
        return LogBounds(start, end, end)
    later = (await admin.epoch_ends({partition: known}))[partition]
    return LogBounds(start, end, end if later < 0 else min(end, later))


async def _below(claims: EnvelopeFields, partition: TopicPartition, admin: KafkaAdmin) -> Fingerprint | None:
    """Reads the batch below a commit's base, if the commit says which batch that should be."""
    stated = claims.fingerprint
    return None if stated is None or not stated.batch_crc else await admin.fingerprint(partition, claims.base)


async def _whole(seen: SeenProgress, spilled: Spilled | None) -> tuple[EnvelopeFields, list[RestoreFinding]]:
    """Returns all that a commit states, in its own fields or the record beside it, and what was wrong with it."""
    fields = seen.decoded.fields
    if fields.spill is None or spilled is None:
        return fields, []
    return _beside(seen, await spilled(fields))


# --- what follows from the answers; pure


def _seen(claimed: ClaimedProgress, bounds: LogBounds) -> SeenProgress:
    decoded = decode(claimed.committed.offset, claimed.committed.metadata, bounds.end)
    return SeenProgress(claimed.committed, decoded, *bounds, claimed.below)


def _same_log(seen: SeenProgress, topic_id: bytes) -> bool:
    """Whether the commit is of this log. A commit that does not name its log counts unless the log contradicts it."""
    stated = seen.decoded.fields.fingerprint
    if stated is None:
        return not seen.decoded.beyond_log_end
    if stated.topic_id != topic_id:
        return False
    if not stated.batch_crc or seen.decoded.beyond_log_end:  # the batch that would prove it is gone with the end
        return True
    return seen.below is None or seen.below == stated


def _without_commit(seen: SeenProgress, topic: _Topic) -> Restored:
    """Returns progress in which all of the log is to be done."""
    progress, gone = Progress(0), list(_unseen(seen))
    progress.expire(0, seen.start)
    return Restored(progress, topic.id, findings=gone)


def _from_commit(
    seen: SeenProgress, topic: _Topic, fields: EnvelopeFields, findings: Sequence[RestoreFinding], *, divide: bool
) -> Restored:
    """Makes trackers of what a commit states, without what left the log, which is added to the findings."""
    parts = divided(fields, seen.log_end) if divide else [CursorPart(0, None, fields)]
    trackers = [tracker(part) for part in parts]
    expired = [_expire(progress, part, seen.start) for part, progress in zip(parts, trackers, strict=True)]
    behind = [Behind(progress, part.until) for part, progress in zip(parts, trackers, strict=True) if part.until]
    # What a commit without a leader epoch claims is believed as it lies there now; a cut from now on is seen.
    known = newest_epoch(seen.committed)
    leader_epoch = topic.leader_epoch if known < 0 else known
    findings = [*findings, *(each for each in expired if each is not None)]
    return Restored(trackers[-1], topic.id, behind, backlog_permille(fields), findings, leader_epoch)


def _expire(progress: Progress, part: CursorPart, log_start: int) -> RestoreFinding | None:
    """Expires what a cursor's range has below the log's start; adds a finding if some of it was not done."""
    end = log_start if part.until is None else min(log_start, part.until)
    lost = progress.expire(part.fields.base, end) if end > part.fields.base else EMPTY
    if lost.start is None or lost.end is None:
        return None
    return RestoreFinding("expired", lost.start, lost.end, f"{lost.count} offsets left the log before they were done")


def _unseen(seen: SeenProgress) -> Iterator[RestoreFinding]:
    """Returns the offsets that left a log of which nothing is committed."""
    if seen.start:
        text = f"{seen.start} offsets left the log, and of none is it known that it was done"
        yield RestoreFinding("expired", 0, seen.start, text)


def _doubts(seen: SeenProgress, topic_id: bytes) -> Iterator[RestoreFinding]:
    """Returns the findings about a commit that its log does not support or that cannot be read."""
    offset, decoded = seen.committed.offset, seen.decoded
    if decoded.kind not in (MetadataKind.ENVELOPE, MetadataKind.NONE):
        text = f"nothing beyond offset {offset} is known to be done: {decoded.reason}"
        yield RestoreFinding(decoded.kind.value, min(offset, seen.end), seen.end, text)
    if not _same_log(seen, topic_id):
        yield RestoreFinding("recreated", seen.start, max(offset, seen.start), "the commit is of another log")
    elif decoded.beyond_log_end:
        yield _truncated(seen.end, decode(offset, seen.committed.metadata).fields)


def _beside(seen: SeenProgress, found: EnvelopeFields | None) -> tuple[EnvelopeFields, list[RestoreFinding]]:
    """Returns what the record beside a commit says, as far as the log supports it; else the commit's own claims."""
    stated = seen.decoded.fields
    if found is None:
        assert stated.spill is not None, "a record was looked for"
        text = f"{stated.spill.done} offsets that were done are done again: their record is not there"
        return stated, [RestoreFinding("record-missing", stated.base, seen.log_end, text)]
    bounded = cut(found, seen.end)
    if bounded.claims != found.claims and not seen.decoded.beyond_log_end:
        return bounded, [_truncated(seen.end, found)]
    return bounded, []


def _truncated(end: int, claimed: EnvelopeFields) -> RestoreFinding:
    text = "the log lost its end, with what was done there"
    return RestoreFinding("truncated", end, claimed.claims.end or claimed.base, text)


def _tell(group: str, partition: TopicPartition, findings: Sequence[RestoreFinding]) -> None:
    for found in findings:
        _log.warning("%s %s: %s, offsets %d to %d: %s", group, partition, *found[:3], found.reason)
