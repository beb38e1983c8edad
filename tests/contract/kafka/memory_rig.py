"""The contract's rig over the twin, on virtual time."""

import asyncio

from braid.kafka.memory import MemoryCluster, MemoryKafka
from braid.kafka.memory.log import NewRecord
from braid.kernel.ports import Generation, TopicPartition
from tests.contract.kafka.rig import Body, Rig
from tests.support.virtual_time import run_virtual, running_loop, virtual_host

LATENCY_SECONDS = 0.001
START_SECONDS = 2.0


class MemoryFaults:
    """`Faults` of a cluster in memory."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._members = 0

    async def kill(self) -> None:
        """kill -9."""
        self._cluster.kill()

    async def start(self) -> None:
        """Starts the cluster after the time that a real broker takes."""
        await asyncio.sleep(START_SECONDS)
        self._cluster.start()

    async def pause(self) -> None:
        """SIGSTOP."""
        self._cluster.pause()

    async def resume(self) -> None:
        """SIGCONT."""
        self._cluster.resume()

    async def cut(self, partition: TopicPartition, end: int) -> None:
        """Dies, loses what was after it, and returns."""
        self._cluster.kill()
        self._cluster.truncate(partition, end)
        await self.start()

    async def append_bomb(self, partition: TopicPartition) -> None:
        """A batch, and its damage."""
        offset = self._cluster.append(partition, [NewRecord(0, None, b"", ())])
        self._cluster.damage(partition, offset, "bomb: as the twin says it is")

    async def join(self, group: str, member_id: str) -> Generation:
        """Joins."""
        self._members += 1
        return self._cluster.groups.join(group, member_id or f"member-{self._members}")

    async def occupy(self, group: str) -> bool:
        """Joins."""
        return self._cluster.groups.occupy(group)


def run_on_memory(body: Body, brokers: int = 1) -> None:
    """Runs a body over a fresh cluster in memory."""

    async def run() -> None:
        kafka = MemoryKafka(virtual_host(running_loop(), seed=1).clock, latency=lambda: LATENCY_SECONDS)
        cluster = kafka.add_cluster("east", brokers=brokers)
        rig = Rig(kafka, cluster.bootstrap, MemoryFaults(cluster), "t")
        try:
            await body(rig)
        finally:
            await rig.close()

    run_virtual(run())
