"""The table as it is enforced: every caller and every method, over the wire, against handlers that count.

What is right is in `tests/golden/access/matrix.txt`, for people to judge; here it is proved that handlers run for those
alone.
"""

import pytest

from braid.kernel.access.roles import MESH, Action, Resource, ResourceKind, Role
from braid.kernel.access.table import TABLE, row_of
from braid.kernel.errors import AccessDenied, BraidError, Unauthenticated
from braid.runtime.access.control import AccessControl
from tests.support.virtual_time import run_virtual
from tests.unit.kernel.access.api import Method, methods
from tests.unit.kernel.access.matrix import SAMPLES, SERVICE, allowed, filled, granted, needs
from tests.unit.runtime.access.mesh import RUNTIMES, Client, Mesh

RIGHT = [Resource(kind, name) for kind, name in SAMPLES.items() if kind is not ResourceKind.REPLAY]
OTHER = [Resource(each.kind, f"other-{each.name}") for each in RIGHT]
GRANTED = {"right": RIGHT, "other": OTHER, "mesh": [MESH]}


async def is_let_in(mesh: Mesh, client: Client, method: Method) -> bool:
    """Whether a call gets to its handler. A refusal must say what it is, and leave the handler alone."""
    row = row_of(method.service, method.name)
    assert row is not None
    reached = mesh.services[method.service].reached
    before = reached[method.name]
    try:
        await client.call(method, filled(method, row))
    except (AccessDenied, Unauthenticated) as refused:
        assert reached[method.name] == before, f"{method.name} ran although it was refused"
        assert method.name in refused.message and refused.remedy
        return False
    except BraidError:
        assert method.name in RUNTIMES, "handlers that count answer"
    assert method.name in RUNTIMES or reached[method.name] == before + 1
    return True


async def clients_of(mesh: Mesh, service: str, role: Role) -> dict[str, Client]:
    """Clients of a service, each with the role on one of the resources in `GRANTED`."""
    clients = {where: mesh.client(service, f"dns:{role.value}-{where}") for where in GRANTED}
    for where in GRANTED:
        for grant in granted(role, GRANTED[where]).grants["spiffe://braid.local/app/me"]:
            await mesh.grant(f"dns:{role.value}-{where}", role, grant.resource)
    return clients


def expected(role: Role, where: str, method: Method) -> bool:
    row = row_of(method.service, method.name)
    assert row is not None
    resources = [MESH] if where == "mesh" else GRANTED[where]
    return allowed(role, granted(role, resources), needs(method, row))


@pytest.mark.parametrize("service", TABLE)
@pytest.mark.parametrize("role", [role for role in Role if role is not Role.SERVICE])
def test_a_role_reaches_what_the_table_allows_it(service: str, role: Role) -> None:
    async def scenario() -> None:
        mesh = await Mesh(service).start()
        clients = await clients_of(mesh, service, role)
        for method in (each for each in methods() if each.service == service):
            found = {where: await is_let_in(mesh, client, method) for where, client in clients.items()}
            assert found == {where: expected(role, where, method) for where in GRANTED}, method.name

    run_virtual(scenario())


@pytest.mark.parametrize("service", TABLE)
def test_a_service_reaches_what_services_ask(service: str) -> None:
    async def scenario() -> None:
        mesh = await Mesh(service).start()
        client = mesh.client(service, SERVICE)
        for method in (each for each in methods() if each.service == service):
            assert await is_let_in(mesh, client, method) is expected(Role.SERVICE, "mesh", method), method.name

    run_virtual(scenario())


@pytest.mark.parametrize("service", TABLE)
def test_a_caller_without_a_name_reaches_nothing(service: str) -> None:
    async def scenario() -> None:
        mesh = await Mesh(service).start()
        client = mesh.client(service, None)
        for method in (each for each in methods() if each.service == service):
            assert not await is_let_in(mesh, client, method), method.name
        assert not mesh.services[service].reached

    run_virtual(scenario())


@pytest.mark.parametrize("service", TABLE)
def test_a_caller_without_a_grant_may_only_connect(service: str) -> None:
    async def scenario() -> None:
        mesh = await Mesh(service).start()
        client = mesh.client(service, "dns:nobody")
        found = {each.name for each in methods() if each.service == service and await is_let_in(mesh, client, each)}
        assert found == {name for name, row in TABLE[service].items() if row.action is Action.CONNECT}

    run_virtual(scenario())


@pytest.mark.parametrize("method", ["guards", "authorize"])
def test_a_mutant_that_asks_nobody_is_found(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the wrapper, or with one that refuses nothing, callers without a grant reach handlers."""
    monkeypatch.setattr(AccessControl, method, lambda *arguments: False)

    async def scenario() -> None:
        mesh = await Mesh("dlq").start()
        client, dlq = mesh.client("dlq", "dns:nobody"), [each for each in methods() if each.service == "dlq"]
        assert all([await is_let_in(mesh, client, each) for each in dlq])

    run_virtual(scenario())
