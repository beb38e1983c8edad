"""Membership of the service's own group on the dlq lanes: a drain waits until every dead letter is indexed.

A record is acknowledged once the leader's index holds it. Nothing else is done with it, and nothing is rejected. A
group has at most `GROUP_STREAMS_MAX` streams, so many streams need several groups: `braid-dlq`, `braid-dlq-2`, ….
"""

from typing import Final

from braid.client.consuming.consumer import Consumer
from braid.client.mesh import MeshOfStreams
from braid.client.records.record import Record
from braid.kernel.errors import BraidError
from braid.kernel.ids import DLQ_LANE
from braid.kernel.limits.assigner.leases import GROUP_STREAMS_MAX
from braid.kernel.limits.client import FETCH_RECORDS_MAX, FETCH_WAIT_SECONDS
from braid.kernel.limits.dlq import DLQ_INDEX_POLL_SECONDS, DLQ_MEMBER_RETRY_SECONDS
from braid.kernel.ports import Host, Task, TopicPartition
from braid.runtime.replica import Replica
from services.dlq.index.tail import Tail
from services.dlq.peers import ChannelFollower, Groups

GROUP: Final = "braid-dlq"
_IN_FLIGHT_BYTES: Final = 8 << 20  # they are only looked at


class Membership:
    """Keeps one member in each group that the streams need, and follows streams as they come and go."""

    def __init__(
        self, replica: Replica, mesh: MeshOfStreams, tail: Tail, follower: ChannelFollower, groups: Groups
    ) -> None:
        self._replica = replica
        self._host: Host = replica.host
        self._mesh = mesh
        self._tail = tail
        self._follower = follower
        self._groups = groups

    async def run(self) -> None:
        """Runs the members until cancelled."""
        members: dict[str, tuple[tuple[str, ...], Task]] = {}
        try:
            while True:
                changed = self._follower.changed()
                view = self._follower.view
                wanted = groups_of(view.streams()) if view is not None else {}
                for group, (streams, task) in list(members.items()):
                    if wanted.get(group) != streams:
                        await _end(task)
                        del members[group]
                for group, streams in wanted.items():
                    if group not in members:
                        work = self._take_part(group, streams)
                        members[group] = (streams, self._host.tasks.spawn(work, f"member of {group}"))
                await changed.wait()
        finally:
            for _, task in members.values():
                task.cancel()
            for _, task in members.values():
                await task.ended()

    async def _take_part(self, group: str, streams: tuple[str, ...]) -> None:
        while True:
            try:
                await self._groups.subscribe(group, streams)
                consumer = self._mesh.consumer(
                    streams, group=group, lanes={DLQ_LANE: 1}, max_in_flight_bytes=_IN_FLIGHT_BYTES
                )
                async with consumer:
                    await self._acknowledge(consumer)
            except BraidError as error:  # the assigner is away, or does not know a new stream yet
                self._replica.log.info("not a member", group=group, error=str(error))
            await self._host.clock.sleep(DLQ_MEMBER_RETRY_SECONDS)

    async def _acknowledge(self, consumer: Consumer) -> None:
        """Acknowledges records once the index holds them. The consumer's memory limit bounds the waiting ones."""
        waiting: list[Record] = []
        while True:
            taken = await consumer.take_many(
                FETCH_RECORDS_MAX, DLQ_INDEX_POLL_SECONDS if waiting else FETCH_WAIT_SECONDS
            )
            left: list[Record] = []
            for record in (*waiting, *taken):
                if self._tail.holds(record.cluster, TopicPartition(record.topic, record.partition), record.offset):
                    record.ack()
                elif not record.work.ended:  # of one that ended, the next member gets it
                    left.append(record)
            if taken and left:
                await self._host.clock.sleep(DLQ_INDEX_POLL_SECONDS)
            waiting = left


def groups_of(streams: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The service's groups and their streams."""
    parts = [streams[at : at + GROUP_STREAMS_MAX] for at in range(0, len(streams), GROUP_STREAMS_MAX)]
    return {GROUP if number == 1 else f"{GROUP}-{number}": part for number, part in enumerate(parts, 1)}


async def _end(task: Task) -> None:
    task.cancel()
    await task.ended()
