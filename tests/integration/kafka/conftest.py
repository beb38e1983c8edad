"""The contract's rig over a real broker."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiokafka.protocol.group import JoinGroupRequest, SyncGroupRequest

from braid.kafka.cluster import AioKafka
from braid.kafka.protocol.wire import ANY_BROKER, Wire
from braid.kafka.security import Security
from braid.kernel.limits.kafka import INFLATED_RECORD_BYTES_MAX
from braid.kernel.ports import Generation, TopicPartition
from devmesh.processes.brokers import KafkaBroker
from testbed.batches import bomb, produce_raw, raw_batch
from testbed.brokers import READY_SECONDS
from testbed.ground.disks import batches_in
from testbed.patience import until
from tests.contract.kafka.rig import Rig

_NEEDS_MEMBER_ID = 79
_NO_COORDINATOR_YET = (14, 15, 16)  # for about a second after the first group of a fresh broker
_counter = itertools.count()


class RealFaults:
    """`Faults` of a broker process."""

    def __init__(self, broker: KafkaBroker, wire: Wire) -> None:
        self._broker = broker
        self._wire = wire

    async def kill(self) -> None:
        """kill -9."""
        await asyncio.to_thread(self._broker.kill)

    async def start(self) -> None:
        """Returns once it serves."""
        await asyncio.to_thread(self._broker.start)
        await asyncio.to_thread(self._broker.wait_ready, READY_SECONDS)

    async def pause(self) -> None:
        """SIGSTOP."""
        self._broker.pause()

    async def resume(self) -> None:
        """SIGCONT."""
        self._broker.resume()

    async def cut(self, partition: TopicPartition, end: int) -> None:
        """Truncates a log, as on a machine that lost unsynced memory."""
        await self.kill()
        [segment] = self._broker.directory.rglob(f"{partition.topic}-{partition.partition}/*.log")
        (batch,) = (each for each in batches_in(segment.read_bytes()) if each.base_offset == end)
        with segment.open("r+b") as file:
            file.truncate(batch.position)
        await self.start()

    async def append_bomb(self, partition: TopicPartition) -> None:
        """Appends a bomb by a raw Produce request; no client would build the batch."""
        payload = bomb(4, INFLATED_RECORD_BYTES_MAX)
        now_ms = time.time_ns() // 1_000_000
        assert await produce_raw(self._wire, partition, raw_batch(0, 1, payload, 4, time_ms=now_ms)) == 0

    async def join(self, group: str, member_id: str) -> Generation:
        """Joins and syncs as a classic member with an opaque protocol, as an assigner does.

        The metadata is empty because a 4.3 coordinator reads it as a subscription whatever the protocol's name, and
        never answers a join whose bytes 3 to 6 look like a large array (`b"opaque"`).
        """
        request = JoinGroupRequest(group, 1_800_000, 6_000, member_id, None, "consumer", [("braid-1", b"")])
        answer = await self._coordinated(request)
        if answer.error_code == _NEEDS_MEMBER_ID:
            return await self.join(group, answer.member_id)
        assert answer.error_code == 0, answer
        sync = SyncGroupRequest(group, answer.generation_id, answer.member_id, None, [(answer.member_id, b"all")])
        synced = await self._wire.ask(ANY_BROKER, sync)
        assert synced.error_code == 0, synced
        return Generation(answer.generation_id, answer.member_id)

    async def occupy(self, group: str) -> bool:
        """Joins a group as a classic consumer that has its member id and is subscribed to a topic."""
        subscription = b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\0"
        member_id = ""
        while True:
            protocols = [("range", subscription)]
            request = JoinGroupRequest(group, 30_000, 1_000, member_id, None, "consumer", protocols)
            answer = await self._coordinated(request)
            if answer.error_code != _NEEDS_MEMBER_ID:
                break
            member_id = answer.member_id
        if answer.error_code:
            return False
        sync = SyncGroupRequest(group, answer.generation_id, answer.member_id, None, [(answer.member_id, b"")])
        assert (await self._wire.ask(ANY_BROKER, sync)).error_code == 0
        return True

    async def _coordinated(self, request: JoinGroupRequest) -> Any:
        """The answer to a join, once the group has a coordinator."""
        answers: list[Any] = []

        async def answered() -> bool:
            answers.append(await self._wire.ask(ANY_BROKER, request))
            return answers[-1].error_code not in _NO_COORDINATOR_YET

        await until(answered, lambda: f"the group has a coordinator: {answers[-1]}")
        return answers[-1]


@pytest.fixture
async def rig(broker: KafkaBroker) -> AsyncIterator[Rig]:
    """The contract's rig over the shared broker, which serves again when a test ends."""
    wire = Wire(broker.bootstrap, "test", Security(), 10.0)
    rig = Rig(AioKafka("test"), broker.bootstrap, RealFaults(broker, wire), f"t{next(_counter)}")
    try:
        yield rig
    finally:
        broker.resume()
        await rig.close()
        await wire.close()
        if broker.pid is None:
            await asyncio.to_thread(broker.start)
            await asyncio.to_thread(broker.wait_ready, READY_SECONDS)
