"""Maintains the number of copies of partitions in use, while leading, through Kafka's own reassignment (KIP-455).

Every look starts from what the histories and Kafka say now; nothing else is remembered. The intent is appended before
the first request. A reassignment under way is stored in Kafka's controller. The result is appended once nothing is
under way and no throttle of ours is left. So a leader that takes over midway, or a request that arrives twice, changes
nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from braid.kernel.errors import BraidError, NotFound
from braid.kernel.limits.registry.resources import (
    COPIES_LOOK_SECONDS,
    COPIES_RETRY_SECONDS,
    REASSIGN_BYTES_PER_S,
    REASSIGNED_AT_ONCE,
)
from braid.kernel.ports import KafkaAdmin, Reassignment, Survey, TopicDescription
from braid.runtime.replica import Replica
from services.registry.histories import STREAMS, read_world
from services.registry.kafka import copy_throttles
from services.registry.kafka.clients import Access
from services.registry.liveness.copy_progress import CopiesKey, CopiesProgress
from services.registry.model.channels import IN_USE, Channel
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.stream_commands import IntendReassignment, RecordCopies, StreamCommand
from services.registry.model.streams import Stream
from services.registry.policy.copy_counts import in_sync_change, is_due, throttled, unthrottled, wanted_copies
from services.registry.policy.copy_placement import Brokers, counted, place
from services.registry.policy.world import World
from services.registry.term_tasks import KeyedTasks, Signal


@dataclass(frozen=True, slots=True)
class _Look:
    """A channel, and its cluster's description of its topic."""

    stream: Stream
    channel: Channel
    cluster: Cluster
    admin: KafkaAdmin
    survey: Survey
    topic: TopicDescription
    moving: Mapping[int, Reassignment]

    @property
    def wanted(self) -> int:
        """The number of copies to establish; for a channel no longer in use, the one that was begun."""
        if self.channel.state not in IN_USE:
            return self.channel.copies_intended
        return wanted_copies(self.stream.spec, self.cluster, self.channel)

    @property
    def obstacle(self) -> str:
        """Why not all copies can be made now; '' if they can."""
        serving = len(self.survey.brokers)
        if serving < self.channel.copies_intended:
            return f"{serving} brokers that serve for {self.channel.copies_intended} copies"
        leaderless = [number for number, leader in enumerate(self.topic.leaders) if leader < 0]
        return f"partition {leaderless[0]} has no leader" if leaderless else ""

    def wrong(self, copies: int) -> Sequence[int]:
        """Partitions with another number of copies that are not being reassigned."""
        exactly = bool(self.stream.spec.replication_factor)
        counts = [len(each) for each in self.topic.replicas]
        wrong = [number for number, count in enumerate(counts) if count < copies or (exactly and count > copies)]
        return [number for number in wrong if number not in self.moving]


class CopiesKeeper:
    """Maintains the copies of all channels for one term.

    Attributes:
        progress: Progress of channels whose copies are being added or removed, or wait for that.
    """

    def __init__(self, replica: Replica, access: Access) -> None:
        self.progress: dict[CopiesKey, CopiesProgress] = {}
        self._replica = replica
        self._access = access
        self._running = KeyedTasks(replica.host)
        self._changed = Signal()
        self._not_before: dict[CopiesKey, float] = {}
        self._moving: dict[CopiesKey, int] = {}

    def wake(self) -> None:
        """Requests a look soon, after a change."""
        self._changed.fire()

    async def run(self) -> None:
        """Maintains copies until cancelled."""
        try:
            while True:
                changed = self._changed.next()
                due = self._due(self._world())
                for cluster, keys in due.items():
                    self._running.start(cluster, partial(self._look_at, keys))
                if not due:
                    await changed.wait()
                await self._replica.host.clock.sleep(COPIES_LOOK_SECONDS)  # thousands of changes are one look
        finally:
            await self._running.stop()

    def _world(self) -> World:
        return read_world(self._replica.aggregates, self._replica.host.clock.now_ms())

    def _due(self, world: World) -> Mapping[str, Sequence[CopiesKey]]:
        due: dict[str, list[CopiesKey]] = {}
        for name, stream in world.streams.items():
            for channel in stream.channels:
                if is_due(world, stream, channel):
                    due.setdefault(channel.cluster, []).append(CopiesKey(name, channel.ref))
        known = {key for keys in due.values() for key in keys}
        for kept in (self.progress, self._not_before, self._moving):
            for key in [key for key in kept if key not in known]:
                del kept[key]
        return due

    async def _look_at(self, keys: Sequence[CopiesKey]) -> None:
        """Examines the channels of one cluster in turn."""
        for key in keys:
            if self._replica.host.clock.elapsed() < self._not_before.get(key, 0.0):
                continue
            try:
                await self._step(key)
            except BraidError as error:
                self._waits(key, error.message)

    def _waits(self, key: CopiesKey, reason: str) -> None:
        self._not_before[key] = self._replica.host.clock.elapsed() + COPIES_RETRY_SECONDS
        self._progressed(key, replace(self.progress.get(key, CopiesProgress()), waits_for=reason))

    def _progressed(self, key: CopiesKey, now: CopiesProgress) -> None:
        before = self.progress.get(key, CopiesProgress())
        self.progress[key] = now
        if now.waits_for not in ("", before.waits_for):
            self._replica.log.warning("copies wait", channel=f"{key.stream}/{key.ref}", reason=now.waits_for)

    async def _step(self, key: CopiesKey) -> None:
        """Takes the next step for a channel, if one is still due."""
        world = self._world()
        stream = world.streams[key.stream]
        channel = next((each for each in stream.channels if each.ref == key.ref), None)
        if channel is None or not is_due(world, stream, channel):
            return
        if world.lost(channel):
            await self._execute(key, RecordCopies(key.ref, channel.copies))
            return
        look = await self._asked(world, stream, channel)
        if look is None:
            await self._end(key, world, stream, channel)
        elif not channel.copies_intended:
            await self._begin(key, world, look)
        elif look.wanted != channel.copies_intended:
            await self._execute(key, IntendReassignment(key.ref, look.wanted))
        else:
            await self._go_on(key, world, look)

    async def _asked(self, world: World, stream: Stream, channel: Channel) -> _Look | None:
        """Asks the channel's cluster; None if its topic is deleted or about to be, so that nothing is to be done.

        Raises:
            NotFound: the topic does not exist although it should.
        """
        if channel.retiring or channel.discarded or not channel.live:
            return None
        cluster = world.cluster(channel.cluster)
        admin = self._access.admin(cluster, "copies")
        survey = await admin.survey([channel.topic])
        topic = survey.topics.get(channel.topic)
        if topic is None or topic.topic_id != channel.topic_id:
            raise NotFound(f"topic {channel.topic} is not on cluster {cluster.name}")
        moving = await admin.reassignments(channel.topic, topic.partitions)
        return _Look(stream, channel, cluster, admin, survey, topic, moving)

    async def _begin(self, key: CopiesKey, world: World, look: _Look) -> None:
        """Records the intent, or that nothing is to be done: an operator or an earlier release may have done it."""
        if not look.moving and not look.wrong(look.wanted):
            await self._execute(key, RecordCopies(key.ref, look.topic.copies))
            return
        throttle = await copy_throttles.rate_for(look.admin, world, look.cluster.name, REASSIGN_BYTES_PER_S)
        if await self._execute(key, IntendReassignment(key.ref, look.wanted, throttle)):
            self._replica.log.info("copies change", channel=f"{key.stream}/{key.ref}", copies=look.wanted)

    async def _go_on(self, key: CopiesKey, world: World, look: _Look) -> None:
        wrong = look.wrong(look.channel.copies_intended)
        left = len(wrong) + len(look.moving)
        self._progressed(key, CopiesProgress(left, look.obstacle))
        self._moving[key] = len(look.moving)
        if not left:
            await self._end(key, world, look.stream, look.channel, look.topic.copies)
            return
        room = REASSIGNED_AT_ONCE - sum(self._moving.values())
        targets = await self._targets(world, look, wrong[: max(0, room)])
        if targets:
            await self._reassign(look, targets)
            self._moving[key] += len(targets)

    async def _targets(self, world: World, look: _Look, wrong: Sequence[int]) -> dict[int, tuple[int, ...]]:
        """Replicas for partitions with too few or too many copies, as far as brokers serve."""
        if not wrong:
            return {}
        here = [
            channel.topic
            for stream in world.streams.values()
            for channel in stream.channels
            if channel.cluster == look.cluster.name and channel.live
        ]
        topics = (await look.admin.survey(here)).topics.values()
        kept = counted(replicas for topic in topics for replicas in topic.replicas)
        brokers = Brokers(look.survey.brokers, look.survey.racks, kept)
        placed = {
            number: place(
                look.topic.replicas[number], look.topic.leaders[number], look.channel.copies_intended, brokers
            )
            for number in wrong
        }
        return {number: each for number, each in placed.items() if each != tuple(look.topic.replicas[number])}

    async def _reassign(self, look: _Look, targets: Mapping[int, tuple[int, ...]]) -> None:
        """Starts a reassignment. First sets the throttle, and lowers the in-sync minimum to what both states allow."""
        self._replica.require_leader()
        moves = {
            number: (
                tuple(broker for broker in each.replicas if broker not in each.adding),
                tuple(each.adding),
            )
            for number, each in look.moving.items()
        }
        for number, target in targets.items():
            present = tuple(look.topic.replicas[number])
            moves[number] = present, tuple(broker for broker in target if broker not in present)
        settings = {**throttled(moves), **in_sync_change(look.stream.spec, look.channel)}
        await copy_throttles.throttle(look.admin, look.channel.throttle_bytes_per_s)
        await look.admin.alter_topic_config(look.channel.topic, settings)
        await look.admin.reassign(look.channel.topic, targets)

    async def _end(self, key: CopiesKey, world: World, stream: Stream, channel: Channel, copies: int = 0) -> None:
        """Removes throttles, then records the result; the `copies` of a topic about to be deleted are unknown.

        The order matters: after a crash in between, both steps are repeated.
        """
        self._replica.require_leader()
        cluster = world.cluster(channel.cluster)
        admin = self._access.admin(cluster, "copies")
        if copies:
            settled = replace(channel, copies=copies, copies_intended=0)
            changes = {**unthrottled(stream.spec), **in_sync_change(stream.spec, settled)}
            await admin.alter_topic_config(channel.topic, changes)
        if copy_throttles.is_last(world, key.stream, channel):
            await copy_throttles.unthrottle(admin, channel.throttle_bytes_per_s)
        await self._execute(key, RecordCopies(key.ref, copies or channel.copies))

    async def _execute(self, key: CopiesKey, command: StreamCommand) -> bool:
        outcome = await self._replica.aggregates.execute(
            STREAMS, key.stream, command, actor=self._replica.instance, cause=f"{key.ref}: copies"
        )
        return bool(outcome.events)
