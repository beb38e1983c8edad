"""Start positions: a group's start in a channel is committed to its cluster once, before the first lease is granted.

A reset of its progress is committed in the same way, before the next grant. The loop that tries until the cluster
answers is the group's (`group_loop`).
"""

from collections.abc import Callable, Mapping, Sequence

from braid.kernel.envelope import encode
from braid.kernel.ports import Committed, Generation, Kafka, KafkaAdmin, OffsetAt, TopicPartition
from braid.kernel.progress.fields import EnvelopeFields
from services.assigner.model.group import Channel, StartKind, StartPosition
from services.assigner.model.progress_resets import UNTOUCHED
from services.assigner.model.registry_view import ClusterPlace

_NONE = -1  # KafkaOffsets: nothing is committed


async def write_start(
    kafka: Kafka,
    place: ClusterPlace,
    group: str,
    channel: Channel,
    start: StartPosition,
    require_authority: Callable[[], object],
    generation: Generation | None = None,
) -> tuple[int, ...]:
    """Commits the start where the group has no progress yet, and returns the committed offsets per partition.

    Progress is read last, and authority is checked directly before the write, so a leader that was stopped in between
    writes nothing over what a later one and its members committed. A window as long as one commit request remains
    without a generation; with one the broker itself refuses the write.

    Args:
        require_authority: Raises unless this replica leads at this instant.
        generation: The group's on this cluster, once it is joined there; before that the commit is plain.

    Raises:
        NotLeader: authority ended before anything was written.
        Fenced: the group was joined meanwhile, or bumped; nothing was written, the next attempt knows of it.
        BraidError: the cluster or topic does not answer; what was committed so far stays and is found again.
    """
    cluster = kafka.cluster(place.bootstrap, place.security_profile)
    admin, offsets = cluster.admin(), cluster.offsets()
    try:
        partitions = [TopicPartition(channel.topic, number) for number in range(channel.partitions)]
        begin = await _begin(admin, partitions, start)
        found = await offsets.committed(group, partitions)
        missing = {where: _envelope(begin[where]) for where in partitions if found[where].offset == _NONE}
        if missing:
            require_authority()
            await offsets.commit(group, missing, generation)
        return tuple(begin[where] if where in missing else found[where].offset for where in partitions)
    finally:
        await admin.close()
        await offsets.close()


async def write_reset(
    kafka: Kafka,
    place: ClusterPlace,
    group: str,
    topic: str,
    wanted: Sequence[int],
    epoch: int,
    require_authority: Callable[[], object],
    generation: Generation | None,
) -> None:
    """Commits offsets in the place of whatever is committed; -1 leaves a partition as it is. May be repeated.

    Args:
        epoch: The newest that was granted, so that what an earlier holder commits afterwards shows as stale.
        require_authority: Raises unless this replica leads at this instant.

    Raises:
        NotLeader: authority ended before anything was written.
        Fenced: the group was joined meanwhile, or bumped; nothing was written.
        BraidError: the cluster does not answer.
    """
    offsets = kafka.cluster(place.bootstrap, place.security_profile).offsets()
    try:
        commits = {
            TopicPartition(topic, number): _envelope(offset, epoch)
            for number, offset in enumerate(wanted)
            if offset != UNTOUCHED
        }
        require_authority()
        await offsets.commit(group, commits, generation)
    finally:
        await offsets.close()


async def _begin(
    admin: KafkaAdmin, partitions: Sequence[TopicPartition], start: StartPosition
) -> Mapping[TopicPartition, int]:
    match start.kind:
        case StartKind.EARLIEST:
            at: OffsetAt | int = OffsetAt.EARLIEST
        case StartKind.LATEST:
            at = OffsetAt.LATEST
        case StartKind.TIME:
            at = start.time_ms
    return await admin.offsets_at(dict.fromkeys(partitions, at))


def _envelope(offset: int, epoch: int = 0) -> Committed:
    """Returns an envelope in which everything below the offset is done, and nothing beyond it."""
    encoded = encode(EnvelopeFields(base=offset, epoch=epoch))
    return Committed(encoded.offset, encoded.metadata)
