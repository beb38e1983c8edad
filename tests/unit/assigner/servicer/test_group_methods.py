"""RPCs about groups, leases and channels, as callers meet them."""

from typing import TypeVar

import pytest

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2
from braid.kernel.capabilities import SPARK
from braid.kernel.errors import (
    AlreadyExists,
    Conflict,
    Invalid,
    NotFound,
    Refused,
    Unavailable,
)
from services.assigner.liveness.sent_leases import SentLeases
from tests.unit.assigner.mesh import Mesh, Wire, revoked
from tests.unit.assigner.servicer.calls import run, spec

T = TypeVar("T")


async def call(mesh: Mesh, method: str, request: object, answer: type[T], request_id: str = "") -> T:
    """Calls the leader."""
    return await mesh.client("cli").unary(method, request, answer, timeout_seconds=8, request_id=request_id)


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
        named = api.ListGroupsRequest(names=["c", "none", "a", "c"], page_size=1)
        assert [group.name for group in (await call(mesh, "ListGroups", named, api.ListGroupsResponse)).groups] == ["a"]
        with pytest.raises(Invalid):
            await call(mesh, "ListGroups", api.ListGroupsRequest(names=["a"] * 1_001), api.ListGroupsResponse)
        named.page_token = "a"
        assert [group.name for group in (await call(mesh, "ListGroups", named, api.ListGroupsResponse)).groups] == ["c"]
        await Wire(mesh).hello(group="a", client_id="web")
        await mesh.until(lambda: len([x for x in mesh.state("a").leases.values() if x.holder]) == 12)
        leases = await call(mesh, "ListLeases", api.ListLeasesRequest(group="a"), api.ListLeasesResponse)
        assert [lease.name for lease in leases.leases] == [f"logs/live/{g}/{n}" for g in (1, 9, 10) for n in range(4)]
        assert {lease.member_client_id for lease in leases.leases} == {"web"}
        free = await call(mesh, "ListLeases", api.ListLeasesRequest(group="b"), api.ListLeasesResponse)
        assert {lease.state for lease in free.leases} == {group_pb2.LEASE_STATE_FREE}
        members = (await call(mesh, "ListMembers", api.ListMembersRequest(), api.ListMembersResponse)).members
        assert [(m.client_id, m.leases, m.state) for m in members] == [("web", 12, group_pb2.MEMBER_STATE_LIVE)]
        await Wire(mesh).hello(group="b", client_id="job", capabilities=[SPARK])
        queries = await call(mesh, "ListMembers", api.ListMembersRequest(spark=True), api.ListMembersResponse)
        assert [(m.client_id, m.spark) for m in queries.members] == [("job", True)]
        with pytest.raises(Invalid, match="groups a, b have this lease") as several:
            await call(mesh, "ExplainLease", api.ExplainLeaseRequest(lease="logs/live/1/0"), api.ExplainLeaseResponse)
        assert several.value.choices == ("a", "b")
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
