"""Ordered streams: which channel waits for which, what would break the order, and how a person goes on without."""

import asyncio
from dataclasses import replace

import pytest

from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1 import stream_pb2
from braid.kernel.errors import Invalid, Refused
from services.registry.model.channels import Channel, ChannelRef, ChannelWeight
from services.registry.model.stream_commands import MoveTraffic, ReleaseChannel, UpdateStream
from services.registry.model.stream_events import ChannelReleased
from services.registry.policy.moves import MoveOrder
from services.registry.policy.shares import plan_shares
from services.registry.policy.world import World
from tests.support.virtual_time import run_virtual
from tests.unit.registry.histories import LOGS, StreamHistory, cluster, created, provision
from tests.unit.registry.mesh import DRAINED, Mesh, two_clusters

ORDERED = replace(LOGS, ordered=True)


def move(history: StreamHistory, cluster: str, *, lane: str = "live") -> Channel:
    """Moves a lane there; returns the channel that carries it now."""
    old = [each.ref for each in history.state.active(lane)]
    ref = provision(history, lane, cluster, history.state.spec.lanes[lane])
    history.run(MoveTraffic((ChannelWeight(ref, 1.0),), tuple(old), True, "asked for"))
    return history.state.channel(ref)


def waits(history: StreamHistory, lane: str = "live") -> dict[int, list[int]]:
    """By generation, the generations it waits for."""
    channels = [each for each in history.state.channels if each.ref.lane == lane]
    found = {each.ref.generation: [a.ref.generation for a in history.state.waits_for(each)] for each in channels}
    return {generation: others for generation, others in found.items() if others}


def test_each_channel_waits_for_all_that_left_the_route_before() -> None:
    history = created(ORDERED)
    for name in ("west", "east"):
        move(history, name)
    assert waits(history) == {2: [1], 3: [1, 2]}


def test_nothing_waits_in_unordered_streams_or_dead_letters() -> None:
    history = created(LOGS)
    move(history, "west")
    assert waits(history) == {}
    ordered = created(ORDERED)
    move(ordered, "west", lane="dlq")
    assert waits(ordered, "dlq") == {}


def test_a_person_releases_one_channel_and_only_one_that_waits() -> None:
    history = created(ORDERED)
    move(history, "west")
    move(history, "east")
    release = ReleaseChannel(ChannelRef("live", 2), "away for days")
    assert history.run(release) == [ChannelReleased(ChannelRef("live", 2), "away for days")]
    assert history.run(release) == []
    assert waits(history) == {3: [1, 2]}
    with pytest.raises(Refused, match="waits for no other"):
        history.run(ReleaseChannel(ChannelRef("live", 1), ""))


def test_a_lane_that_keeps_its_order_is_on_one_channel() -> None:
    history = created(ORDERED)
    ref = provision(history, "live", "west", 4)
    with pytest.raises(Refused, match="would be on 2 channels"):
        history.run(MoveTraffic((ChannelWeight(ref, 1.0),), (), True, "spread"))
    world = World(0, {name: cluster(name) for name in ("east", "west")}, {"logs": history.state})
    with pytest.raises(Refused) as refused:
        plan_shares(world, history.state, MoveOrder(("live",), "west", percent=10.0))
    assert refused.value.field == "percent"


def test_a_stream_on_two_channels_cannot_become_ordered() -> None:
    history = created(LOGS)
    ref = provision(history, "live", "west", 4)
    history.run(MoveTraffic((ChannelWeight(ref, 1.0),), (), True, "spread"))
    with pytest.raises(Refused) as refused:
        history.run(UpdateStream(replace(history.state.spec, ordered=True)))
    assert refused.value.field == "spec.ordered"


async def moved_with_a_group_behind() -> Mesh:
    """An ordered stream moved to west while a group has a record left on east."""
    mesh = Mesh()
    await two_clusters(mesh, ordered=True)
    mesh.assigner.groups["indexer"] = False
    await mesh.append("east", "braid.logs.live.1", 0)
    await mesh.move(to_cluster="west", lanes=["live"])
    return mesh


def test_what_waits_is_told_until_the_old_channel_is_drained() -> None:
    async def scenario() -> None:
        mesh = await moved_with_a_group_behind()
        assert (await mesh.channel("logs/live/2")).waits_for == ["logs/live/1"]
        await asyncio.sleep(30.0)
        assert (await mesh.channel("logs/live/2")).waits_for == ["logs/live/1"]
        await mesh.commit("east", "indexer", "braid.logs.live.1", 1, 0)
        await mesh.until_channel("logs/live/1", lambda channel: channel.state == DRAINED, 10.0)
        assert (await mesh.channel("logs/live/2")).waits_for == []

    run_virtual(scenario())


def test_the_order_of_a_lanes_channels_is_told_beside_them() -> None:
    async def scenario() -> None:
        mesh = await moved_with_a_group_behind()
        old, new = await mesh.channel("logs/live/1"), await mesh.channel("logs/live/2")
        assert old.left_revision > 0
        assert (new.left_revision, old.in_order, new.in_order) == (0, True, True)
        await mesh.client.unary("ReleaseChannel", api.ReleaseChannelRequest(channel=new.name), stream_pb2.Channel)
        assert not (await mesh.channel(new.name)).in_order
        assert not old.retiring

    run_virtual(scenario())


def test_what_a_person_released_waits_no_more() -> None:
    async def scenario() -> None:
        mesh = await moved_with_a_group_behind()
        request = api.ReleaseChannelRequest(channel="logs/live/2", reason="east is away for days")
        assert (await mesh.client.unary("ReleaseChannel", request, stream_pb2.Channel)).waits_for == []
        assert (await mesh.channel("logs/live/1")).state != DRAINED
        with pytest.raises(Invalid, match="is no channel"):
            await mesh.client.unary("ReleaseChannel", api.ReleaseChannelRequest(channel="logs"), stream_pb2.Channel)

    run_virtual(scenario())
