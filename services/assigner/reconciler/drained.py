"""A group's progress in drained channels, from their clusters: when it has finished, and what it left unread."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from braid.kernel.envelope import decode
from braid.kernel.errors import BraidError, CorruptHistory, NotLeader
from braid.kernel.limits.assigner.leases import READING_IDLE_LOOK_SECONDS, READING_LOOK_SECONDS, UNREAD_RANGES_MAX
from braid.kernel.offset_ranges import OffsetRange, OffsetRanges
from braid.kernel.ports import Kafka, KafkaAdmin, KafkaOffsets, OffsetAt, Task, TopicPartition
from braid.kernel.progress.ranges import Ranges
from braid.runtime.replica import Replica
from services.assigner.model import group_channels
from services.assigner.model.channels import ChannelCommand, FinishReading
from services.assigner.model.group import Channel, Group
from services.assigner.model.registry_view import ClusterPlace
from services.assigner.peers import RegistryFollower


class DrainedReads:
    """Checks one group's progress in its drained channels until it has done everything in them."""

    def __init__(
        self,
        replica: Replica,
        kafka: Kafka,
        registry: RegistryFollower,
        name: str,
        *,
        state: Callable[[], Group],
        execute: Callable[[ChannelCommand, str], Awaitable[bool]],
    ) -> None:
        self._replica = replica
        self._kafka = kafka
        self._registry = registry
        self._name = name
        self._state = state
        self._execute = execute
        self._task: Task | None = None
        self._again = asyncio.Event()

    def look(self) -> None:
        """Starts checking after a decision if a drained channel is read; at once if one is new."""
        if not _due(self._state()):
            return
        self._again.set()
        if self._task is None:
            self._task = self._replica.host.tasks.spawn(self._run(), f"drained channels of {self._name}")

    @property
    def active(self) -> bool:
        """Whether drained channels are read."""
        return self._task is not None

    def stop(self) -> None:
        """Stops checking."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        known: frozenset[str] = frozenset()
        try:
            while due := _due(self._state()):
                self._again.clear()
                for cluster in sorted({channel.cluster for channel in due.values()}):
                    await self._look_at(cluster, {name: each for name, each in due.items() if each.cluster == cluster})
                known = frozenset(due)
                await self._wait(known)
        except (NotLeader, CorruptHistory):
            return  # the next leader looks itself
        finally:
            self._task = None

    async def _wait(self, known: frozenset[str]) -> None:
        """Waits until the next check: soon while members read, or once another channel is read."""
        clock = self._replica.host.clock
        until = clock.elapsed() + READING_IDLE_LOOK_SECONDS
        while clock.elapsed() < until:
            await clock.sleep(READING_LOOK_SECONDS)
            state = self._state()
            if state.members or frozenset(_due(state)) != known:
                return

    async def _look_at(self, cluster: str, channels: Mapping[str, Channel]) -> None:
        view = self._registry.view
        place = view.clusters.get(cluster) if view else None
        if place is None:
            return
        connected = self._kafka.cluster(place.bootstrap, place.security_profile)
        admin, offsets = connected.admin(), connected.offsets()
        try:
            for name, channel in sorted(channels.items()):
                resets = self._state().resets
                if await _is_done(admin, offsets, self._name, channel):
                    finished = FinishReading(name, resets)
                    await self._execute(finished, f"everything in {name} is done, {cluster} tells")
        except (NotLeader, CorruptHistory):
            raise
        except BraidError as error:
            self._replica.log.info("a drained channel does not answer", group=self._name, error=str(error))
        finally:
            await admin.close()
            await offsets.close()


async def unread_ranges(kafka: Kafka, place: ClusterPlace, group: str, channel: Channel) -> OffsetRanges:
    """Returns ranges of a channel that the group has not done. Raises `BraidError` if the cluster does not answer."""
    connected = kafka.cluster(place.bootstrap, place.security_profile)
    admin, offsets = connected.admin(), connected.offsets()
    try:
        partitions = _partitions(channel)
        starts = await admin.offsets_at(dict.fromkeys(partitions, OffsetAt.EARLIEST))
        ends = await admin.offsets_at(dict.fromkeys(partitions, OffsetAt.LATEST))
        found = await offsets.committed(group, partitions)
    finally:
        await admin.close()
        await offsets.close()
    left: list[OffsetRange] = []
    for each in partitions:
        claims = decode(found[each].offset, found[each].metadata, ends[each]).fields.claims
        undone = Ranges([(starts[each], max(starts[each], ends[each]))]) - claims
        left += [OffsetRange(each.partition, start, end - 1) for start, end in undone]
    return _bounded(left)


def _bounded(ranges: Sequence[OffsetRange]) -> OffsetRanges:
    """Returns at most as many ranges as an event holds; a partition's last range then reaches to the log's end."""
    if len(ranges) <= UNREAD_RANGES_MAX:
        return tuple(ranges)
    widest: dict[int, OffsetRange] = {}
    for each in ranges:
        known = widest.get(each.partition, each)
        widest[each.partition] = OffsetRange(each.partition, known.first, each.last)
    return tuple(widest.values())


def _due(state: Group) -> Mapping[str, Channel]:
    """Returns channels whose turn it is to be read, and in which the group's start is committed."""
    return {name: each for name, each in group_channels.wanted(state).items() if each.reading and not each.ending}


def _partitions(channel: Channel) -> Sequence[TopicPartition]:
    return [TopicPartition(channel.topic, number) for number in range(channel.partitions)]


async def _is_done(admin: KafkaAdmin, offsets: KafkaOffsets, group: str, channel: Channel) -> bool:
    """Whether the group's progress reaches the end of every log. It is sealed: nothing comes after that.

    Without progress a partition is done only when it holds nothing, as in a drain.
    """
    partitions = _partitions(channel)
    found = await offsets.committed(group, partitions)
    starts = await admin.offsets_at(dict.fromkeys(partitions, OffsetAt.EARLIEST))
    ends = await admin.offsets_at(dict.fromkeys(partitions, OffsetAt.LATEST))
    bases = {each: found[each].offset if found[each].offset >= 0 else starts[each] for each in partitions}
    return all(bases[each] >= ends[each] for each in partitions)
