"""I11: a channel is drained only when sealed and done. The check holds, and turns red for mutants of the registry."""

import asyncio
import contextlib
from collections.abc import Mapping

import pytest

from braid.kernel.errors import TopicSealed
from braid.kernel.ports import Clock, HistoryId, KafkaAdmin, TopicPartition
from services.registry.kafka import drain, surveys
from services.registry.kafka.clients import Access
from services.registry.model.channels import Channel
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.stream_commands import RecordSealed
from services.registry.model.stream_events import ChannelDrained, ChannelSealed, EndOffsetsRead
from tests.support.virtual_time import run_virtual
from tests.unit.registry.mesh import DRAINED, Mesh, two_clusters

TOPIC = "braid.logs.live.1"


async def violations(mesh: Mesh) -> list[str]:
    """Channels drained against the rules, from the history, the logs and the groups' progress."""
    found: list[str] = []
    sealed: set[object] = set()
    ends: dict[object, tuple[int, ...]] = {}
    replica = await mesh.leader()
    for record in await replica.aggregates.events(HistoryId("registry", "stream", "logs")):
        match record.event:
            case ChannelSealed(ref):
                sealed.add(ref)
            case EndOffsetsRead(ref, offsets):
                if ref not in sealed:
                    found.append(f"{ref}: its end was read before the seal")
                ends[ref] = offsets
            case ChannelDrained(ref):
                found += await _wrongly_drained(mesh, f"braid.logs.{ref.lane}.{ref.generation}", ends.get(ref, ()))
    return found


async def _wrongly_drained(mesh: Mesh, topic: str, ends: tuple[int, ...]) -> list[str]:
    east = mesh.kafka.named("east")
    found: list[str] = []
    for number, end in enumerate(ends):
        partition = TopicPartition(topic, number)
        if east.log(partition).end != end:
            found.append(f"{partition}: a record was acknowledged after the end was read")
        for group in mesh.assigner.groups:
            offsets = mesh.kafka.cluster("east:9092", "").offsets()
            base = (await offsets.committed(group, [partition]))[partition].offset
            if end > max(base, 0):
                found.append(f"{partition}: {group} has {end - max(base, 0)} records to do")
    return found


async def drained_under_fire(mesh: Mesh) -> list[str]:
    """A group with a gap, and a writer that keeps to the old topic; returns what the check finds in the end."""
    await two_clusters(mesh)
    mesh.assigner.groups["indexer"] = False
    await mesh.append("east", TOPIC, 0, 3)
    await mesh.commit("east", "indexer", TOPIC, 1)  # 2 may be done beyond the gap: that claims nothing below
    await mesh.move(to_cluster="west")
    for _ in range(40):
        await asyncio.sleep(0.25)
        try:
            await mesh.append("east", TOPIC, 1)
        except TopicSealed:
            continue
    if (await mesh.channel("logs/live/1")).state != DRAINED:
        await mesh.commit(
            "east", "indexer", TOPIC, *[mesh.kafka.named("east").log(TopicPartition(TOPIC, n)).end for n in (0, 1)]
        )
        await mesh.until_channel("logs/live/1", lambda channel: channel.state == DRAINED, 5)
    with contextlib.suppress(TopicSealed):
        await mesh.append("east", TOPIC, 1)
    return await violations(mesh)


def play() -> list[str]:
    async def run() -> list[str]:
        return await drained_under_fire(Mesh())

    return run_virtual(run())


def test_nothing_is_drained_that_is_not_sealed_and_done() -> None:
    assert play() == []


def test_a_drain_without_the_seal_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_seal(access: Access, cluster: Cluster, channel: Channel, clock: Clock) -> RecordSealed:
        return RecordSealed(channel.ref)

    async def believe(admin: KafkaAdmin, channel: Channel, ends: Mapping[TopicPartition, int]) -> None:
        """The seal is not proved once more either."""

    monkeypatch.setattr(drain, "seal", no_seal)
    assert play() == [], "what comes after the seal holds alone, too"
    monkeypatch.setattr(drain, "SEALED", {})
    monkeypatch.setattr(drain, "_moved_on", believe)
    assert any("acknowledged after the end was read" in each for each in play())


def test_a_drain_that_ignores_gaps_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def ignoring_gaps(
        bases: Mapping[TopicPartition, int], starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> int:
        return 0 if any(base >= 0 for base in bases.values()) else 1

    monkeypatch.setattr(surveys, "records_left", ignoring_gaps)
    assert any("indexer has" in each for each in play())
