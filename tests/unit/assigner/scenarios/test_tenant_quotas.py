"""Quotas of groups and members at the assigner, and members whose principal is declared to another tenant."""

import asyncio

import pytest

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2
from braid.kernel.access.tenants import Quotas
from braid.kernel.errors import QuotaExceeded
from braid.runtime.access.tenant_codec import TENANTS
from braid.runtime.access.tenant_history import HISTORY, SetTenant
from services.assigner.codec import snapshots
from services.assigner.model.group import Group, GroupSpec
from tests.unit.assigner.mesh import Mesh, Participant, Wire, granted
from tests.unit.assigner.servicer.calls import run

WEB = "spiffe://test.local/acme/web"
SPEC = group_pb2.GroupSpec(streams=["logs"])


async def declare(mesh: Mesh, quotas: Quotas, principals: str = "spiffe://test.local/acme/*") -> None:
    """Declares tenant acme; in a mesh the registry does."""
    leader = await mesh.leader()
    command = SetTenant("acme", (principals,), quotas)
    await leader.tenants.histories.execute(TENANTS, HISTORY, command, actor="ann")
    await mesh.host.clock.sleep(0.5)


async def create(mesh: Mesh, group: str, identity: str = WEB) -> group_pb2.Group:
    request = api.CreateGroupRequest(name=group, spec=SPEC)
    return await mesh.client(f"creator of {group}", identity=identity).unary("CreateGroup", request, group_pb2.Group)


async def refused(work: object) -> QuotaExceeded:
    with pytest.raises(QuotaExceeded) as error:
        await work  # type: ignore[misc]
    return error.value


def test_a_group_too_many_is_refused_to_its_creators_tenant() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        await declare(mesh, Quotas(groups=2))
        assert (await create(mesh, "first")).tenant == "acme"
        await Wire(mesh, "web", WEB).hello(group="second")
        assert mesh.state("second").tenant == "acme"
        error = await refused(create(mesh, "third"))
        assert error.metadata == {"tenant": "acme", "quota": "groups", "used": "2", "limit": "2"}
        assert "delete groups" in error.remedy
        assert (await refused(Wire(mesh, "late", WEB).hello(group="third"))).metadata["quota"] == "groups"
        assert (await create(mesh, "third", "spiffe://test.local/bakery/oven")).tenant == "default"
        await Wire(mesh, "more", WEB).hello(group="second")

    run(scenario())


def test_one_member_too_many_waits_until_another_leaves() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        await declare(mesh, Quotas(members=2))
        first, second = Participant(mesh, "a", identity=WEB), Participant(mesh, "b", identity=WEB)
        await mesh.settled(2)
        third = Participant(mesh, "c", identity=WEB)
        await mesh.host.clock.sleep(20)
        assert len(mesh.state().members) == 2 and not third.holds
        first.kill()
        await mesh.until(lambda: bool(third.holds), 30.0)
        assert second.alive

    run(scenario())


def test_members_that_join_at_once_do_not_pass_the_quota() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        await declare(mesh, Quotas(members=3))
        hellos = [Wire(mesh, f"w{n}", WEB).hello() for n in range(8)]
        results = await asyncio.gather(*hellos, return_exceptions=True)
        assert sum(isinstance(each, QuotaExceeded) for each in results) == 5
        assert len(mesh.state().members) == 3

    run(scenario())


def test_a_known_member_comes_back_whatever_the_quota() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start(2)
        await declare(mesh, Quotas())
        members = [Participant(mesh, name, identity=WEB) for name in ("a", "b", "c")]
        await mesh.settled(3)
        await declare(mesh, Quotas(groups=1, members=1))
        mesh.processes[(await mesh.leader()).instance].kill()
        await mesh.leader()
        await mesh.host.clock.sleep(20)
        assert len(mesh.state().members) == 3 and all(each.holds for each in members)

    run(scenario())


def test_a_member_whose_tenant_changes_keeps_its_leases() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        web = Wire(mesh, "web", WEB)
        await web.hello()
        held = granted(await web.next("delta"))
        await declare(mesh, Quotas(members=1))
        await web.beat()
        await web.next("heartbeat")
        assert len(held) == 4 and mesh.state().tenant == "default", "a group keeps the tenant that registered it"

    run(scenario())


def test_a_snapshot_keeps_the_tenant_of_a_group() -> None:
    state = Group("indexer", GroupSpec(("logs",)), tenant="acme")
    assert snapshots.decode(snapshots.encode(state)).tenant == "acme"


def test_a_new_leader_knows_the_tenant_of_a_group() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start(2)
        await declare(mesh, Quotas(groups=1))
        await create(mesh, "first")
        mesh.processes[(await mesh.leader()).instance].kill()
        await mesh.leader()
        assert mesh.state("first").tenant == "acme"
        assert (await refused(create(mesh, "second"))).metadata["used"] == "1"

    run(scenario())


def test_a_count_of_groups_outlives_its_leader() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start(2)
        await declare(mesh, Quotas(groups=2))
        await create(mesh, "first")
        await create(mesh, "second")
        mesh.processes[(await mesh.leader()).instance].kill()
        await mesh.leader()
        assert (await refused(create(mesh, "third"))).metadata["used"] == "2"
        deletion = api.DeleteGroupRequest(name="first")
        await mesh.client("creator", identity=WEB).unary("DeleteGroup", deletion, group_pb2.Group)
        await create(mesh, "third")
        assert (await refused(create(mesh, "fourth"))).metadata["used"] == "2"

    run(scenario())
