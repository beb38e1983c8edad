"""compose.yaml, played: its commands and settings, read from the file, carry records as processes of this machine."""

import asyncio
import signal
from collections.abc import Iterator

import pytest

import braid
from braid.api.registry.v1.grant_pb2 import Grant, GrantAccessRequest, GrantSpec
from braid.api.registry.v1.registry_service_pb2 import (
    CreateStreamRequest,
    ListClustersRequest,
    ListClustersResponse,
)
from braid.api.registry.v1.stream_pb2 import LaneSpec, Stream, StreamSpec
from braid.cli.manifests.declarations import read_files
from braid.host.store_credentials import StoreCredentials
from braid.host.system import system_host
from braid.host.tls.paths import Tls
from braid.kernel.errors import AccessDenied, StoreAccessDenied, Unavailable
from braid.stores.etcd import EtcdStore
from tests.support.compose import ENDPOINT, HANG_SECONDS, ROOT, Played, read_compose
from tests.support.planted import planted_record

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """Everything the file starts without a profile, in the order it asks for."""
    services = {name: each for name, each in read_compose().items() if not each.profiles}
    mesh = Played(services, tmp_path_factory.mktemp("compose"))
    try:
        mesh.start_all()
        yield mesh
    finally:
        mesh.end()


def connected(mesh: Played, holder: str = "me") -> braid.Mesh:
    """The SDK with a certificate; by default the one that `make up` copies."""
    certificate, key, ca = (mesh.file("tls", f"{holder}/{name}") for name in ("certificate.pem", "key.pem", "ca.pem"))
    return braid.connect(mesh.here(ENDPOINT), tls=braid.Tls(certificate, key, ca))


async def take(client: braid.Mesh, count: int) -> list[bytes]:
    """Takes and acknowledges so many records, in the order of their values."""
    values: list[bytes] = []
    async with asyncio.timeout(HANG_SECONDS), client.consumer(["played"], group="reader") as consumer:
        async for record in consumer:
            values.append(record.value or b"")
            record.ack()
            if len(values) == count:
                break
    return sorted(values)


async def test_the_registry_knows_clusters_by_the_hosts_addresses(played: Played) -> None:
    async with connected(played) as client:
        answer = await client.service("registry").unary("ListClusters", ListClustersRequest(), ListClustersResponse)
    assert {each.name: (each.spec.bootstrap, each.spec.zone) for each in answer.clusters} == {
        "east": (played.here("127.0.0.1:19192"), "a"),
        "west": (played.here("127.0.0.1:19194"), "b"),
    }


async def test_nobody_is_served_without_a_certificate(played: Played) -> None:
    with pytest.raises(Unavailable, match="the server wants mutual TLS"):
        async with braid.connect(played.here(ENDPOINT)):
            pytest.fail("somebody without a certificate was let in")
    store = EtcdStore([played.here("127.0.0.1:19292")], system_host())
    with pytest.raises(StoreAccessDenied, match="the server wants TLS"):
        await store.mesh()
    await store.close()


async def test_an_applications_certificate_does_not_open_the_store(played: Played) -> None:
    own = [played.file("tls", f"me/{name}") for name in ("certificate.pem", "key.pem")]
    tls = Tls(own[0], own[1], played.file("tls", "registry-0/store/ca.pem"))
    store = EtcdStore([played.here("127.0.0.1:19292")], system_host(), StoreCredentials(tls))
    with pytest.raises(StoreAccessDenied, match="the server does not trust the authority"):
        await store.mesh()
    await store.close()


async def test_an_application_without_a_grant_is_refused(played: Played) -> None:
    spec = StreamSpec(lanes={"live": LaneSpec(partitions=1)}, replication_factor=1)
    async with connected(played, "event-store") as client:
        with pytest.raises(AccessDenied, match=r"spiffe://braid\.local/app/event-store may not change stream/stolen"):
            await client.service("registry").unary(
                "CreateStream", CreateStreamRequest(name="stolen", spec=spec), Stream
            )


async def test_the_spark_jobs_grants_let_it_read_its_stream_alone(played: Played) -> None:
    async with connected(played) as client:
        registry = client.service("registry")
        for each in read_files([ROOT / "deploy" / "logs.yaml", ROOT / "deploy" / "event-store.yaml"]):
            if isinstance(each.spec, StreamSpec):
                stream = CreateStreamRequest(name=each.name, spec=each.spec)
                await registry.unary("CreateStream", stream, Stream, timeout_seconds=120.0)
            elif isinstance(each.spec, GrantSpec):
                await registry.unary("GrantAccess", GrantAccessRequest(spec=each.spec), Grant)
        async with client.producer("logs") as producer:
            await producer.send(planted_record("for Spark"), lane="live")
    async with connected(played, "event-store") as client:
        async with asyncio.timeout(HANG_SECONDS), client.consumer(["logs"], group="event-store") as consumer:
            async for record in consumer:
                assert record.value == planted_record("for Spark")
                record.ack()
                break
        with pytest.raises(AccessDenied, match="group/other"):
            async with asyncio.timeout(HANG_SECONDS), client.consumer(["logs"], group="other") as consumer:
                async for _ in consumer:
                    pytest.fail("it reads for a group of others")


def test_certificates_are_made_once_and_stay(played: Played) -> None:
    key = played.file("tls", "registry-0/key.pem")
    before = key.read_bytes()
    assert played.run("certs", HANG_SECONDS) == 0
    assert key.read_bytes() == before
    assert key.stat().st_mode & 0o077 == 0
    assert not played.file("tls", "registry-0/ca").exists()


def test_the_step_that_runs_once_may_run_again(played: Played) -> None:
    assert played.run("init", HANG_SECONDS) == 0
    assert played.log("init").endswith("(none registered now)")


async def test_records_flow_also_while_a_member_of_the_store_dies(played: Played) -> None:
    spec = StreamSpec(lanes={"live": LaneSpec(partitions=2)}, replication_factor=1)
    request = CreateStreamRequest(name="played", spec=spec)
    before, after = ([planted_record(f"{when} {number:02}") for number in range(20)] for when in ("before", "after"))
    async with connected(played) as client:
        await client.service("registry").unary("CreateStream", request, Stream, timeout_seconds=120.0)
        async with client.producer("played") as producer:
            for value in before:
                await producer.send(value, lane="live", key=value)
            assert await take(client, len(before)) == before
            played.kill("etcd-0")
            for value in after:
                await producer.send(value, lane="live")
        assert await take(client, len(after)) == after
    played.start("etcd-0")
    await asyncio.to_thread(played.wait_healthy, "etcd-0")


@pytest.mark.parametrize("name", ["registry-1", "west"])
def test_a_health_check_tells_frozen_and_dead_from_healthy(played: Played, name: str) -> None:
    played.wait_healthy(name)
    played.signal(name, signal.SIGSTOP)
    try:
        assert not played.is_healthy(name)
    finally:
        played.signal(name, signal.SIGCONT)
    played.wait_healthy(name)
    played.kill(name)
    assert not played.is_healthy(name)
