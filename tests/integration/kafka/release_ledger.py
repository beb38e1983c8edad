"""The story of `test_versions.py` on two clusters: gaps in a commit, strays that are fenced, channels that are sealed.

A ledger beside Braid notes what was acknowledged and what was handled. In the end nothing may be lacking, and nothing
may have been done twice.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from typing import Final

import pytest

import braid
from braid.api.assigner.v1 import assigner_service_pb2 as assigner
from braid.api.assigner.v1 import group_pb2
from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.api.registry.v1 import registry_service_pb2 as registry
from braid.kafka.cluster import AioKafka
from braid.kernel.envelope import decode
from braid.kernel.errors import Fenced, TopicSealed
from braid.kernel.ports import Committed, Generation, KafkaAdmin, KafkaOffsets, TopicPartition
from devmesh.mesh import DevMesh
from devmesh.processes.brokers import KafkaBroker
from testbed.patience import until
from tests.support.consumer_parts import lease_works
from tests.support.grounds import HEALTHY_SECONDS
from tests.support.stuck_member import left_of

STREAM: Final = "ledger"
LEFT_SHARE: Final = 0.3  # of a channel's first records, scattered: gaps that a commit has to tell
CALL_SECONDS: Final = 60.0  # by the wall: a call that is not answered at all
AT_ONCE: Final = 5_000


class Ledger:
    """Records that producers have receipts for, and how often each record was done."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, str] = {}  # clusters by record id
        self.done: Counter[str] = Counter()

    def __str__(self) -> str:
        """Describes the ledger for a failure's message."""
        return f"{len(self.acknowledged)} acknowledged, {len(self.done)} done"

    @property
    def complete(self) -> bool:
        """Whether everything acknowledged is done."""
        return self.done.keys() >= self.acknowledged.keys()


def keep_ledger(local: DevMesh, north: KafkaBroker, count: int) -> None:
    """Fills a channel on the mesh's cluster `west`, moves to cluster `north`, fills one there, and moves back.

    Args:
        local: With `west` alone.
        north: The broker of the other cluster, which no mesh knows yet.
        count: Of a channel's records.
    """
    bootstraps = {"west": local.ready.clusters["west"].bootstrap, "north": north.bootstrap}
    asyncio.run(_play(local.ready.endpoint, bootstraps, count))


async def _play(endpoint: str, bootstraps: dict[str, str], count: int) -> None:
    ledger = Ledger()
    async with braid.connect(endpoint, client_id="ledger") as mesh:
        await _declare(mesh, bootstraps["north"])
        async with mesh.producer(STREAM) as producer:
            for number, (cluster, other) in enumerate((("west", "north"), ("north", "west")), 1):
                place = TopicPartition(f"braid.{STREAM}.live.{number}", 0)
                async with _looking_at(bootstraps[cluster]) as (offsets, admin):
                    await _send(producer, ledger, count)
                    lent = await _leave_gaps(mesh, ledger, place, count)
                    _check_commit((await offsets.committed(STREAM, [place]))[place], count)
                    async with _handled(mesh, ledger):
                        await until(lambda: ledger.complete, lambda: f"the gaps are done: {ledger}", 60.0)
                        await _strays_are_fenced(offsets, place, lent)
                        await _move(mesh, other)
                        await until(partial(_drained, mesh, number), "the channel is drained", 60.0)
                    with pytest.raises(TopicSealed):
                        await admin.try_append(place, b"late", CALL_SECONDS)
    assert Counter(ledger.acknowledged.values()) == {"west": count, "north": count}
    assert ledger.done == Counter(ledger.acknowledged.keys()), "each is done once"


async def _declare(mesh: braid.Mesh, north: str) -> None:
    """A cluster, a stream of one partition that begins on the other one, and a group that brokers fence."""
    service = mesh.service("registry")
    cluster = registry.CreateClusterRequest(name="north", spec=cluster_pb2.ClusterSpec(bootstrap=north))
    await service.unary("CreateCluster", cluster, cluster_pb2.Cluster, timeout_seconds=CALL_SECONDS)

    async def healthy() -> bool:
        answer = await service.unary("ListClusters", registry.ListClustersRequest(), registry.ListClustersResponse)
        return all(each.status.health == cluster_pb2.CLUSTER_HEALTH_HEALTHY for each in answer.clusters)

    await until(healthy, "both clusters are healthy", HEALTHY_SECONDS)
    spec = stream_pb2.StreamSpec(
        lanes={"live": stream_pb2.LaneSpec(partitions=1)}, clusters=["west", "north"], replication_factor=1
    )
    stream = registry.CreateStreamRequest(name=STREAM, spec=spec)
    await service.unary("CreateStream", stream, stream_pb2.Stream, timeout_seconds=CALL_SECONDS)
    wanted = group_pb2.GroupSpec(streams=[STREAM], fencing=group_pb2.FENCING_GENERATION)
    group = assigner.CreateGroupRequest(name=STREAM, spec=wanted)
    await mesh.service("assigner").unary("CreateGroup", group, group_pb2.Group, timeout_seconds=CALL_SECONDS)


@contextlib.asynccontextmanager
async def _looking_at(bootstrap: str) -> AsyncIterator[tuple[KafkaOffsets, KafkaAdmin]]:
    """Clients of a cluster that do not go through the mesh."""
    cluster = AioKafka("ledger").cluster(bootstrap, "")
    offsets, admin = cluster.offsets(), cluster.admin()
    try:
        yield offsets, admin
    finally:
        await offsets.close()
        await admin.close()


async def _send(producer: braid.Producer, ledger: Ledger, count: int) -> None:
    for first in range(0, count, AT_ONCE):
        sent = [producer.send(b"%d" % number) for number in range(first, min(count, first + AT_ONCE))]
        ledger.acknowledged.update({receipt.id: receipt.cluster for receipt in await asyncio.gather(*sent)})


async def _leave_gaps(mesh: braid.Mesh, ledger: Ledger, place: TopicPartition, count: int) -> Generation:
    """A member that leaves some records undone, and commits; what it commits with."""
    left, seen = left_of(count, LEFT_SHARE), 0
    async with mesh.consumer([STREAM], group=STREAM, commit_interval_seconds=3_600) as consumer:
        while seen < count:
            for record in await consumer.take_many(AT_ONCE, CALL_SECONDS):
                seen += 1
                if record.offset not in left:
                    record.ack()
                    ledger.done[record.id] += 1
        await consumer.commit()
        committers = [each.committer for each in lease_works(consumer).clusters.values()]
        (lent,) = (
            each.generation for each in committers if place in [work.lease.topic_partition for work in each.works]
        )
    assert lent is not None
    return lent


async def _strays_are_fenced(offsets: KafkaOffsets, place: TopicPartition, lent: Generation) -> None:
    """Neither a commit without a generation nor one with an earlier one gets in beside the group's members."""
    for stray in (None, lent._replace(generation=lent.generation - 1)):
        with pytest.raises(Fenced):
            await offsets.commit(STREAM, {place: Committed(0, "")}, stray)


def _check_commit(found: Committed, count: int) -> None:
    """A commit tells every record that is done, beyond the first one that is not."""
    fields = decode(found.offset, found.metadata).fields
    beside = fields.spill.done if fields.spill else 0
    assert found.offset == 0
    assert fields.claims.count + beside == count - len(left_of(count, LEFT_SHARE))


@contextlib.asynccontextmanager
async def _handled(mesh: braid.Mesh, ledger: Ledger) -> AsyncIterator[None]:
    """Another member does all that comes."""

    async def handle(record: braid.Record) -> None:
        ledger.done[record.id] += 1

    async with mesh.consumer([STREAM], group=STREAM) as consumer:
        running = asyncio.create_task(consumer.run(handle))
        yield
    await running


async def _move(mesh: braid.Mesh, other: str) -> None:
    """The lane goes to another cluster; what is left of its channel drains."""
    request = registry.MoveStreamRequest(stream=STREAM, to_cluster=other, reason="a ledger")
    answer = registry.MoveStreamResponse
    await mesh.service("registry").unary("MoveStream", request, answer, timeout_seconds=CALL_SECONDS)


async def _drained(mesh: braid.Mesh, number: int) -> bool:
    request = registry.GetStreamRequest(name=STREAM)
    answer = await mesh.service("registry").unary("GetStream", request, stream_pb2.Stream)
    states = {each.name: each.state for each in answer.status.channels}
    return states[f"{STREAM}/live/{number}"] == stream_pb2.CHANNEL_STATE_DRAINED
