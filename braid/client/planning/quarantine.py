"""Writes dead letters for undecodable batches, for readers of planned ranges, which do not consume."""

import asyncio

from braid.client.consuming.background import Background
from braid.client.delivery.lease_work import LeaseWork
from braid.client.delivery.memory_bound import MemoryBound
from braid.client.delivery.ready_queue import ReadyQueue
from braid.client.handling.dead_letters import DeadLetters
from braid.client.mesh import Mesh
from braid.client.producing.routes import cluster_address
from braid.client.producing.settings import ProducerSettings
from braid.client.records.delivery import OwnedLease
from braid.client.records.record import Record
from braid.kernel.errors import Unavailable
from braid.kernel.ids import DLQ_LANE, LeaseId
from braid.kernel.ports import DamagedBatch, FetchedColumns, TopicPartition
from braid.kernel.progress.tracker import Progress


class _Letters:
    """`Settling` for a batch that is only copied."""

    def __init__(self, dead_letters: DeadLetters) -> None:
        self._dead_letters = dead_letters

    def park(self, record: Record, delay_seconds: float) -> None:
        raise AssertionError("nothing of a quarantined batch is tried again")

    def write_dead_letter(self, record: Record, error: BaseException | str) -> None:
        self._dead_letters.write(record, error)

    def settled(self, count: int) -> None:
        return


async def quarantine(
    mesh: Mesh, group: str, lease: LeaseId, cluster: str, topic: str, batch: DamagedBatch, *, wait_seconds: float
) -> None:
    """Copies a batch to its stream's dlq lane as a consumer of the group would, and waits for the acknowledgement.

    Doing it again makes a copy of the same identity (group, cluster, topic, partition, offset).

    Raises:
        Unavailable: no copy was acknowledged in time.
    """
    background = Background(mesh._host.tasks, lambda error: work.end())
    dead_letters = DeadLetters(
        mesh._host,
        group,
        lambda stream: mesh._make_producer(stream, ProducerSettings(lanes=(DLQ_LANE,))),
        beside=background.beside,
        held=lambda lane, count, size: None,
    )
    letters = _Letters(dead_letters)
    held = OwnedLease(lease, 0, cluster_address(cluster, ""), TopicPartition(topic, lease.partition))
    memory = MemoryBound(1, {}).lane(lease.channel.lane)
    work = LeaseWork(held, group=group, ready=ReadyQueue({}), settling=letters, memory=memory, may_start=None)
    work.begin(Progress(batch.first_offset), bytes(16))
    work.head.accept(FetchedColumns(held.topic_partition, (), batch.last_offset + 1, (batch,)))
    work.drain()
    try:
        async with asyncio.timeout(wait_seconds):
            await work.drained()
    except TimeoutError:
        raise Unavailable(
            f"the dead letter of {lease}@{batch.first_offset} was not acknowledged in {wait_seconds:g} s",
            remedy="check the stream's dlq lane: braid describe stream",
        ) from None
    finally:
        await background.stop()
        await dead_letters.close()
    if background.refusal is not None:
        raise background.refusal
