"""The API as callers see it: bare Join streams with good and bad messages, groups, lists, explanations."""

from typing import Any

import pytest

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2, join_pb2
from braid.kernel.errors import (
    BraidError,
    DeadlineExceeded,
    Exhausted,
    Invalid,
    LeaseLost,
    NotFound,
    NotLeader,
    Unavailable,
    Unsupported,
)
from braid.kernel.ports import CallOptions
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.methods import method_path
from tests.support.garbage import Garbage
from tests.unit.assigner.mesh import Mesh, Wire, granted, revoked
from tests.unit.assigner.servicer.calls import run, spec

# --- the Join stream


def test_hello_welcome_grants_heartbeats() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        wire = Wire(mesh)
        welcome = await wire.hello(spec=spec(lease_ms=1_200))
        assert (welcome.protocol_version, welcome.lease_ms, welcome.heartbeat_ms) == (1, 1_200, 300)
        assert welcome.spec.start.earliest
        assert list(welcome.kept) == []
        delta = await wire.next("delta")
        assert delta.delta.sequence == 1
        (cluster,) = delta.delta.clusters
        assert cluster.cluster.bootstrap == "east:9092"
        assert not cluster.HasField("generation")
        assert [(each.topic, each.partition) for each in cluster.granted] == [
            ("braid.logs.live.1", n) for n in range(4)
        ]
        await wire.beat()
        assert (await wire.next("heartbeat")).heartbeat.sequence == 1

    run(scenario())


@pytest.mark.parametrize(
    ("fields", "error", "field"),
    [
        ({"group": "No Name"}, Invalid, "hello.group"),
        ({"protocol_version": 0}, Unsupported, "hello.protocol_version"),
        ({"member_id": "x"}, Invalid, "hello.member_id"),
        ({"client_id": "x" * 256}, Invalid, "hello.client_id"),
        ({"capabilities": ["x" * 256]}, Invalid, "hello.capabilities"),
        ({"spec": group_pb2.GroupSpec()}, Invalid, "spec.streams"),
        ({"spec": spec(streams=["nope"])}, NotFound, "spec.streams"),
        ({"spec": spec(lanes={"bulk": 1})}, NotFound, "spec.lanes.bulk"),
        ({"spec": spec(lease_ms=100)}, Invalid, "spec.lease_ms"),
        ({"spec": spec(ownership=7)}, Invalid, "spec.ownership"),
    ],
)
def test_a_bad_hello_is_refused_precisely(fields: dict[str, Any], error: type[BraidError], field: str) -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        with pytest.raises(error) as refused:
            await Wire(mesh).hello(**fields)
        assert refused.value.field == field
        assert mesh.state().spec is None

    run(scenario())


def test_a_hello_that_contradicts_the_group_is_refused() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start(channels=["logs/live/1", "more/live/1"])
        await Wire(mesh).hello()
        with pytest.raises(Invalid) as refused:
            await Wire(mesh, "other").hello(spec=spec(streams=["logs", "more"]))
        assert refused.value.field == "spec.streams"
        await Wire(mesh, "third").hello(spec=group_pb2.GroupSpec())  # takes the group as it is

    run(scenario())


def test_streams_that_do_not_begin_or_go_on_well_are_ended() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        early = Wire(mesh)
        await early.beat()
        assert isinstance(await early.error(), Invalid)
        twice = Wire(mesh)
        await twice.hello()
        await twice.send(join_pb2.JoinRequest(hello=join_pb2.MemberHello(group="indexer")))
        assert isinstance(await twice.error(), Invalid)
        silent = Wire(mesh)
        silent.call = await silent.client.duplex("Join", join_pb2.JoinResponse)
        assert isinstance(await silent.error(), DeadlineExceeded)
        unknown = Wire(mesh)
        await unknown.hello()
        await unknown.send(join_pb2.JoinRequest())  # of a newer release
        await unknown.beat()
        await unknown.next("heartbeat")

    run(scenario())


def test_bytes_that_are_no_message_end_one_stream_only() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        hostile, other = Wire(mesh, "hostile"), Wire(mesh)
        await hostile.hello()
        await other.hello()
        assert hostile.call is not None
        await hostile.call.send(Garbage())
        assert isinstance(await hostile.error(), Invalid)
        await other.beat()
        await other.next("heartbeat")
        assert not mesh.failures

    run(scenario())


def test_a_follower_names_the_leader() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start(assigners=2)
        channel = MemoryTransport(mesh.network, "cli").channel("assigner-1:1")
        stream = channel.duplex(method_path("assigner", "Join"), join_pb2.JoinResponse, CallOptions(5.0))
        await stream.send(join_pb2.JoinRequest(hello=join_pb2.MemberHello(protocol_version=1, group="g")))
        with pytest.raises(NotLeader) as redirect:
            await stream.receive()
        assert redirect.value.leader == "assigner-0:1"
        with pytest.raises(NotLeader):
            await channel.unary(
                method_path("assigner", "ListGroups"),
                api.ListGroupsRequest(stream="logs", lane="live"),
                api.ListGroupsResponse,
                CallOptions(5.0),
            )
        path = method_path("assigner", "ListGroups")
        assert not (await channel.unary(path, api.ListGroupsRequest(), api.ListGroupsResponse, CallOptions(5.0))).groups

    run(scenario())


def test_revoke_release_grant_survive_late_and_ghost_messages() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        one, two = Wire(mesh, "one"), Wire(mesh, "two")
        await one.hello()
        held = granted(await one.next("delta"))
        await two.hello()
        asked = revoked(await one.next("delta"))
        assert len(asked) == 2
        assert all(deadline == 30_000 for _, _, deadline in asked)
        lease, epoch, _ = asked[0]
        await one.give_back([(lease, epoch - 1), ("logs/live/1/99", 1), ("nonsense", 0)])  # late, ghostly, hostile
        await one.give_back([(lease, epoch)], waived=True)
        await one.give_back([(lease, epoch)], waived=True)
        (regranted,) = granted(await two.next("delta"))
        assert regranted[0] == lease
        assert regranted[1] > max(e for _, e in held)
        await two.give_back([(lease, epoch)])  # an epoch it never had
        await two.beat()
        await two.next("heartbeat")
        assert mesh.state().leases[lease].epoch == regranted[1]

    run(scenario())


def test_an_expired_members_stream_ends_and_it_may_join_again() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        wire = Wire(mesh)
        welcome = await wire.hello(spec=spec(lease_ms=500))
        held = granted(await wire.next("delta"))
        assert isinstance(await wire.error(2.0), LeaseLost)
        again = Wire(mesh)
        rejoined = await again.hello(
            member_id=welcome.member_id, held=[join_pb2.HeldLease(lease=n, epoch=e) for n, e in held]
        )
        assert (rejoined.member_id, list(rejoined.kept)) == (welcome.member_id, [])
        assert min(epoch for _, epoch in granted(await again.next("delta"))) > max(epoch for _, epoch in held)

    run(scenario())


def test_a_members_newer_stream_replaces_one_and_keeps_leases() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        old = Wire(mesh)
        welcome = await old.hello()
        held = granted(await old.next("delta"))
        new = Wire(mesh)
        kept = [join_pb2.HeldLease(lease=n, epoch=e) for n, e in held[1:]]
        again = await new.hello(member_id=welcome.member_id, held=kept)
        assert list(again.kept) == kept
        assert isinstance(await old.error(), LeaseLost)
        (regranted,) = granted(await new.next("delta"))  # what it did not name was free, and is its own anew
        assert regranted[0] == held[0][0]
        assert regranted[1] > held[0][1]

    run(scenario())


def test_a_rejoin_is_told_of_a_revoke_under_way() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start(assigners=2)
        one = Wire(mesh, "one")
        welcome = await one.hello()
        held = granted(await one.next("delta"))
        two = Wire(mesh, "two")
        await two.hello()
        asked = revoked(await one.next("delta"))
        mesh.processes[(await mesh.leader()).instance].kill()
        await mesh.leader()
        again = Wire(mesh, "one")
        rejoined = await again.hello(
            member_id=welcome.member_id, held=[join_pb2.HeldLease(lease=n, epoch=e) for n, e in held]
        )
        assert len(rejoined.kept) == 4
        told = revoked(await again.next("delta"))
        assert [each[:2] for each in told] == [each[:2] for each in asked]
        assert all(0 < deadline < 30_000 for _, _, deadline in told)

    run(scenario())


def test_a_member_that_does_not_read_is_shed() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        wire = Wire(mesh)
        await wire.hello()
        with pytest.raises((Exhausted, Unavailable)):
            for _ in range(3_000):
                await wire.beat()
            await wire.error()
            raise Unavailable("it was shed")
        await mesh.until(lambda: not mesh.state().members)

    run(scenario())


def test_leave_and_close_end_the_membership() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        wire = Wire(mesh)
        await wire.hello()
        await wire.send(join_pb2.JoinRequest(leave=join_pb2.Leave(reason="deploy")))
        assert wire.call is not None
        while (await wire.call.receive()) is not None:
            pass  # ends well
        await mesh.until(lambda: not mesh.state().members, 1)
        other = Wire(mesh)
        await other.hello()
        assert other.call is not None
        await other.call.close()
        await mesh.until(lambda: not mesh.state().members, 1)

    run(scenario())


def test_a_join_fails_without_a_registry_and_waits_for_streams() -> None:
    async def scenario() -> None:
        mesh = Mesh()
        await mesh.replica("registry-0")
        await mesh.replica("assigner-0")
        await mesh.leader()
        mesh.processes["registry-0"].kill()
        with pytest.raises(Unavailable):
            await Wire(mesh).hello(spec=spec(streams=["unheard"]))

    run(scenario())
