"""Every call of the matrix of methods and callers is found in the records, or rightly is not; all over the wire.

Methods come from the protos, callers are of every kind, and what is expected is said by action and outcome alone.
"""

import asyncio

import pytest

from braid.kernel.access.roles import MESH, Action, Role
from braid.kernel.access.table import TABLE, row_of
from braid.kernel.audit.calls import Outcome
from braid.kernel.audit.forms import Reads
from braid.kernel.errors import AccessDenied, BraidError, Unauthenticated
from braid.runtime.audit.recorder import Recorder
from braid.runtime.audit.settings import AuditSettings
from tests.support.virtual_time import run_virtual
from tests.unit.kernel.access.api import Method, methods
from tests.unit.kernel.access.matrix import SERVICE, filled
from tests.unit.runtime.access.mesh import Client, Mesh
from tests.unit.runtime.audit.records import Found, records

CALLERS = {role: f"dns:{role.value}" for role in Role if role is not Role.SERVICE} | {Role.SERVICE: SERVICE}
NOBODY = "dns:nobody"
READS = (Action.CONNECT, Action.VIEW, Action.SERVE)
WRITTEN_SECONDS = 2.0


async def outcome_of(client: Client, method: Method) -> Outcome:
    """Calls a method, and tells how that ended for the caller."""
    row = row_of(method.service, method.name)
    assert row is not None
    try:
        await client.call(method, filled(method, row))
    except (AccessDenied, Unauthenticated):
        return Outcome.REFUSED
    except BraidError:
        return Outcome.FAILED
    return Outcome.OPENED if method.client_streams or method.server_streams else Outcome.OK


def is_due(method: Method, outcome: Outcome, reads: Reads) -> bool:
    """Whether a call must be recorded, by the plain words of the guide."""
    action = TABLE[method.service][method.name].action
    if outcome is Outcome.REFUSED or reads is Reads.ALL:
        return True
    if (method.service, method.name) in (("assigner", "CloseChannel"), ("registry", "ClaimApproval")):
        return True
    return action not in (*READS, Action.INSPECT) or (action is Action.INSPECT and reads is Reads.CONTENT)


async def play(service: str, reads: Reads) -> tuple[dict[tuple[str, str], Outcome], Found]:
    """Every caller calls every method of a service. What each was told, and what is recorded."""
    mesh = await Mesh(service, audit=AuditSettings(reads)).start()
    for role, principal in CALLERS.items():
        if role is not Role.SERVICE:
            await mesh.grant(principal, role, MESH)
    told: dict[tuple[str, str], Outcome] = {}
    for principal in (*CALLERS.values(), NOBODY, ""):
        client = mesh.client(service, principal or None, f"host of {principal}")
        for method in (each for each in methods() if each.service == service):
            told[principal, method.name] = await outcome_of(client, method)
    await asyncio.sleep(WRITTEN_SECONDS)
    return told, await records(mesh)


def check(service: str, told: dict[tuple[str, str], Outcome], found: Found, reads: Reads) -> None:
    for method in (each for each in methods() if each.service == service):
        for principal in (*CALLERS.values(), NOBODY, ""):
            outcome = told[principal, method.name]
            mine = [
                call
                for call, _ in found.of(method.name)
                if call.service == service and call.principal == principal and call.address == f"host of {principal}"
            ]
            if not is_due(method, outcome, reads):
                assert not mine, (method.name, principal, mine)
                continue
            assert len(mine) == 1, (method.name, principal, outcome, mine)
            assert mine[0].outcome is outcome and mine[0].authenticated is bool(principal), mine
            assert mine[0].reason or outcome in (Outcome.OK, Outcome.OPENED)


@pytest.mark.parametrize("reads", Reads)
@pytest.mark.parametrize("service", TABLE)
def test_every_call_of_the_matrix_is_found(service: str, reads: Reads) -> None:
    async def scenario() -> None:
        told, found = await play(service, reads)
        check(service, told, found, reads)
        assert not found.lost

    run_virtual(scenario())


def test_with_all_reads_nothing_is_left_out_of_the_records() -> None:
    async def scenario() -> None:
        told, found = await play("dlq", Reads.ALL)
        calls = {(call.principal, call.rpc) for call, _ in found.calls if call.service == "dlq"}
        assert calls >= told.keys()

    run_virtual(scenario())


@pytest.mark.parametrize("method", ["done", "opened", "failed"])
def test_a_mutant_that_forgets_one_way_to_end_is_found(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recorder, method, lambda *arguments, **options: None)

    async def scenario() -> None:
        told, found = await play("assigner", Reads.NONE)
        with pytest.raises(AssertionError):
            check("assigner", told, found, Reads.NONE)

    run_virtual(scenario())
