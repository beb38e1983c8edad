"""Operators' rules over the wire: real replicas, members with the SDK's lease session, virtual time."""

from collections.abc import Coroutine
from typing import Any

import pytest

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2, rules_pb2
from braid.kernel.errors import BraidError, Invalid, NotFound, NotLeader, Refused
from braid.kernel.ports import CallOptions
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.methods import method_path
from tests.support.virtual_time import run_virtual
from tests.unit.assigner.mesh import Mesh, Participant

LEASE = "logs/live/1/0"


async def ask(mesh: Mesh, method: str, request: object, request_id: str = "") -> group_pb2.Group:
    """Asks the leader for a change."""
    return await mesh.client("cli").unary(method, request, group_pb2.Group, timeout_seconds=8, request_id=request_id)


async def three(partitions: int = 6) -> Mesh:
    """Three members with everything in their hands."""
    mesh = await Mesh().start(channels=[])
    mesh.channel("logs/live/1", partitions)
    await mesh.joined(3)
    return mesh


def names(mesh: Mesh, client_id: str) -> set[str]:
    """The leases a member holds, as it knows itself."""
    return {str(lease) for each in mesh.participants if each.client_id == client_id for lease in each.holds}


async def members(mesh: Mesh) -> dict[str, group_pb2.Member]:
    """Members by client id."""
    told = await mesh.client("cli").unary(
        "ListMembers", api.ListMembersRequest(), api.ListMembersResponse, timeout_seconds=8
    )
    return {each.client_id: each for each in told.members}


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs a test on virtual time."""
    run_virtual(work)


def test_a_pin_moves_the_lease_and_explains_itself() -> None:
    async def scenario() -> None:
        mesh = await three()
        wanted = next(name for name in ("web-1", "web-2") if LEASE not in names(mesh, name))
        group = await ask(mesh, "PinLease", api.PinLeaseRequest(lease=LEASE, member=wanted))
        assert [(pin.lease, pin.member, pin.strict) for pin in group.rules.pins] == [(LEASE, wanted, False)]
        await mesh.until(lambda: LEASE in names(mesh, wanted), 5)
        told = await mesh.client("cli").unary(
            "ExplainLease", api.ExplainLeaseRequest(lease=LEASE), api.ExplainLeaseResponse, timeout_seconds=8
        )
        texts = [each.text for each in told.reasons]
        assert any(text.startswith(f"Pinned to {wanted} (decided by ") for text in texts)
        assert any(f"it is pinned to {wanted}" in text for text in texts if text.startswith("Revoked from"))
        assert told.lease.rule == f"pinned to {wanted}"
        assert not (await ask(mesh, "PinLease", api.PinLeaseRequest(lease=LEASE))).rules.pins

    run(scenario())


def test_a_drain_empties_a_member_and_says_when_it_is_done() -> None:
    async def scenario() -> None:
        mesh = await three()
        group = await ask(mesh, "DrainMember", api.DrainMemberRequest(member="web-1", drained=True, reason="update"))
        (drain,) = group.rules.drains
        assert (drain.state, drain.leases, drain.reason) == (rules_pb2.DRAIN_STATE_DRAINING, 2, "update")
        await mesh.until(lambda: bool(mesh.state().rules.drains["web-1"].drained_at_ms), 5)
        assert not names(mesh, "web-1")
        assert (await members(mesh))["web-1"].drain == rules_pb2.DRAIN_STATE_DRAINED
        assert "web-1" in await members(mesh)  # it stays one, with nothing
        Participant(mesh, "web-4")
        await mesh.until(lambda: len(names(mesh, "web-4")) == 2, 90)
        assert not names(mesh, "web-1")
        await ask(mesh, "DrainMember", api.DrainMemberRequest(member="web-1"))
        await mesh.until(lambda: bool(names(mesh, "web-1")), 90)

    run(scenario())


def test_a_large_drain_goes_on_by_itself_when_the_minute_is_over() -> None:
    async def scenario() -> None:
        mesh = await three(24)
        await ask(mesh, "BanMember", api.BanMemberRequest(member="web-2", path="logs/live/1/1"))
        await mesh.host.clock.sleep(20)
        began = mesh.host.clock.elapsed()
        await ask(mesh, "DrainMember", api.DrainMemberRequest(member="web-1", drained=True))
        await mesh.host.clock.sleep(5)
        await ask(mesh, "DrainMember", api.DrainMemberRequest(member="web-1"))
        await ask(mesh, "DrainMember", api.DrainMemberRequest(member="web-3", drained=True))
        await mesh.host.clock.sleep(5)
        assert names(mesh, "web-3")  # the budget of nine is spent
        await mesh.until(lambda: bool(mesh.state().rules.drains["web-3"].drained_at_ms), 200)
        assert mesh.host.clock.elapsed() - began > 50  # the first nine moves were made a minute before the last
        await mesh.until(lambda: sum(len(each.holds) for each in mesh.participants) == 24, 1)

    run(scenario())


def test_rules_outlive_the_leader() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start(assigners=2, channels=[])
        mesh.channel("logs/live/1", 6)
        await mesh.joined(3)
        await ask(mesh, "BanMember", api.BanMemberRequest(member="web-1", path=LEASE))
        await ask(mesh, "FreezeGroup", api.FreezeGroupRequest(group="indexer", frozen=True, reason="release"))
        before = {each.client_id: names(mesh, each.client_id) for each in mesh.participants}
        leader = await mesh.leader()
        mesh.processes[leader.instance].kill()
        del mesh.replicas[leader.instance]
        await mesh.leader()
        await mesh.host.clock.sleep(30)
        assert {each.client_id: names(mesh, each.client_id) for each in mesh.participants} == before
        group = await ask(mesh, "FreezeGroup", api.FreezeGroupRequest(group="indexer"))
        assert not group.rules.HasField("freeze")
        assert [(ban.member, ban.path) for ban in group.rules.bans] == [("web-1", LEASE)]

    run(scenario())


def test_the_same_request_twice_is_one_event() -> None:
    async def scenario() -> None:
        mesh = await three()
        drain = api.DrainMemberRequest(member="web-1", drained=True)
        await ask(mesh, "DrainMember", drain, "r-1")
        await ask(mesh, "DrainMember", api.DrainMemberRequest(member="web-1"), "r-2")
        await ask(mesh, "DrainMember", drain, "r-1")  # told late, and twice: it was done, and undone since
        assert not mesh.state().rules.drains
        kinds = [type(event).__name__ for event in await mesh.events()]
        assert (kinds.count("MemberDrainStarted"), kinds.count("MemberDrainEnded")) == (1, 1)

    run(scenario())


def test_capacity_and_spreading() -> None:
    async def scenario() -> None:
        mesh = await three()
        group = await ask(mesh, "SetCapacity", api.SetCapacityRequest(member="web-1", capacity=3.5))
        assert dict(group.rules.capacities) == {"web-1": 3.5}
        assert (await members(mesh))["web-1"].capacity == 3.5
        assert not (await ask(mesh, "SetCapacity", api.SetCapacityRequest(member="web-1"))).rules.capacities
        prefer = api.SetSpreadingRequest(group="indexer", zones=rules_pb2.ZONE_RULE_PREFER)
        assert (await ask(mesh, "SetSpreading", prefer)).rules.zones == rules_pb2.ZONE_RULE_PREFER
        hosts = api.SetSpreadingRequest(group="indexer", hosts=True)
        rules = (await ask(mesh, "SetSpreading", hosts)).rules
        assert (rules.zones, rules.spread_hosts) == (rules_pb2.ZONE_RULE_PREFER, True)

    run(scenario())


@pytest.mark.parametrize(
    ("method", "request_", "error", "field"),
    [
        ("PinLease", api.PinLeaseRequest(lease="logs/live/1"), Invalid, None),
        ("PinLease", api.PinLeaseRequest(lease="logs/live/9/0", member="web-1"), NotFound, "lease"),
        ("BanMember", api.BanMemberRequest(member="nobody", path="logs"), NotFound, "member"),
        ("BanMember", api.BanMemberRequest(group="indexer", member="web-1"), Invalid, "path"),
        ("FreezeGroup", api.FreezeGroupRequest(group="nobody", frozen=True), NotFound, "group"),
        ("DrainMember", api.DrainMemberRequest(drained=True), Invalid, "member"),
        ("DrainMember", api.DrainMemberRequest(group="nobody", member="web-1", drained=True), NotFound, "group"),
        ("SetCapacity", api.SetCapacityRequest(member="web-1", capacity=0.0), Invalid, "capacity"),
        ("SetSpreading", api.SetSpreadingRequest(group="indexer", zones=9), Invalid, "zones"),  # type: ignore[arg-type]
    ],
)
def test_what_makes_no_sense_is_refused(
    method: str, request_: object, error: type[BraidError], field: str | None
) -> None:
    async def scenario() -> None:
        mesh = await three()
        with pytest.raises(error) as refused:
            await ask(mesh, method, request_)
        assert field is None or refused.value.field == field
        assert mesh.state().rules.count == 0

    run(scenario())


def test_a_name_in_two_groups_needs_the_group() -> None:
    async def scenario() -> None:
        mesh = await three()
        Participant(mesh, "web-1", group="other")
        await mesh.until(lambda: bool(mesh.state("other").members))
        with pytest.raises(Invalid, match="2 groups have a member 'web-1'"):
            await ask(mesh, "DrainMember", api.DrainMemberRequest(member="web-1", drained=True))
        with pytest.raises(Refused, match="none of the 1 members could hold"):
            await ask(mesh, "DrainMember", api.DrainMemberRequest(group="other", member="web-1", drained=True))

    run(scenario())


def test_a_follower_changes_nothing() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start(assigners=2)
        await mesh.joined(2)
        leader = await mesh.leader()
        (follower,) = (name for name in mesh.replicas if name.startswith("assigner") and name != leader.instance)
        channel = MemoryTransport(mesh.network, "cli").channel(f"{follower}:1")
        freeze = api.FreezeGroupRequest(group="indexer", frozen=True)
        with pytest.raises(NotLeader):
            await channel.unary(method_path("assigner", "FreezeGroup"), freeze, group_pb2.Group, CallOptions(5.0))

    run(scenario())
