"""Where work on a lease begins: committed progress, checked against the log it speaks of, never trusted beyond it."""

import logging
from typing import NamedTuple

from braid.kernel.envelope import Decoded, Kind, decode
from braid.kernel.errors import NotFound
from braid.kernel.ports import Committed, Fingerprint, KafkaAdmin, KafkaOffsets, OffsetAt, TopicPartition
from braid.kernel.progress import Progress

_log = logging.getLogger("braid.consumer")


async def restore(
    group: str, partition: TopicPartition, offsets: KafkaOffsets, admin: KafkaAdmin
) -> tuple[Progress, bytes]:
    """Reads a group's progress in a partition.

    No commit: the log's start. Offsets below the log's start: stated as expired. The topic the commit speaks of, but
    with an end below what it claims: the claims below that end. A log that is not the one the commit speaks of
    (another topic id, another batch below the base): the log's start. Both with a warning that names the range no
    longer provable.

    Returns:
        The tracker to go on with, and the topic's id.

    Raises:
        ClusterUnavailable: the cluster does not answer.
        NotFound: the topic is gone.
    """
    described = (await admin.describe_topics([partition.topic])).get(partition.topic)
    if described is None:
        raise NotFound(f"topic {partition.topic} does not exist")
    seen = await _look(group, partition, offsets, admin)
    if seen.decoded.beyond_log_end:  # a new leader of the partition may know its end late
        seen = await _look(group, partition, offsets, admin)
    if seen.committed.offset < 0:
        return Progress(seen.start), described.topic_id
    if seen.decoded.kind not in (Kind.ENVELOPE, Kind.NONE):
        _log.warning("%s %s: commit metadata not used: %s", group, partition, seen.decoded.reason)
    if not await _same_log(seen.decoded, described.topic_id, partition, admin):
        _log.warning("%s %s: the log is not the one committed; offsets below %d are unproven, beginning at %d",
                     group, partition, seen.committed.offset, seen.start)  # fmt: skip
        return Progress(seen.start), described.topic_id
    fields = seen.decoded.fields
    if seen.decoded.beyond_log_end:
        _log.warning("%s %s: the log lost its end; of what was done, offsets from %d on are gone (committed: %d)",
                     group, partition, seen.end, seen.committed.offset)  # fmt: skip
    progress = Progress.restore(fields)
    if seen.start > fields.base:
        lost = progress.expire(fields.base, seen.start)
        _log.warning("%s %s: %s left the log before they were done", group, partition, lost)
    return progress, described.topic_id


class _Seen(NamedTuple):
    """A commit, and the log's bounds when it was there already."""

    committed: Committed
    decoded: Decoded
    start: int
    end: int


async def _look(group: str, partition: TopicPartition, offsets: KafkaOffsets, admin: KafkaAdmin) -> _Seen:
    """Reads the commit first: a member that lost its lease may commit meanwhile, and the log holds what it claims."""
    committed = (await offsets.committed(group, [partition]))[partition]
    start = (await admin.offsets_at({partition: OffsetAt.EARLIEST}))[partition]
    end = (await admin.offsets_at({partition: OffsetAt.LATEST}))[partition]
    return _Seen(committed, decode(committed.offset, committed.metadata, end), start, end)


async def _same_log(decoded: Decoded, topic_id: bytes, partition: TopicPartition, admin: KafkaAdmin) -> bool:
    """Whether the commit speaks of this log. One that says nothing of it is believed unless the log contradicts."""
    stated = decoded.fields.fingerprint
    if stated is None:
        return not decoded.beyond_log_end
    if stated.topic_id != topic_id:
        return False
    if stated.leader_epoch < 0 or decoded.beyond_log_end:  # the batch that would prove it is gone with the end
        return True
    found: Fingerprint | None = await admin.fingerprint(partition, decoded.fields.base)
    return found is None or found == stated
