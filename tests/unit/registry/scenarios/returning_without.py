"""A cluster that returns without its records: how a mesh gets there, and what it then says."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast

import pytest

from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1.route_pb2 import ChannelLeft, WatchRoutesRequest
from braid.api.registry.v1.stream_pb2 import (
    CHANNEL_STATE_RETIRED,
    DRAIN_STEP_GROUPS,
    FAILOVER_MODE_AUTOMATIC,
    Channel,
    FailoverMode,
    OffsetRange,
)
from braid.kernel.errors import BraidError, Refused
from braid.kernel.offset_ranges import OffsetRanges
from braid.kernel.ports import HistoryId, TopicPartition
from services.registry.model.stream_events import RecordsLost, StreamEvent
from tests.support.virtual_time import run_virtual
from tests.unit.registry.mesh import Mesh, Producer, open_producer, two_clusters

TOPIC, CHANNEL = "braid.logs.live.1", "logs/live/1"
FIRST = TopicPartition(TOPIC, 0)
RETIRED = CHANNEL_STATE_RETIRED
Scene = Callable[[Mesh], Coroutine[Any, Any, None]]


def play(scene: Scene) -> None:
    async def run() -> None:
        await scene(Mesh())

    run_virtual(run())


def named(ranges: Sequence[OffsetRange]) -> list[tuple[int, int, int]]:
    return [(each.partition, each.first, each.last) for each in ranges]


async def events(mesh: Mesh) -> list[StreamEvent]:
    """The stream's history."""
    replica = await mesh.leader()
    return [
        cast("StreamEvent", record.event)
        for record in await replica.aggregates.events(HistoryId("registry", "stream", "logs"))
    ]


async def lost(mesh: Mesh) -> list[OffsetRanges]:
    """Every loss that was told of the channel, in order."""
    found = [event for event in await events(mesh) if isinstance(event, RecordsLost)]
    return [event.ranges for event in found if event.ref == ("live", 1)]


async def filled(mesh: Mesh, failover: FailoverMode.ValueType = FAILOVER_MODE_AUTOMATIC) -> Producer:
    """Ten records on east, of which a group has done four; their producer has receipts for all."""
    await two_clusters(mesh, failover=failover)
    mesh.assigner.groups["indexer"] = False
    await mesh.append("east", TOPIC, 0, 10)
    await mesh.commit("east", "indexer", TOPIC, 4, 0)
    producer = await open_producer(mesh)
    await mesh.until(lambda: bool(producer.routes), 2, "no route")
    await producer.acknowledge(producer.routes[-1].revision)
    return producer


async def leave(mesh: Mesh, producer: Producer, next_offset: int = 10) -> None:
    """The producer follows the new route, and tells how far its receipts go."""
    await mesh.until(lambda: len(producer.routes) > 1, 15, "no new route")
    left = ChannelLeft(channel=CHANNEL, next_offsets={0: next_offset})
    await producer.call.send(WatchRoutesRequest(channel_left=left))
    await producer.acknowledge(producer.routes[-1].revision)


async def failed_over(mesh: Mesh) -> None:
    """East died, traffic is on west, the producer has left."""
    producer = await filled(mesh)
    mesh.kafka.named("east").kill()
    await leave(mesh, producer)
    await mesh.until_channel(CHANNEL, lambda channel: bool(channel.acknowledged), 5)


async def close(mesh: Mesh, *accepted: tuple[int, int, int], dry_run: bool = False) -> api.CloseChannelResponse:
    ranges = [OffsetRange(partition=partition, first=first, last=last) for partition, first, last in accepted]
    request = api.CloseChannelRequest(channel=CHANNEL, accept_loss=ranges, reason="disk is dust", dry_run=dry_run)
    return await mesh.client.unary("CloseChannel", request, api.CloseChannelResponse)


async def refusal(mesh: Mesh, *accepted: tuple[int, int, int]) -> BraidError:
    with pytest.raises(Refused) as caught:
        await close(mesh, *accepted)
    return caught.value


def is_lost(channel: Channel) -> bool:
    return bool(channel.lost)


def at_its_groups(channel: Channel) -> bool:
    return channel.drain_step == DRAIN_STEP_GROUPS
