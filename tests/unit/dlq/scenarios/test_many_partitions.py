"""A dlq lane with many partitions costs the service what it must for each of them, not for each pair of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
from braid.api.assigner.v1 import group_pb2
from braid.api.registry.v1 import registry_service_pb2 as registry_api
from braid.client.consuming import cluster as cluster_work
from braid.kafka.memory.clients import MemoryOffsets
from braid.kafka.memory.cluster import MemoryCluster
from braid.kernel.ports import Committed, TopicDescription, TopicPartition
from tests.support.assignments import watch_assignments
from tests.unit.dlq.mesh import Mesh
from tests.unit.dlq.scenarios.replay_scenes import play

PARTITIONS = 400
AT_ONCE = 50
TIMES_MAX = 30  # that each partition is described or assigned


def test_many_partitions_that_come_at_once_are_not_paired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Counter[str]()
    describe = MemoryCluster.describe_topics

    def counted(positions: Mapping[TopicPartition, int]) -> None:
        seen["assigned"] += len(positions)

    def counted_describe(self: MemoryCluster, topics: Sequence[str] | None) -> dict[str, TopicDescription]:
        told = describe(self, topics)
        seen["described"] += sum(each.partitions for each in told.values())
        return told

    async def scene(mesh: Mesh) -> None:
        watch_assignments(monkeypatch, counted)
        monkeypatch.setattr(MemoryCluster, "describe_topics", counted_describe)
        await _move(mesh)
        await mesh.indexed(0)
        assert seen["assigned"] >= 2 * PARTITIONS, "by the index, and by the member that replays"
        assert {what: count / PARTITIONS for what, count in seen.items() if count > TIMES_MAX * PARTITIONS} == {}

    play(tmp_path, scene)


def test_progress_of_many_leases_is_read_some_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, seen = set[TopicPartition](), [0]
    committed = MemoryOffsets.committed

    async def counted(
        self: MemoryOffsets, group: str, partitions: Sequence[TopicPartition] | None
    ) -> Mapping[TopicPartition, Committed]:
        now.update(partitions or ())
        seen.append(len(now))
        try:
            return await committed(self, group, partitions)
        finally:
            now.difference_update(partitions or ())

    async def scene(mesh: Mesh) -> None:
        monkeypatch.setattr(cluster_work, "RESTORES_AT_ONCE", AT_ONCE)
        monkeypatch.setattr(MemoryOffsets, "committed", counted)
        await _move(mesh)
        assert AT_ONCE <= max(seen) < 2 * AT_ONCE

    play(tmp_path, scene)


async def _move(mesh: Mesh) -> None:
    order = registry_api.MoveStreamRequest(stream="logs", to_cluster="west", lanes=["dlq"], partitions=PARTITIONS)
    await mesh.client.service("registry").unary("MoveStream", order, registry_api.MoveStreamResponse)
    await mesh.until(lambda: _all_are_held(mesh))


async def _all_are_held(mesh: Mesh) -> bool:
    request = assigner_api.ListLeasesRequest(group="braid-dlq", page_size=1_000)
    found = await mesh.client.service("assigner").unary("ListLeases", request, assigner_api.ListLeasesResponse)
    return sum(each.state == group_pb2.LEASE_STATE_HELD for each in found.leases) >= PARTITIONS
