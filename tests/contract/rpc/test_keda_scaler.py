"""KEDA's external scaler as KEDA calls it: the generated client of its protocol, over gRPC with mutual TLS."""

import asyncio
import importlib.util
import sys
from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

import grpc
import pytest
from grpc_tools import protoc

from braid.api.keda import externalscaler_pb2 as keda
from braid.host.system import system_host
from braid.host.tls.files import TlsFiles
from braid.kafka.memory import MemoryKafka
from braid.kernel.access.grants import ServicePrincipals
from braid.kernel.errors import Unavailable
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.tls import channel_credentials
from braid.runtime.access.settings import AccessMode, AccessSettings
from braid.runtime.replica import Replica
from braid.stores.memory import MemoryStore
from braid.stores.memory_server import MemoryStoreServer
from services.assigner.model.commands import RegisterGroup
from services.assigner.model.lag.scaling import CapacityLimit, ScalingMode, ScalingPolicy, SeenRates
from services.assigner.model.lag.scaling_events import DesireCapacity, SetScaling
from services.assigner.reconciler.group_loop import GROUPS
from services.assigner.servicer.service import Assigner
from testbed.authority import ALICE, Authority
from tests.unit.assigner.groups import SPEC, seen, view

KEDA = "spiffe://braid.local/app/keda"
INDEXER = {"group": "indexer", "scalerAddress": "braid-assigner:7402"}


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The client that protoc generates from the protocol."""
    target = tmp_path_factory.mktemp("stubs")
    proto = "braid/api/keda/externalscaler.proto"
    well_known = str(files("grpc_tools") / "_proto")
    paths = ["--proto_path=protos-foreign", f"--proto_path={well_known}"]
    assert protoc.main(["protoc", *paths, f"--grpc_python_out={target}", proto]) == 0
    made = target / "braid" / "api" / "keda" / "externalscaler_pb2_grpc.py"
    spec = importlib.util.spec_from_file_location("externalscaler_pb2_grpc", made)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules.pop("externalscaler_pb2_grpc", None)
    return module


@pytest.fixture
async def assigner(authority: Authority, tmp_path: Path) -> AsyncIterator[Replica]:
    """A replica that enforces rights, with a group that should have 6 members."""
    host = system_host()
    store = MemoryStore(host, MemoryStoreServer(host.clock))
    files = TlsFiles(authority.service(tmp_path / "server", "spiffe://braid.local/service/assigner-0"))
    access = AccessSettings(AccessMode.ENFORCED, admins=(KEDA,), services=ServicePrincipals("braid.local"))
    service = Assigner(MemoryKafka(host.clock))
    replica = Replica(
        service, host, store, GrpcTransport(files), address="127.0.0.1:0", instance="assigner-0", access=access
    )
    running = asyncio.ensure_future(replica.run())
    try:
        await replica.ready()
        async with asyncio.timeout(20):
            while not (replica.leading() and knows_grants(replica)):  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.02)
        await execute(replica, RegisterGroup(SPEC, view(10, seen())))
        await execute(replica, SetScaling(ScalingPolicy(ScalingMode.AUTOMATIC, 1, 8)))
        scaling = replica.aggregates.state(GROUPS, "indexer").scaling
        await execute(replica, DesireCapacity(6, "late", CapacityLimit.NONE, SeenRates(3, 1.0, 2.0, 0.5), scaling))
        yield replica
    finally:
        running.cancel()
        await asyncio.wait((running,))


async def execute(replica: Replica, command: Any) -> None:
    await replica.aggregates.execute(GROUPS, "indexer", command, actor="test")


def knows_grants(replica: Replica) -> bool:
    """Whether the replica has read the grants: before, nobody is refused for good."""
    try:
        replica.access.require_known()
    except Unavailable:
        return False
    return True


def connect(replica: Replica, authority: Authority, directory: Path, principal: str) -> grpc.aio.Channel:
    """A plain channel of grpc, as any client of the protocol has it."""
    credentials = channel_credentials(TlsFiles(authority.client(directory, principal)).current())
    return grpc.aio.secure_channel(replica.address, credentials)


async def test_keda_reads_the_number_with_its_own_client(
    stubs: ModuleType, assigner: Replica, authority: Authority, tmp_path: Path
) -> None:
    ref = keda.ScaledObjectRef(name="indexer", namespace="apps", scalerMetadata=INDEXER)
    async with connect(assigner, authority, tmp_path / "keda", KEDA) as channel:
        scaler = stubs.ExternalScalerStub(channel)
        assert (await scaler.IsActive(ref, timeout=10)).result
        (spec,) = (await scaler.GetMetricSpec(ref, timeout=10)).metricSpecs
        request = keda.GetMetricsRequest(scaledObjectRef=ref, metricName=spec.metricName)
        (value,) = (await scaler.GetMetrics(request, timeout=10)).metricValues
        assert (spec.targetSize, value.metricName, value.metricValue) == (1, spec.metricName, 6)
        stream = scaler.StreamIsActive(ref, timeout=20)
        assert (await stream.read()).result
        stream.cancel()
        absent = keda.ScaledObjectRef(name="indexer", scalerMetadata={"group": "nobody"})
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await scaler.IsActive(absent, timeout=10)
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND


async def test_a_stranger_is_told_no_number(
    stubs: ModuleType, assigner: Replica, authority: Authority, tmp_path: Path
) -> None:
    ref = keda.ScaledObjectRef(name="indexer", scalerMetadata=INDEXER)
    async with connect(assigner, authority, tmp_path / "stranger", ALICE) as channel:
        scaler = stubs.ExternalScalerStub(channel)
        for method, request in (
            (scaler.IsActive, ref),
            (scaler.GetMetrics, keda.GetMetricsRequest(scaledObjectRef=ref, metricName="desired-members")),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await method(request, timeout=10)
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_a_newer_keda_learns_that_its_stream_is_not_served(
    assigner: Replica, authority: Authority, tmp_path: Path
) -> None:
    """KEDA 2.21 asks for a stream of specifications, too, and goes on without one where it is unknown."""
    ref = keda.ScaledObjectRef(name="indexer", namespace="apps", scalerMetadata=INDEXER)
    async with connect(assigner, authority, tmp_path / "keda", KEDA) as channel:
        path = "/externalscaler.ExternalScaler/StreamMetricSpec"
        stream: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(path)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stream(ref.SerializeToString(), timeout=10).read()
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
