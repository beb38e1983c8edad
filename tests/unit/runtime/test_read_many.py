"""`ReadMany`: a part is admitted, decided on, bounded, counted and recorded exactly as the same call alone."""

import asyncio
from collections.abc import Sequence
from typing import Final
from unittest.mock import patch

import pytest

from braid.api.mesh.v1.event_pb2 import ListEventsResponse
from braid.api.mesh.v1.read_pb2 import ReadAnswer, ReadManyRequest, ReadManyResponse, ReadPart
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.kernel.access.roles import Action, Role
from braid.kernel.access.table import TABLE, row_of
from braid.kernel.access.tenants import Quotas
from braid.kernel.audit.calls import Outcome
from braid.kernel.errors import AccessDenied, BraidError, DeadlineExceeded, Invalid, QuotaExceeded
from braid.kernel.limits.access.rights import DOOR_HOLD_SECONDS
from braid.kernel.limits.rpc import READ_PARTS_MAX, REQUEST_TEXT_CHARS_MAX
from braid.kernel.ports import CallOptions
from braid.rpc.errors import from_bytes
from braid.rpc.methods import method_path
from braid.runtime import read_many
from braid.runtime.access.settings import AccessMode, AccessSettings
from braid.runtime.access.tenant_history import SetTenant
from braid.runtime.audit.settings import AuditSettings
from tests.support.virtual_time import run_virtual
from tests.unit.kernel.access.api import Method, methods
from tests.unit.kernel.access.matrix import filled
from tests.unit.runtime.access.mesh import ADMIN, ANN, RUNTIMES, Client, Mesh
from tests.unit.runtime.access.test_matrix import GRANTED, clients_of
from tests.unit.runtime.audit.records import records

WEB: Final = "spiffe://braid.local/acme/web"
LISTED: Final = ReadPart(method="ListStreams")
EVENTS: Final = ReadPart(method="ListEvents")
OPEN: Final = AccessSettings(AccessMode.OPEN)
_FORMS: Final = {(each.service, each.name): each for each in methods()}


def part_of(method: Method) -> ReadPart:
    row = row_of(method.service, method.name)
    assert row is not None
    return ReadPart(method=method.name, request=filled(method, row).SerializeToString())


async def ask(client: Client, *parts: ReadPart, within_ms: int = 0) -> Sequence[ReadAnswer]:
    request = ReadManyRequest(parts=parts, within_ms=within_ms)
    path = method_path(client.service, "ReadMany")
    return (await client.channel.unary(path, request, ReadManyResponse, CallOptions(20.0))).answers


def error_of(answer: ReadAnswer) -> BraidError | None:
    return from_bytes(answer.status) if answer.HasField("status") else None


async def alone(client: Client, method: Method) -> BraidError | None:
    row = row_of(method.service, method.name)
    assert row is not None
    try:
        await client.call(method, filled(method, row))
    except BraidError as error:
        return error
    return None


def is_read(method: Method) -> bool:
    row = row_of(method.service, method.name)
    assert row is not None
    streams = method.client_streams or method.server_streams
    foreign = method.path != method_path(method.service, method.name)
    return row.reads and not streams and not foreign


@pytest.mark.parametrize("service", TABLE)
@pytest.mark.parametrize("role", [Role.VIEWER, Role.PRODUCER, Role.CONSUMER, Role.ADMIN])
def test_a_part_is_let_in_as_the_same_call_alone(service: str, role: Role) -> None:
    async def scenario() -> None:
        mesh = await Mesh(service).start()
        clients = await clients_of(mesh, service, role)
        reached = mesh.services[service].reached
        for method in (each for each in methods() if each.service == service and is_read(each)):
            for client in clients.values():
                expected, before = await alone(client, method), reached[method.name]
                (answer,) = await ask(client, part_of(method))
                found = error_of(answer)
                assert (type(found), str(found)) == (type(expected), str(expected)), method.name
                ran = not isinstance(expected, AccessDenied) and method.name not in RUNTIMES
                assert reached[method.name] - before == ran, method.name

    run_virtual(scenario())


@pytest.mark.parametrize("service", TABLE)
def test_what_is_no_read_is_no_part_and_never_runs(service: str) -> None:
    async def scenario() -> None:
        mesh = await Mesh(service).start()
        reached, client = mesh.services[service].reached, mesh.client(service, ADMIN)
        no_reads = [each for each in methods() if each.service == service and not is_read(each)]
        assert {each.name for each in no_reads} >= {"ReadMany", "ListEndpoints", "WatchEvents", "ReadArchive"}
        for method in no_reads:
            with pytest.raises(Invalid, match="no method that may be a part") as refused:
                await ask(client, ReadPart(method="ListEvents"), part_of(method))
            assert refused.value.field == "parts[1].method" and refused.value.remedy
        assert not reached

    run_virtual(scenario())


def test_no_part_changes_anything_by_the_table() -> None:
    reads = {(service, name) for service, rows in TABLE.items() for name, row in rows.items() if row.reads}
    for service, name in reads:
        row = row_of(service, name)
        assert row is not None and row.action in (Action.VIEW, Action.INSPECT) and not row.mutates
    assert ("lagmon", "ReportPathways") not in reads, "it tells figures"
    assert ("registry", "ListStreams") in reads and ("dlq", "GetDeadLetter") in reads


def test_parts_are_answered_in_their_order_beside_errors() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        await mesh.grant("dns:me", Role.VIEWER, *GRANTED["right"])
        client = mesh.client("registry", "dns:me")
        request = api.GetStreamRequest(name="other")
        first, second, third = await ask(
            client,
            ReadPart(method="GetStream", request=api.GetStreamRequest(name="logs").SerializeToString()),
            ReadPart(method="GetStream", request=request.SerializeToString()),
            ReadPart(method="GetStream", request=b"\xff\xff"),
        )
        assert first.HasField("response") and first.response == b""
        assert isinstance(error_of(second), AccessDenied)
        malformed = error_of(third)
        assert isinstance(malformed, Invalid) and "no GetStreamRequest" in malformed.message

    run_virtual(scenario())


def test_the_number_of_parts_and_their_texts_are_bounded() -> None:
    async def scenario() -> None:
        mesh = await Mesh(access=OPEN).start()
        client = mesh.client("registry", ADMIN)
        assert len(await ask(client, *[LISTED] * READ_PARTS_MAX)) == READ_PARTS_MAX
        for parts in ([], [LISTED] * (READ_PARTS_MAX + 1)):
            with pytest.raises(Invalid, match=f"{len(parts)} parts") as refused:
                await ask(client, *parts)
            assert refused.value.field == "parts"
        with pytest.raises(Invalid) as refused:
            await ask(client, LISTED, within_ms=-1)
        assert refused.value.field == "within_ms"
        long = api.ListChannelsRequest(stream="s" * (REQUEST_TEXT_CHARS_MAX - 8))
        with pytest.raises(Invalid) as refused:
            wide = api.ListChannelsRequest(stream="s" * REQUEST_TEXT_CHARS_MAX)
            await ask(client, ReadPart(method="ListChannels", request=wide.SerializeToString()))
        assert refused.value.field == "parts.request"
        (answer,) = await ask(client, ReadPart(method="ListChannels", request=long.SerializeToString()))
        assert error_of(answer) is None

    run_virtual(scenario())


async def of_acme(quotas: Quotas) -> tuple[Mesh, Client]:
    """A mesh in which a tenant has quotas, and a client of that tenant."""
    mesh = await Mesh(access=OPEN).start()
    command = SetTenant("acme", ("spiffe://braid.local/acme/*",), quotas)
    await mesh.replicas["registry"].tenants.execute(command, ANN)
    await asyncio.sleep(0.5)
    return mesh, mesh.client("registry", WEB)


async def refused(client: Client, parts: int, within_ms: int = 0) -> list[bool]:
    """Which of some parts are refused for a quota."""
    errors = [error_of(each) for each in await ask(client, *[LISTED] * parts, within_ms=within_ms)]
    assert all(each is None or isinstance(each, QuotaExceeded) for each in errors)
    return [each is not None for each in errors]


def test_each_part_counts_for_the_rate_of_its_tenant() -> None:
    async def scenario() -> None:
        _, client = await of_acme(Quotas(requests_per_second=6))
        begun = asyncio.get_running_loop().time()
        found = await refused(client, 12, within_ms=1)
        assert found == [False] * 6 + [True] * 6, "the first is counted with the call"
        assert asyncio.get_running_loop().time() - begun > DOOR_HOLD_SECONDS, "a refusal waits, whatever it asks for"

    run_virtual(scenario())


def test_open_parts_are_counted_and_given_back() -> None:
    async def scenario() -> None:
        mesh, client = await of_acme(Quotas(open_calls=4))
        mesh.services["registry"].delays["ListStreams"] = 0.5
        for _ in range(3):
            assert await refused(client, 4) == [False] * 4
            assert await refused(client, 6) == [False] * 4 + [True] * 2

    run_virtual(scenario())


def test_a_refused_part_is_recorded_under_its_own_method() -> None:
    async def scenario() -> None:
        mesh = await Mesh(audit=AuditSettings()).start()
        await mesh.grant("dns:me", Role.VIEWER, *GRANTED["right"])
        await ask(mesh.client("registry", "dns:me"), LISTED, ReadPart(method="ListGrants"))
        await asyncio.sleep(2.0)
        found = await records(mesh)
        for method in ("ListStreams", "ListGrants"):
            ((call, count),) = found.of(method, "dns:me")
            assert (call.outcome, count, call.authenticated) == (Outcome.REFUSED, 1, True)

    run_virtual(scenario())


def test_a_revoked_or_unknown_caller_reads_nothing() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        with pytest.raises(BraidError, match="proved who it is"):
            await ask(mesh.client("registry", None), LISTED)
        assert not mesh.services["registry"].reached

    run_virtual(scenario())


def test_answers_beyond_a_message_are_left_out_and_say_so() -> None:
    async def scenario() -> None:
        mesh = await Mesh(access=OPEN).start()
        client = mesh.client("registry", ADMIN)
        (found,) = await ask(client, EVENTS)
        with patch.object(read_many, "READ_BYTES_MAX", 2 * found.ByteSize()):
            answers = await ask(client, EVENTS, EVENTS, EVENTS, LISTED)
        assert [each.left_out for each in answers] == [False, False, True, True]
        assert answers[1] == found and ListEventsResponse.FromString(found.response).revision

    run_virtual(scenario())


def test_a_slow_part_is_late_and_the_others_are_answered() -> None:
    async def scenario() -> None:
        mesh = await Mesh(access=OPEN).start()
        slow = mesh.services["registry"]
        slow.delays["ListClusters"] = 5.0
        started = asyncio.get_running_loop().time()
        first, second = await ask(
            mesh.client("registry", ADMIN), ReadPart(method="ListClusters"), LISTED, within_ms=500
        )
        assert asyncio.get_running_loop().time() - started < 1.0
        assert isinstance(error_of(first), DeadlineExceeded) and error_of(second) is None

    run_virtual(scenario())
