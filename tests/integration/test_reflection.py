"""Reflection over real mutual TLS: it takes the role `viewer`, is refused to revoked certificates, and is recorded."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2

from braid.api.mesh.v1.audit_pb2 import CALL_OUTCOME_REFUSED
from braid.api.registry.v1 import grant_pb2 as grants
from braid.api.registry.v1 import revocation_pb2 as revocations
from braid.certs.revocable import read_certificate
from braid.host.tls.paths import Tls
from braid.rpc.grpc.reflection import REFLECTION_PATH
from testbed.authority import ALICE, Authority
from testbed.patience import until
from tests.integration.test_access import ANN, Processes, client
from tests.integration.test_audit import recorded

pytestmark = [pytest.mark.timeout(300), pytest.mark.untimed]
LOST_STATUS: Final = "Internal error from Core"  # what grpc.aio tells where its write comes after the call's end


async def names(address: str, tls: Tls) -> set[str] | str:
    """The services that a replica lists to a client that is not Braid's; the status where it refuses."""
    assert tls.ca is not None
    files = (each.read_bytes() for each in (tls.ca, tls.key, tls.certificate))
    async with grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(*files)) as channel:
        call = channel.stream_stream(
            REFLECTION_PATH,
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )(timeout=20)
        try:
            await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
            await call.done_writing()
            found = [each async for each in call]
        except grpc.aio.AioRpcError as error:
            if error.details() == LOST_STATUS:
                return await names(address, tls)
            return f"{error.code().name} {error.details()}"
    return {each.name for answer in found for each in answer.list_services_response.service}


@asynccontextmanager
async def registry(directory: Path, access: str) -> AsyncIterator[Processes]:
    processes = Processes(directory, Authority.make(), ACCESS=access)
    try:
        await processes.start("registry-0")
        yield processes
    finally:
        await processes.close()


async def test_reflection_needs_a_viewer_and_no_revoked_certificate(tmp_path: Path) -> None:
    async with registry(tmp_path, "enforced") as processes, AsyncExitStack() as stack:
        address = processes.ready["registry-0"]["address"]
        tls = processes.authority.client(tmp_path / "alice", ALICE)
        ann = await client(stack, processes, "registry", ANN)
        refused = await names(address, tls)
        assert isinstance(refused, str), "a certificate without a grant lists methods"
        assert refused.startswith("PERMISSION_DENIED ServerReflectionInfo")
        spec = grants.GrantSpec(principal=ALICE, role=grants.ACCESS_ROLE_VIEWER)
        await ann.unary("GrantAccess", grants.GrantAccessRequest(spec=spec), grants.Grant, timeout_seconds=20.0)
        assert "braid.api.registry.v1.RegistryService" in await names(address, tls)
        identity, _, expire_ms = read_certificate(tls.certificate, "certificate")
        stolen = revocations.RevokeIdentityRequest(identity=identity, reason="stolen", expire_time_ms=expire_ms)
        answer = revocations.RevokeIdentityResponse
        await ann.unary("RevokeIdentity", stolen, answer, timeout_seconds=20.0)

        async def revoked() -> bool:
            return "was revoked: stolen" in str(await names(address, tls))

        await until(revoked, "a revoked certificate lists methods", 20.0)

        async def found() -> bool:
            calls = [each.call_recorded for each in await recorded(ann) if each.metadata.actor == ALICE]
            mine = [each for each in calls if each.rpc == "ServerReflectionInfo"]
            return {each.reason for each in mine if each.outcome == CALL_OUTCOME_REFUSED} == {"denied", "revoked"}

        await until(found, "both refusals are recorded", 20.0)


async def test_it_is_as_open_as_other_calls_where_access_is(tmp_path: Path) -> None:
    async with registry(tmp_path, "open") as processes:
        tls = processes.authority.client(tmp_path / "alice", ALICE)
        assert "grpc.health.v1.Health" in await names(processes.ready["registry-0"]["address"], tls)
