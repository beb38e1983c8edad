"""Two operations on one stream: one after the other, each whole, or refused with the reason."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1 import stream_pb2
from braid.kernel.decider import Context
from braid.kernel.errors import BraidError, Conflict, Refused
from services.registry.domain.streams import StreamDecider
from services.registry.model.channels import Channel, ChannelRef, ChannelState, ChannelWeight
from services.registry.model.stream_commands import MoveTraffic
from services.registry.model.streams import Stream, StreamSpec
from tests.support.virtual_time import run_virtual
from tests.unit.registry.mesh import Mesh, two_clusters

DRAINING = stream_pb2.CHANNEL_STATE_DRAINING
Scene = Callable[[Mesh], Coroutine[Any, Any, None]]


def play(scene: Scene) -> None:
    async def run() -> None:
        mesh = Mesh()
        await two_clusters(mesh)
        await mesh.create_cluster("north")
        await mesh.create_cluster("south")
        await mesh.create_stream("logs2", clusters=["east", "west", "north", "south"])
        await scene(mesh)

    run_virtual(run())


async def move(mesh: Mesh, **order: object) -> api.MoveStreamResponse:
    request = api.MoveStreamRequest(stream="logs2", lanes=["live"], **order)  # type: ignore[arg-type]
    return await mesh.client.unary("MoveStream", request, api.MoveStreamResponse)


def test_two_moves_at_once_happen_one_after_the_other() -> None:
    async def scene(mesh: Mesh) -> None:
        before = await mesh.stream("logs2")
        answers = await asyncio.gather(move(mesh, to_cluster="north"), move(mesh, to_cluster="south"))
        after = await mesh.stream("logs2")
        assert after.status.route_revision == before.status.route_revision + 2
        first, second = (each.moves[0] for each in sorted(answers, key=lambda each: each.stream.status.route_revision))
        assert list(first.from_channels) == [_live(before)]
        assert list(second.from_channels) == [first.to_channel], "it leaves what the first one took"
        assert _live(after) == second.to_channel
        draining = [each.name for each in after.status.channels if each.state == DRAINING and each.lane == "live"]
        assert draining == sorted([_live(before), first.to_channel])

    play(scene)


def _live(stream: stream_pb2.Stream) -> str:
    """The one channel that takes lane live."""
    (name,) = [each.name for each in stream.status.channels if each.lane == "live" and each.weight]
    return name


def test_growing_and_shrinking_at_once_end_with_one_shape() -> None:
    async def scene(mesh: Mesh) -> None:
        await asyncio.gather(*(move(mesh, to_cluster="east", partitions=count) for count in (8, 1)))
        stream = await mesh.stream("logs2")
        active = await mesh.channel(_live(stream))
        assert active.partitions == stream.spec.lanes["live"].partitions
        assert active.partitions in (8, 1)

    play(scene)


def test_a_move_told_twice_moves_once() -> None:
    async def scene(mesh: Mesh) -> None:
        before = (await mesh.stream("logs2")).status.route_revision
        answers = await asyncio.gather(move(mesh, to_cluster="west"), move(mesh, to_cluster="west"))
        assert (await mesh.stream("logs2")).status.route_revision == before + 1
        assert mesh.active(answers[1].stream) == ["west"]

    play(scene)


def test_a_move_to_a_cluster_starting_to_leave_fails_or_reverts() -> None:
    async def scene(mesh: Mesh) -> None:
        request = api.DecommissionClusterRequest(name="south")
        leaving = mesh.client.unary("DecommissionCluster", request, api.DecommissionClusterResponse)
        await asyncio.gather(move(mesh, to_cluster="south"), leaving, return_exceptions=True)
        with pytest.raises(Refused, match="cluster south takes no traffic: it is being decommissioned"):
            await move(mesh, to_cluster="south")
        await asyncio.sleep(10)
        assert (await mesh.cluster("south")).status.active_channels == 0
        assert len(mesh.active(await mesh.stream("logs2"))) == 1

    play(scene)


def test_a_plan_made_on_an_older_route_is_refused_at_the_append() -> None:
    """The last guard: whatever the shell planned, the stream's own state decides."""
    live = [ChannelRef("live", number) for number in (1, 2, 3)]
    states = (ChannelState.DRAINING, ChannelState.ACTIVE, ChannelState.STANDBY)
    channels = tuple(Channel(ref, "east", f"t.{ref}", 1, state) for ref, state in zip(live, states, strict=True))
    stream = Stream("logs", True, StreamSpec({"live": 1}), route_revision=5, channels=channels)

    def refusal(activate: ChannelRef, drain: ChannelRef) -> BraidError:
        command = MoveTraffic((ChannelWeight(activate, 1.0),), (drain,), True, "asked for")
        with pytest.raises(Conflict) as raised:
            StreamDecider().decide(stream, command, Context(0, "me"))
        assert raised.value.remedy == "plan the move again"
        return raised.value

    assert refusal(live[2], live[0]).message == "channel live/1 carries no traffic"
    assert refusal(live[0], live[1]).message == "channel live/1 of stream logs is DRAINING"
