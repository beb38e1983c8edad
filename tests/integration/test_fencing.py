"""Hard fencing on real brokers: a frozen former holder, strays, a killed leader, a killed cluster."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import InconsistentGroupProtocolError

import braid
from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2
from braid.api.registry.v1.registry_service_pb2 import CreateStreamRequest
from braid.api.registry.v1.stream_pb2 import LaneSpec, Stream, StreamSpec
from braid.kafka.cluster import AioKafka
from braid.kernel.envelope import decode
from braid.kernel.errors import Fenced
from braid.kernel.ids import ASIDE_GROUP
from braid.kernel.ports import Committed, Generation, KafkaOffsets, TopicPartition
from devmesh.mesh import DevMesh
from testbed.patience import in_time, until
from tests.support.consumer_parts import cluster_work
from tests.support.grounds import wait_healthy
from tests.support.leading import leader

ROOT: Final = Path(__file__).parents[2]
STREAM: Final = "logs"
PARTITIONS: Final = 4
LEASE_MS: Final = 5_000  # nobody but the frozen may lose a lease, on a machine that stalls for a second either
CALL_SECONDS: Final = 60.0  # by the wall

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(600)]


@pytest.fixture
def local(one_cluster: DevMesh) -> DevMesh:
    """One cluster, one registry, two assigners; all healthy."""
    wait_healthy(one_cluster)
    return one_cluster


class Rig:
    """A stream and a fenced group of a test's own, and eyes on its cluster."""

    def __init__(self, local: DevMesh, mesh: braid.Mesh, offsets: KafkaOffsets, name: str) -> None:
        self.local = local
        self.mesh = mesh
        self.offsets = offsets
        self.name = name
        self.topic = f"braid.{name}.live.1"

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions of the group's topic."""
        return [TopicPartition(self.topic, number) for number in range(PARTITIONS)]

    async def fill(self, count: int = 40) -> None:
        """More records, in every partition."""
        async with self.mesh.producer(self.name) as producer:
            for number in range(count):
                await producer.send(b"x", key=b"%d" % number)

    async def epochs(self) -> list[int]:
        """The epochs in the committed envelopes, by partition."""
        found = await self.offsets.committed(self.name, self.partitions)
        return [decode(*found[where]).fields.epoch for where in self.partitions]

    async def done(self) -> int:
        """Committed offsets, summed."""
        found = await self.offsets.committed(self.name, self.partitions)
        return sum(max(0, found[where].offset) for where in self.partitions)

    async def until_done(self, count: int, seconds: float = 30.0) -> None:
        """Waits until so much is committed."""
        seen = [0]

        async def committed() -> bool:
            seen.append(await self.done())
            return seen[-1] >= count

        await until(committed, lambda: f"{count} committed, not {seen[-1]}", seconds)

    @asynccontextmanager
    async def member(self) -> AsyncIterator[braid.Consumer]:
        """A member in this process that handles everything."""

        async def handle(record: braid.Record) -> None:
            """Nothing to do; done is done."""

        async with self.mesh.consumer([self.name], group=self.name) as consumer:
            running = asyncio.create_task(consumer.run(handle))
            yield consumer
        await running


@asynccontextmanager
async def rigged(local: DevMesh, name: str) -> AsyncIterator[Rig]:
    """A stream and a fenced group of that name."""
    ready = await local.info()
    offsets = AioKafka("test").cluster(ready.clusters["east"].bootstrap, "").offsets()
    try:
        async with braid.connect(ready.endpoint) as mesh:
            spec = StreamSpec(lanes={"live": LaneSpec(partitions=PARTITIONS)}, replication_factor=1)
            await mesh.service("registry").unary("CreateStream", CreateStreamRequest(name=name, spec=spec), Stream)
            wanted = group_pb2.GroupSpec(streams=[name], lease_ms=LEASE_MS, fencing=group_pb2.FENCING_GENERATION)
            request = api.CreateGroupRequest(name=name, spec=wanted)
            await mesh.service("assigner").unary("CreateGroup", request, group_pb2.Group, timeout_seconds=CALL_SECONDS)
            yield Rig(local, mesh, offsets, name)
    finally:
        await offsets.close()


def generation_of(consumer: braid.Consumer) -> Generation:
    """Returns the generation that a member commits with."""
    lent = cluster_work(consumer).committer.generation
    assert lent is not None
    return lent


async def test_a_frozen_former_holders_commit_is_refused_by_the_broker(local: DevMesh, tmp_path: Path) -> None:
    log = tmp_path / "commits.log"

    def outcomes() -> list[tuple[int, str]]:
        lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return [(line["generation"], line["outcome"]) for line in lines]

    async with rigged(local, "frozen") as rig:
        await rig.fill()
        arguments = ("-m", "tests.support.fenced_member", local.ready.endpoint, rig.name, rig.name, str(log))
        process = await asyncio.create_subprocess_exec(sys.executable, *arguments, cwd=ROOT)
        try:
            await rig.until_done(40)
            async with rig.member() as survivor:
                await until(lambda: len(survivor.leases()) == 2, "both work")
                before = generation_of(survivor)
                process.send_signal(signal.SIGSTOP)
                await until(lambda: len(survivor.leases()) == PARTITIONS, "the survivor has all")
                assert generation_of(survivor) == (before.generation + 1, before.member_id)
                await rig.fill()
                await rig.until_done(80)
                told = len(outcomes())
                process.send_signal(signal.SIGUSR1)  # what it does first when it goes on
                process.send_signal(signal.SIGCONT)
                await until(lambda: (before.generation, "fenced") in outcomes()[told:], lambda: f"fenced: {outcomes()}")
                assert (before.generation, "taken") not in outcomes()[told:]
                assert await rig.done() == 80
                await until(lambda: len(survivor.leases()) == 2, "both work again")  # it joined again, and works
                await rig.fill()
                await rig.until_done(120)
                await until(
                    lambda: (before.generation + 1, "taken") in outcomes()[told:], lambda: f"taken: {outcomes()}"
                )
            assert all(number > 0 for number, _ in outcomes())  # none was ever plain
        finally:
            process.kill()
            await process.wait()


async def test_strays_are_refused_while_members_work(local: DevMesh) -> None:
    async with rigged(local, "strays") as rig, rig.member() as consumer:
        await rig.fill()
        await rig.until_done(40)
        assert await rig.offsets.group_state(rig.name) == "Stable"
        where = rig.partitions[0]
        for stray in (None, Generation(generation_of(consumer).generation, "somebody")):
            with pytest.raises(Fenced):
                await rig.offsets.commit(rig.name, {where: Committed(0, "")}, stray)
        bootstrap = (await local.info()).clusters["east"].bootstrap
        tool = AIOKafkaConsumer(rig.topic, bootstrap_servers=bootstrap, group_id=rig.name)
        try:
            with pytest.raises(InconsistentGroupProtocolError):
                await in_time(tool.start(), "the tool is told")
        finally:
            await tool.stop()
        await rig.fill()
        await rig.until_done(80)


async def test_the_next_leader_takes_over_membership_and_moves_nothing(local: DevMesh) -> None:
    async with rigged(local, "leaders") as rig, rig.member() as one:
        async with rig.member() as two:
            await until(lambda: len(one.leases()) == len(two.leases()) == 2, "both work")
            await rig.fill()
            await rig.until_done(40)
            before, held = generation_of(one), [sorted(one.leases()), sorted(two.leases())]
            name = await leader(rig.mesh)
            await local.kill(name)
            try:
                await rig.fill()
                await rig.until_done(80)
            finally:
                await local.start(name)
            await until(lambda: one._session.attached and two._session.attached, "a leader answers both")
            assert generation_of(one) == before
            keys = [[(lease.name, lease.epoch) for lease in leases] for leases in held]
            now = [[(lease.name, lease.epoch) for lease in sorted(each.leases())] for each in (one, two)]
            assert now == keys
            epochs = await rig.epochs()
            await two._stop()  # without a word: its leases are taken
        await until(lambda: len(one.leases()) == PARTITIONS, "one has all")
        assert generation_of(one).member_id == before.member_id
        assert generation_of(one).generation > before.generation
        await rig.fill()
        await rig.until_done(120)
        assert all(new >= old for new, old in zip(await rig.epochs(), epochs, strict=True))


async def test_a_generation_survives_its_cluster(local: DevMesh) -> None:
    async with rigged(local, "restarts") as rig, rig.member() as consumer:
        await rig.fill()
        await rig.until_done(40)
        before = generation_of(consumer)
        await local.kill("east")
        await local.start("east")
        await rig.fill()
        await rig.until_done(80, 60.0)
        assert generation_of(consumer) == before
        with pytest.raises(Fenced):
            await rig.offsets.commit(rig.name, {rig.partitions[0]: Committed(0, "")}, None)


async def test_a_group_is_fenced_no_more_and_keeps_its_progress(local: DevMesh) -> None:
    async with rigged(local, "plain") as rig:
        async with rig.member():
            await rig.fill()
            await rig.until_done(40)
        assigner = rig.mesh.service("assigner")

        async def left() -> bool:
            answer = await assigner.unary("GetGroup", api.GetGroupRequest(name=rig.name), group_pb2.Group)
            return answer.status.members == 0 and not answer.status.ending_clusters

        await until(left, "the member is gone")
        before = await rig.offsets.committed(rig.name, None)
        wanted = group_pb2.GroupSpec(fencing=group_pb2.FENCING_NONE)
        request = api.UpdateGroupRequest(name=rig.name, spec=wanted)
        await assigner.unary("UpdateGroup", request, group_pb2.Group, timeout_seconds=CALL_SECONDS)
        await until(left, "its membership has ended")
        assert await rig.offsets.group_state(rig.name) == "Empty"
        assert await rig.offsets.committed(rig.name, None) == before
        assert await rig.offsets.group_state(f"{ASIDE_GROUP}{rig.name}") in ("Dead", "Empty")
        async with rig.member():
            await rig.fill()
            await rig.until_done(80)
        await rig.offsets.commit(rig.name, {rig.partitions[0]: Committed(0, "")}, None)  # as a tool may
