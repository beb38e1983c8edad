"""Requests: each bad one gets a precise error and changes nothing; repeats happen once; lists page; watches follow."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from braid.api.registry.v1 import cluster_pb2, route_pb2, stream_pb2, witness_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.kernel.errors import (
    AlreadyExists,
    BraidError,
    ClusterAutoCreatesTopics,
    ClusterUnavailable,
    Conflict,
    Exhausted,
    FailoverBlocked,
    Invalid,
    NotFound,
    NotLeader,
    Refused,
    Unsupported,
)
from braid.kernel.limits.registry.resources import WATCH_MESSAGE_BYTES_MAX
from braid.kernel.ports import CallOptions
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.methods import method_path
from tests.support.virtual_time import run_virtual
from tests.unit.registry.mesh import ACTIVE, DRAINED, STANDBY, Mesh, open_producer, two_clusters

Scene = Callable[[Mesh], Coroutine[Any, Any, None]]


def play(scene: Scene) -> None:
    async def run() -> None:
        await scene(Mesh())

    run_virtual(run())


async def refused(call: Coroutine[Any, Any, object], error: type[BraidError], field: str) -> BraidError:
    with pytest.raises(error) as raised:
        await call
    assert raised.value.field == field
    return raised.value


def live(partitions: int) -> dict[str, stream_pb2.LaneSpec]:
    return {"live": stream_pb2.LaneSpec(partitions=partitions)}


def test_bad_clusters_are_refused_by_field() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        create = mesh.client.unary

        async def cluster(name: str, bootstrap: str, **spec: object) -> cluster_pb2.Cluster:
            declared = cluster_pb2.ClusterSpec(bootstrap=bootstrap, **spec)  # type: ignore[arg-type]
            request = api.CreateClusterRequest(name=name, spec=declared)
            return await create("CreateCluster", request, cluster_pb2.Cluster, timeout_seconds=20)

        await refused(cluster("North!", "north:9092"), Invalid, "name")
        await refused(cluster("north", "north"), Invalid, "spec.bootstrap")
        await refused(cluster("north", "nowhere:9092"), ClusterUnavailable, "spec.bootstrap")
        mesh.kafka.add_cluster("auto", auto_creates_topics=True)
        await refused(cluster("auto", "auto:9092"), ClusterAutoCreatesTopics, "spec.allow_auto_create_topics")
        await refused(cluster("again", "east:9092"), AlreadyExists, "spec.bootstrap")
        mesh.kafka.add_cluster("other")
        await refused(cluster("east", "other:9092"), AlreadyExists, "name")
        assert (await cluster("auto", "auto:9092", allow_auto_create_topics=True)).status.kafka_cluster_id
        listed = await create("ListClusters", api.ListClustersRequest(), api.ListClustersResponse)
        assert [each.name for each in listed.clusters] == ["auto", "east", "west"]

    play(scene)


def test_bad_streams_are_refused_by_field_and_leave_nothing() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)

        async def stream(name: str = "more", **spec: object) -> stream_pb2.Stream:
            declared = stream_pb2.StreamSpec(**{"lanes": live(1), **spec})  # type: ignore[arg-type]
            return await mesh.client.unary(
                "CreateStream", api.CreateStreamRequest(name=name, spec=declared), stream_pb2.Stream
            )

        await refused(stream("logs"), AlreadyExists, "name")
        await refused(stream("a/b"), Invalid, "name")
        await refused(stream(lanes={}), Invalid, "spec.lanes")
        await refused(stream(lanes=live(0)), Invalid, "spec.lanes.live.partitions")
        await refused(stream(lanes=live(99_999)), Invalid, "spec.lanes.live.partitions")
        await refused(stream(clusters=["north"]), Invalid, "spec.clusters[0]")
        await refused(stream(replication_factor=3), Invalid, "spec.replication_factor")
        await refused(stream(failover=9), Invalid, "spec.failover")
        await refused(stream(topic_config={"no.such": "1"}), Invalid, "spec.topic_config.no.such")
        listed = await mesh.client.unary("ListStreams", api.ListStreamsRequest(), api.ListStreamsResponse)
        assert [each.name for each in listed.streams] == ["logs"]

    play(scene)


def test_what_kafka_refuses_is_undone() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        spec = stream_pb2.StreamSpec(lanes=live(1), topic_config={"compression.gzip.level": "1"})  # unknown to the twin
        request = api.CreateStreamRequest(name="more", spec=spec)
        call = mesh.client.unary("CreateStream", request, stream_pb2.Stream)
        error = await refused(call, Invalid, "spec.topic_config")
        assert "compression.gzip.level" in error.message
        with pytest.raises(NotFound):
            await mesh.stream("more")
        assert mesh.active(await mesh.create_stream("more")) == ["west"], "the name is free again"

    play(scene)


def test_a_stream_needs_a_cluster_that_takes_it() -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.start_registry("registry-0")
        await refused(mesh.create_stream(), FailoverBlocked, "spec.clusters")
        await mesh.create_cluster("east")
        cordon = api.CordonClusterRequest(name="east", cordoned=True)
        assert (await mesh.client.unary("CordonCluster", cordon, cluster_pb2.Cluster)).status.cordoned
        error = await refused(mesh.create_stream(), FailoverBlocked, "spec.clusters")
        assert "east is cordoned" in error.message

    play(scene)


def test_dry_runs_change_nothing() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        spec = stream_pb2.StreamSpec(lanes=live(3))
        request = api.CreateStreamRequest(name="more", spec=spec, dry_run=True)
        seen = await mesh.client.unary("CreateStream", request, stream_pb2.Stream)
        assert seen.spec.lanes["dlq"].partitions == 1 and seen.spec.retention_hours == 168
        with pytest.raises(NotFound):
            await mesh.stream("more")
        before = await mesh.stream()
        planned = await mesh.move(to_cluster="west", lanes=["live"], partitions=6, dry_run=True)
        assert [(each.to_channel, each.partitions) for each in planned.moves] == [("", 6)]
        assert (await mesh.stream()).status.route_revision == before.status.route_revision

    play(scene)


def test_moves_are_refused_by_field() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        await refused(mesh.move(), Invalid, "to_cluster")
        await refused(mesh.move(to_cluster="north"), NotFound, "to_cluster")
        await refused(mesh.move(to_cluster="west", lanes=["nightly"]), Invalid, "lanes")
        request = api.MoveStreamRequest(stream="nothing", to_cluster="west")
        await refused(mesh.client.unary("MoveStream", request, api.MoveStreamResponse), NotFound, "stream")

    play(scene)


def test_a_lane_grows_by_a_move_that_loses_nothing() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        answer = await mesh.move(to_cluster="east", lanes=["live"], partitions=5)
        assert [(each.to_cluster, each.partitions) for each in answer.moves] == [("east", 5)]
        assert answer.stream.spec.lanes["live"].partitions == 5
        await asyncio.sleep(65)
        spares = [
            each for each in (await mesh.stream()).status.channels if each.lane == "live" and each.state == STANDBY
        ]
        assert [(each.cluster, each.partitions) for each in spares] == [("west", 5)]

    play(scene)


def test_a_repeated_request_happens_once() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        request = api.CreateStreamRequest(name="more", spec=stream_pb2.StreamSpec(lanes=live(1)))
        first = await mesh.client.unary("CreateStream", request, stream_pb2.Stream, request_id="r1")
        again = await mesh.client.unary("CreateStream", request, stream_pb2.Stream, request_id="r1")
        assert first.create_time_ms == again.create_time_ms
        with pytest.raises(AlreadyExists):
            await mesh.client.unary("CreateStream", request, stream_pb2.Stream, request_id="r2")

    play(scene)


def test_updates_are_guarded_and_reach_the_topics() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        await asyncio.sleep(1)
        stream = await mesh.stream()
        stream.spec.retention_hours = 2
        request = api.UpdateStreamRequest(name="logs", spec=stream.spec, etag=stream.etag)
        await mesh.client.unary("UpdateStream", request, stream_pb2.Stream)
        with pytest.raises(Conflict):
            await mesh.client.unary("UpdateStream", request, stream_pb2.Stream)
        await asyncio.sleep(1)
        wanted = str((2 + 14 * 24) * 3_600_000)
        assert mesh.kafka.named("east").topic_config("braid.logs.live.1")["retention.ms"] == wanted

    play(scene)


def test_a_cluster_in_use_stays_until_it_is_empty() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        delete = api.DeleteClusterRequest(name="east")
        await refused(mesh.client.unary("DeleteCluster", delete, cluster_pb2.Cluster), Refused, "name")
        await mesh.create_cluster("north")
        request = api.DeleteClusterRequest(name="north")
        await mesh.client.unary("DeleteCluster", request, cluster_pb2.Cluster)
        with pytest.raises(NotFound):
            await mesh.client.unary("GetCluster", api.GetClusterRequest(name="north"), cluster_pb2.Cluster)

    play(scene)


def test_a_cluster_moves_to_another_address_only_as_itself() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        mesh.kafka.add_cluster("other")
        spec = cluster_pb2.ClusterSpec(bootstrap="other:9092")
        request = api.UpdateClusterRequest(name="east", spec=spec)
        await refused(mesh.client.unary("UpdateCluster", request, cluster_pb2.Cluster), Refused, "spec.bootstrap")
        spec = cluster_pb2.ClusterSpec(bootstrap="east:9092", zone="z")
        request = api.UpdateClusterRequest(name="east", spec=spec)
        assert (await mesh.client.unary("UpdateCluster", request, cluster_pb2.Cluster)).spec.zone == "z"

    play(scene)


def test_lists_page_through_everything_once() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        await mesh.create_stream("more", clusters=["east", "west"])
        names: list[str] = []
        token = ""
        while True:
            request = api.ListChannelsRequest(page_size=3, page_token=token)
            answer = await mesh.client.unary("ListChannels", request, api.ListChannelsResponse)
            names += [channel.name for channel in answer.channels]
            assert len(answer.channels) <= 3
            token = answer.next_page_token
            if not token:
                break
        assert len(names) == len(set(names)) >= 6
        request = api.ListChannelsRequest(page_size=-1)
        await refused(mesh.client.unary("ListChannels", request, api.ListChannelsResponse), Invalid, "page_size")

    play(scene)


def test_followers_read_and_send_writers_to_the_leader() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh, registries=2)
        leader = await mesh.leader()
        await asyncio.sleep(1)
        follower = next(each for name, each in mesh.replicas.items() if name.startswith("reg") and each is not leader)
        channel = MemoryTransport(mesh.network, "test").channel(follower.address)
        options = CallOptions(5.0, "r1")
        get = api.GetStreamRequest(name="logs")
        found = await channel.unary(method_path("registry", "GetStream"), get, stream_pb2.Stream, options)
        assert mesh.active(found) == ["east"]
        delete = api.DeleteStreamRequest(name="logs")
        with pytest.raises(NotLeader) as told:
            await channel.unary(method_path("registry", "DeleteStream"), delete, stream_pb2.Stream, options)
        assert told.value.leader == leader.address

    play(scene)


def test_a_watch_lists_all_channels_then_what_changes() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        await asyncio.sleep(1)
        seen: list[route_pb2.WatchChannelsResponse] = []
        request = route_pb2.WatchChannelsRequest(protocol_version=1)

        async def watch() -> None:
            async for message in mesh.client.server_stream("WatchChannels", request, route_pb2.WatchChannelsResponse):
                seen.append(message)

        task = mesh.me.host.tasks.spawn(watch(), "watch")
        await mesh.until(lambda: bool(seen), 2, "nothing seen")
        assert seen[0].full and len(seen[0].channels) == 4 and len(seen[0].clusters) == 2
        await mesh.move(to_cluster="west")
        await asyncio.sleep(2)
        task.cancel()
        assert not any(message.full for message in seen[1:])
        revisions = [message.revision for message in seen if message.channels]
        assert revisions == sorted(set(revisions))
        latest = {channel.name: channel for message in seen for channel in message.channels}
        assert latest["logs/live/1"].state == DRAINED and latest["logs/live/2"].state == ACTIVE

    play(scene)


def test_streams_open_with_a_version_and_a_hello() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        unknown = await open_producer(mesh, stream="nothing")
        await mesh.until(lambda: unknown.ended, 2, "goes on")
        assert isinstance(unknown.error, NotFound)
        nameless = await open_producer(mesh, id="")
        await mesh.until(lambda: nameless.ended, 2, "goes on")
        assert isinstance(nameless.error, Invalid)
        request = route_pb2.WatchChannelsRequest(protocol_version=99)
        with pytest.raises(Unsupported):
            async for _ in mesh.client.server_stream("WatchChannels", request, route_pb2.WatchChannelsResponse):
                raise AssertionError("a message came")

    play(scene)


@pytest.mark.parametrize("rpc", ["WatchRoutes", "WatchClusters"])
def test_a_message_on_a_watch_that_is_too_large_ends_it(rpc: str) -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        large = route_pb2.ReachAnswer(cluster="x" * WATCH_MESSAGE_BYTES_MAX)
        message, response = {
            "WatchRoutes": (route_pb2.WatchRoutesRequest(reach=large), route_pb2.WatchRoutesResponse),
            "WatchClusters": (witness_pb2.WatchClustersRequest(reach=large), witness_pb2.WatchClustersResponse),
        }[rpc]
        call = await mesh.client.duplex(rpc, response)
        with pytest.raises(Exhausted, match=f"exceeds {WATCH_MESSAGE_BYTES_MAX}"):
            await call.send(message)
            await call.receive()

    play(scene)
