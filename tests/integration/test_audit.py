"""Records of calls over real connections: mutual TLS, SQLite, processes that are killed, a file of JSON lines."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path

import grpc
import pytest

from braid.api.mesh.v1.audit_pb2 import CALL_OUTCOME_REFUSED, AuditEvent
from braid.api.mesh.v1.event_pb2 import ListEventsRequest, ListEventsResponse
from braid.api.registry.v1 import grant_pb2 as grants
from braid.host.tls.files import TlsFiles
from braid.kernel.errors import AccessDenied
from braid.rpc.mesh_client import ServiceClient
from braid.rpc.methods import method_path
from braid.rpc.tls import channel_credentials
from testbed.authority import ALICE, Authority
from testbed.patience import until
from tests.integration.test_access import ANN, Processes, client

pytestmark = [pytest.mark.timeout(300), pytest.mark.untimed]
FORGED = "spiffe://test.local/user/root"


async def recorded(service: ServiceClient) -> list[AuditEvent]:
    """Records of all replicas, as one of a service lists them."""
    request = ListEventsRequest(history="audit", page_size=1_000)
    page = await service.unary("ListEvents", request, ListEventsResponse, timeout_seconds=20.0)
    return [AuditEvent.FromString(each.data) for each in page.events]


async def claims_falsely(processes: Processes) -> None:
    """Calls with a certificate, and claims another name than it has."""
    tls = processes.authority.client(processes.directory / "forger", ALICE)
    credentials = channel_credentials(TlsFiles(tls).current())
    async with grpc.aio.secure_channel(processes.ready["registry-0"]["address"], credentials) as channel:
        call = channel.unary_unary(method_path("registry", "ListStreams"), bytes, bytes)
        with pytest.raises(grpc.aio.AioRpcError):
            await call(b"", metadata=(("braid-principal", FORGED),))


async def test_what_a_killed_replica_refused_is_found_at_another(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    processes = Processes(tmp_path, Authority.make(), AUDIT_LOG=str(log))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(processes.close)
        await processes.start("registry-0")
        await processes.start("assigner-0")
        alice = await client(stack, processes, "registry", ALICE)
        spec = grants.GrantSpec(principal=ALICE, role=grants.ACCESS_ROLE_ADMIN, reason="planted-reason")
        with pytest.raises(AccessDenied):
            await alice.unary("GrantAccess", grants.GrantAccessRequest(spec=spec), grants.Grant, timeout_seconds=20.0)
        await claims_falsely(processes)
        await asyncio.sleep(2.0)  # a loaded machine writes later than within the second of the guide
        processes.running["registry-0"].kill()
        ann = await client(stack, processes, "assigner", ANN)

        async def found() -> bool:
            refused = {
                (each.metadata.actor, each.call_recorded.rpc, each.call_recorded.reason, each.call_recorded.address)
                for each in await recorded(ann)
                if each.call_recorded.outcome == CALL_OUTCOME_REFUSED
            }
            return refused >= {
                (ALICE, "GrantAccess", "denied", "127.0.0.1"),
                (ALICE, "ListStreams", "false_claim", "127.0.0.1"),
            }

        await until(found, "both refusals are recorded", 20.0)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    (grant,) = [each for each in lines if each["rpc"] == "GrantAccess" and each["outcome"] == "refused"]
    assert grant["command"] == f"braid grant admin --to {ALICE}" and grant["authenticated"] is True
    assert "planted-reason" not in log.read_text() and FORGED not in log.read_text()
