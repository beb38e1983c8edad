"""The API as callers see it: bare Join streams with good and bad messages, groups, lists, explanations."""

from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2, join_pb2
from braid.kernel.errors import (
    AlreadyExists,
    BraidError,
    Conflict,
    DeadlineExceeded,
    Exhausted,
    Invalid,
    LeaseLost,
    NotFound,
    NotLeader,
    Refused,
    Unavailable,
    Unsupported,
)
from braid.kernel.ports import CallOptions
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.methods import method_path
from services.assigner.liveness.sent_leases import SentLeases
from tests.support.garbage import Garbage
from tests.support.virtual_time import run_virtual
from tests.unit.assigner.mesh import Mesh, Wire, granted, revoked

T = TypeVar("T")


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs a test on virtual time."""
    run_virtual(work)


def spec(**fields: Any) -> group_pb2.GroupSpec:
    """A spec of the group `indexer`, with some fields changed."""
    return group_pb2.GroupSpec(**{"streams": ["logs"], **fields})


async def call(mesh: Mesh, method: str, request: object, answer: type[T], request_id: str = "") -> T:
    """Calls the leader."""
    return await mesh.client("cli").unary(method, request, answer, timeout_seconds=8, request_id=request_id)


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


# --- groups


def test_groups_are_created_read_updated_and_deleted() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start(channels=["logs/live/1", "logs/bulk/1", "logs/dlq/1"])
        create = api.CreateGroupRequest(name="indexer", spec=spec(lanes={"live": 2}))
        made = await call(mesh, "CreateGroup", create, group_pb2.Group, "r-1")
        assert (made.name, made.etag, dict(made.spec.lanes), made.spec.lease_ms) == ("indexer", "1", {"live": 2}, 3_000)
        assert (await call(mesh, "CreateGroup", create, group_pb2.Group, "r-1")).etag == "1"
        with pytest.raises(AlreadyExists):
            await call(mesh, "CreateGroup", create, group_pb2.Group)
        with pytest.raises(Invalid):
            await call(mesh, "CreateGroup", api.CreateGroupRequest(name="NO", spec=spec()), group_pb2.Group)
        with pytest.raises(NotFound):
            await call(
                mesh, "CreateGroup", api.CreateGroupRequest(name="x", spec=spec(streams=["no"])), group_pb2.Group
            )
        await mesh.until(lambda: mesh.state().channels["logs/live/1"].start is not None)
        change = group_pb2.GroupSpec(lanes={"bulk": 1, "live": 1})
        update = api.UpdateGroupRequest(name="indexer", spec=change, etag="1")
        updated = await call(mesh, "UpdateGroup", update, group_pb2.Group)
        assert (updated.etag, dict(updated.spec.lanes), updated.status.leases) == ("2", {"bulk": 1, "live": 1}, 8)
        with pytest.raises(Conflict):
            await call(mesh, "UpdateGroup", update, group_pb2.Group)
        with pytest.raises(Refused):
            latest = group_pb2.GroupSpec(start=group_pb2.StartPosition(latest=True))
            await call(mesh, "UpdateGroup", api.UpdateGroupRequest(name="indexer", spec=latest), group_pb2.Group)
        with pytest.raises(Invalid):
            await call(mesh, "UpdateGroup", api.UpdateGroupRequest(name="indexer"), group_pb2.Group)
        got = await call(mesh, "GetGroup", api.GetGroupRequest(name="indexer"), group_pb2.Group)
        assert got.status.idle_since_ms > 0
        deleted = await call(mesh, "DeleteGroup", api.DeleteGroupRequest(name="indexer"), group_pb2.Group, "r-2")
        assert deleted.name == "indexer"
        assert (await call(mesh, "DeleteGroup", api.DeleteGroupRequest(name="indexer"), group_pb2.Group, "r-2")).name
        with pytest.raises(NotFound):
            await call(mesh, "GetGroup", api.GetGroupRequest(name="indexer"), group_pb2.Group)

    run(scenario())


def test_lists_page_and_filter() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start(channels=["logs/live/1", "logs/live/10", "logs/live/9", "logs/dlq/1"])
        for name in ("a", "b", "c"):
            lanes = {"dlq": 1} if name == "c" else {}
            create = api.CreateGroupRequest(name=name, spec=spec(lanes=lanes, fencing=group_pb2.FENCING_NONE))
            await call(mesh, "CreateGroup", create, group_pb2.Group)
        found: list[str] = []
        token = ""
        while True:
            request = api.ListGroupsRequest(page_size=2, page_token=token)
            page = await call(mesh, "ListGroups", request, api.ListGroupsResponse)
            assert len(page.groups) <= 2
            found += [group.name for group in page.groups]
            token = page.next_page_token
            if not token:
                break
        assert found == ["a", "b", "c"]
        for lane, names in (("live", ["a", "b"]), ("dlq", ["c"]), ("", ["a", "b", "c"])):
            request = api.ListGroupsRequest(stream="logs", lane=lane)
            page = await call(mesh, "ListGroups", request, api.ListGroupsResponse)
            assert [group.name for group in page.groups] == names
            assert page.revision > 0
        await Wire(mesh).hello(group="a", client_id="web")
        await mesh.until(lambda: len([x for x in mesh.state("a").leases.values() if x.holder]) == 12)
        leases = await call(mesh, "ListLeases", api.ListLeasesRequest(group="a"), api.ListLeasesResponse)
        assert [lease.name for lease in leases.leases] == [f"logs/live/{g}/{n}" for g in (1, 9, 10) for n in range(4)]
        assert {lease.member_client_id for lease in leases.leases} == {"web"}
        free = await call(mesh, "ListLeases", api.ListLeasesRequest(group="b"), api.ListLeasesResponse)
        assert {lease.state for lease in free.leases} == {group_pb2.LEASE_STATE_FREE}
        members = (await call(mesh, "ListMembers", api.ListMembersRequest(), api.ListMembersResponse)).members
        assert [(m.client_id, m.leases, m.state) for m in members] == [("web", 12, group_pb2.MEMBER_STATE_LIVE)]
        with pytest.raises(Invalid):
            await call(mesh, "ListLeases", api.ListLeasesRequest(page_size=-1), api.ListLeasesResponse)
        with pytest.raises(NotFound):
            await call(mesh, "ListMembers", api.ListMembersRequest(group="none"), api.ListMembersResponse)

    run(scenario())


def test_a_lease_is_explained_from_the_history() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        wire = Wire(mesh)
        await wire.hello(client_id="web-1")
        await wire.next("delta")
        await mesh.host.clock.sleep(1)
        between = mesh.host.clock.now_ms()
        await mesh.host.clock.sleep(1)
        other = Wire(mesh, "other")
        await other.hello(client_id="web-2")
        (lease, epoch, _), *_ = revoked(await wire.next("delta"))
        await wire.give_back([(lease, epoch)])
        await other.next("delta")
        told = await call(mesh, "ExplainLease", api.ExplainLeaseRequest(lease=lease), api.ExplainLeaseResponse)
        texts = [reason.text for reason in told.reasons]
        assert [text.split(" (")[0].split(":")[0] for text in texts] == [
            "The group was registered for logs, beginning at the earliest records",
            "Channel logs/live/1 on east is to be consumed, as of registry revision 101",
            f"The group's start in partition {lease[-1]} was fixed at offset 0",
            "Granted to web-1",
            "Revoked from web-1",
            "web-1",
            "Granted to web-2",
        ]
        assert told.lease.member_client_id == "web-2"
        assert all(reason.metadata.leader_epoch and reason.metadata.actor for reason in told.reasons)
        assert told.reasons[0].history == "assigner/group/indexer"
        past = api.ExplainLeaseRequest(lease=lease, group="indexer", at_ms=between)
        then = await call(mesh, "ExplainLease", past, api.ExplainLeaseResponse)
        assert then.lease.member_client_id == "web-1"
        assert len(then.reasons) == 4
        for bad, error in (("logs/live/1", Invalid), ("logs/live/7/1", NotFound), ("logs/live/1/99", NotFound)):
            with pytest.raises(error):
                await call(mesh, "ExplainLease", api.ExplainLeaseRequest(lease=bad), api.ExplainLeaseResponse)

    run(scenario())


# --- channels


def test_a_channel_is_closed_in_every_group_once_it_is_drained() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        wire = Wire(mesh)
        await wire.hello()
        await wire.next("delta")
        close = api.CloseChannelRequest(channel="logs/live/1", registry_revision=mesh.registry.revision)
        with pytest.raises(Refused):
            await call(mesh, "CloseChannel", close, api.CloseChannelResponse)
        mesh.registry.set("logs/live/1", state="DRAINED")
        (lost, *_) = revoked(await wire.next("delta"))
        assert lost[2] == 0
        close.registry_revision = mesh.registry.revision
        closed = await call(mesh, "CloseChannel", close, api.CloseChannelResponse, "r-1")
        assert closed.revision > 0
        assert mesh.state().channels["logs/live/1"].closed
        assert (await call(mesh, "CloseChannel", close, api.CloseChannelResponse, "r-1")).revision == closed.revision
        close.registry_revision += 100  # views move on only when a channel changes
        await call(mesh, "CloseChannel", close, api.CloseChannelResponse)
        mesh.channel("logs/live/2")
        await mesh.until(lambda: "logs/live/2" in mesh.state().channels)
        with pytest.raises(Unavailable):
            close.channel = "logs/live/2"
            await call(mesh, "CloseChannel", close, api.CloseChannelResponse)
        close.channel = "nonsense"
        with pytest.raises(Invalid):
            await call(mesh, "CloseChannel", close, api.CloseChannelResponse)

    run(scenario())


def test_sent_leases_are_kept_by_cluster_under_the_newest_epoch() -> None:
    sent = SentLeases()
    sent.add("a/0", 1, "east")
    sent.add("a/1", 2, "east")
    sent.add("b/0", 3, "west")
    sent.drop("b/0", 2)  # late
    sent.drop("c/0", 1)  # never sent
    assert (sent.on("east"), sent.on("west")) == ({"a/0": 1, "a/1": 2}, {"b/0": 3})
    sent.add("a/1", 4, "west")
    sent.drop("a/0", 1)
    assert (set(sent.clusters), sent.on("east"), sent.on("west")) == ({"west"}, {}, {"b/0": 3, "a/1": 4})
