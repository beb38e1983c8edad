"""A running plaintext mesh becomes one of mutual TLS and enforced rights by restarts, one after another, under load."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest

import braid
from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.api.registry.v1 import grant_pb2 as grants
from braid.api.registry.v1 import registry_service_pb2 as registry_api
from braid.kernel.errors import Unavailable
from devmesh.processes.brokers import KafkaBroker
from testbed.authority import Authority
from testbed.patience import in_time, until
from testbed.ports import free_port
from tests.support.numbered_load import NumberedLoad
from tests.support.service_process import ServiceProcess, start_service

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(400)]

INSTANCES: Final = ("registry-0", "registry-1", "assigner-0", "assigner-1")
ANN: Final = "spiffe://test.local/user/ann"
SHOP: Final = "spiffe://test.local/app/shop"
READY_SECONDS: Final = 60.0
MORE: Final = 20  # records that are handled after each step
STREAM: Final = "orders"


class Mesh:
    """Services over one store, each of which may be restarted in another mode."""

    def __init__(self, directory: Path, authority: Authority) -> None:
        self.plain = {instance: f"127.0.0.1:{free_port()}" for instance in INSTANCES}
        self.mutual = {instance: f"127.0.0.1:{free_port()}" for instance in INSTANCES}
        self._directory = directory
        self._authority = authority
        self._running: dict[str, ServiceProcess] = {}

    async def restart(self, instance: str, mode: str) -> None:
        """Ends a replica, if it runs, and starts it in a mode; waits until it serves."""
        await self.end(instance)
        ready = self._directory / f"{instance}.json"
        ready.unlink(missing_ok=True)
        settings = {
            "STORE": f"sqlite://{self._directory}/store.db",
            "INSTANCE": instance,
            "READY_FILE": str(ready),
            "LISTEN": (self.mutual if mode == "required" else self.plain)[instance],
            "PARENT_PID": str(os.getpid()),
            "TLS_MODE": mode,
        }
        if mode != "off":
            tls = self._authority.service(self._directory / instance, f"spiffe://test.local/service/{instance}")
            settings |= {"TLS_CERTIFICATE": str(tls.certificate), "TLS_KEY": str(tls.key), "TLS_CA": str(tls.ca)}
            settings |= {"TLS_LISTEN": self.mutual[instance], "ADMINS": ANN}
        settings["ACCESS"] = "enforced" if mode == "required" else "open"
        log, module = self._directory / f"{instance}-{mode}.log", f"services.{instance.partition('-')[0]}"
        environment = {**os.environ, **{f"BRAID_{name}": value for name, value in settings.items()}}
        self._running[instance] = start_service(module, log, environment)
        await until(ready.exists, f"{instance} serves", READY_SECONDS)
        assert json.loads(ready.read_text())["address"] == settings["LISTEN"]

    async def end(self, instance: str) -> None:
        """Ends a replica as an operator does."""
        if instance in self._running:
            self._running[instance].terminate()
            assert await in_time(self._running.pop(instance).wait(), "it ends") == 0

    def connect(self, uri: str = "") -> braid.Mesh:
        """The SDK, by the addresses of plain text, or with a certificate by those of mutual TLS."""
        if not uri:
            return braid.connect(",".join(self.plain.values()), client_id="shop")
        tls = self._authority.client(self._directory / uri.rpartition("/")[2], uri)
        return braid.connect(",".join(self.mutual.values()), client_id="shop", tls=tls)


class Shop(NumberedLoad):
    """An application that sends numbers and handles them; what it has sent outlives its restart."""

    async def open(self, mesh: braid.Mesh) -> AsyncExitStack:
        """Works over a connection. What is returned ends that, once everything that was acknowledged is handled."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(mesh)
            producer = await stack.enter_async_context(mesh.producer(STREAM))
            consumer = await stack.enter_async_context(mesh.consumer([STREAM], group="billing"))
            handling = asyncio.ensure_future(consumer.run(self.handle))
            stack.push_async_callback(self._end, asyncio.ensure_future(self.send(producer, 0.02)), handling)
            return stack.pop_all()
        raise AssertionError

    async def step(self) -> None:
        """Waits until records that are sent from now on are handled."""
        await self.more(MORE, 60.0)

    async def _end(self, *works: "asyncio.Future[None]") -> None:
        """Ends one work after the other, once everything that was acknowledged is handled."""
        for each in works:
            each.cancel()
            await asyncio.gather(each, return_exceptions=True)
            lacking = f"what was acknowledged is handled: {self.failures[:3]}"
            await until(lambda: self.acknowledged <= self.handled.keys(), lacking, 60)


@pytest.fixture
async def mesh(tmp_path: Path) -> AsyncIterator[Mesh]:
    """Two registries and two assigners in plain text."""
    made = Mesh(tmp_path, Authority.make())
    try:
        for instance in INSTANCES:
            await made.restart(instance, "off")
        yield made
    finally:
        for instance in INSTANCES:
            await made.end(instance)


async def declare(mesh: Mesh, broker: KafkaBroker) -> None:
    """Registers the cluster, and makes a stream on it."""
    spec = cluster_pb2.ClusterSpec(bootstrap=broker.bootstrap, allow_auto_create_topics=True)
    stream = stream_pb2.StreamSpec(lanes={"live": stream_pb2.LaneSpec(partitions=4)}, replication_factor=1)
    async with mesh.connect() as client:
        registry = client.service("registry")
        request = registry_api.CreateClusterRequest(name="north", spec=spec)
        await registry.unary("CreateCluster", request, cluster_pb2.Cluster, timeout_seconds=60)
        made = registry_api.CreateStreamRequest(name=STREAM, spec=stream)
        await registry.unary("CreateStream", made, stream_pb2.Stream, timeout_seconds=60)


async def grant(mesh: Mesh) -> None:
    """Grants the application what it does, as the admin of the settings."""
    producer, consumer = grants.ACCESS_ROLE_PRODUCER, grants.ACCESS_ROLE_CONSUMER
    async with mesh.connect(ANN) as client:
        for role, resource in (
            (producer, f"stream/{STREAM}"),
            (consumer, f"stream/{STREAM}"),
            (consumer, "group/billing"),
        ):
            spec = grants.GrantSpec(principal=SHOP, role=role, resource=resource)
            request = grants.GrantAccessRequest(spec=spec)
            await client.service("registry").unary("GrantAccess", request, grants.Grant, timeout_seconds=60)


async def test_a_mesh_under_load_rolls_to_tls_and_rights(mesh: Mesh, north: KafkaBroker) -> None:
    await declare(mesh, north)
    shop = Shop()
    works = await shop.open(mesh.connect())
    await shop.step()
    for instance in INSTANCES:
        await mesh.restart(instance, "permissive")
        await shop.step()
    await grant(mesh)
    await works.aclose()
    works = await shop.open(mesh.connect(SHOP))
    await shop.step()
    for instance in INSTANCES:
        await mesh.restart(instance, "required")
        await shop.step()
    await works.aclose()
    assert not shop.failures
    print(f"{len(shop.acknowledged)} records acknowledged, {len(shop.handled)} handled")
    with pytest.raises(Unavailable):
        async with mesh.connect():
            pytest.fail("somebody without a certificate was let in")
    async with mesh.connect("spiffe://test.local/app/other") as other:
        with pytest.raises(braid.AccessDenied):
            await other.service("registry").unary(
                "GetStream", registry_api.GetStreamRequest(name=STREAM), stream_pb2.Stream
            )
