"""Real replicas with certificates: changing over while in use, health checks, metrics, refusals to start."""

import asyncio
import os
import signal
import sys
import urllib.request
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from google.protobuf.wrappers_pb2 import Int64Value

from braid.host.system import system_host
from braid.host.tls.files import TlsFiles
from braid.host.tls.paths import Tls
from braid.rpc.directory import Directory
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.mesh_client import ServiceClient
from testbed.authority import SERVICE, Authority
from testbed.patience import until
from testbed.ports import free_port
from tests.integration.test_runtime_serve import CALL_SECONDS, ROOT, Machine, Process

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(300)]

REPLICAS = ("registry-0", "registry-1")


class Client:
    """Adds to a counter, wherever it is served."""

    def __init__(self, addresses: str, tls: Tls | None) -> None:
        host = system_host()
        self._directory = Directory(GrpcTransport(TlsFiles(tls) if tls else None), host, addresses.split(","))
        self._client = ServiceClient(self._directory, "registry", host, principal="alice")

    async def add(self) -> int:
        """The counter's value, one more than before."""
        answer = await self._client.unary("Add", Int64Value(value=1), Int64Value, timeout_seconds=CALL_SECONDS)
        return answer.value

    async def close(self) -> None:
        """Ends its connections."""
        await self._directory.close()


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    """A directory and its processes."""
    made = Machine(tmp_path)
    yield made
    await made.close()


def settings_of(tls: Tls, mode: str) -> dict[str, str]:
    """Settings of a replica in a mode."""
    return {
        "tls_mode": mode,
        "tls_certificate": str(tls.certificate),
        "tls_key": str(tls.key),
        "tls_ca": str(tls.ca),
        "tls_reload_seconds": "0.01",
    }


async def read(url: str) -> str:
    """The contents of a metrics endpoint."""
    return await asyncio.to_thread(lambda: urllib.request.urlopen(url).read().decode())


def metric(text: str, name: str) -> float:
    """A metric without labels."""
    return next(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(f"{name} "))


async def test_a_mesh_changes_over_to_tls_while_it_is_used(machine: Machine, tmp_path: Path) -> None:
    authority = Authority.make()
    tls, alice = authority.service(tmp_path / "server"), authority.client(tmp_path / "alice")
    running: dict[str, Process] = {}
    plaintext = {instance: f"127.0.0.1:{free_port()}" for instance in REPLICAS}
    mutual = {instance: f"127.0.0.1:{free_port()}" for instance in REPLICAS}

    async def restart(instance: str, mode: str) -> dict[str, str]:
        if instance in running:
            assert (await running[instance].end(signal.SIGTERM))[0] == 0
        listen = mutual if mode == "required" else plaintext
        settings = {**settings_of(tls, mode), "listen": listen[instance], "tls_listen": mutual[instance]}
        running[instance] = await machine.start(instance, **settings)
        return await running[instance].ready()

    for instance in REPLICAS:
        assert (await restart(instance, "off"))["tls_address"] == ""
    plain = Client(",".join(plaintext.values()), None)
    count = await plain.add()
    for instance in REPLICAS:
        ready = await restart(instance, "permissive")
        assert (ready["address"], ready["tls_address"]) == (plaintext[instance], mutual[instance])
        count += 1
        assert await plain.add() == count
    secure = Client(",".join(mutual.values()), alice)
    for client in (secure, plain, secure):
        count += 1
        assert await client.add() == count
    await plain.close()
    for instance in REPLICAS:
        ready = await restart(instance, "required")
        assert ready["address"] == ready["tls_address"] == mutual[instance]
        count += 1
        assert await secure.add() == count
    await secure.close()


async def test_health_and_metrics_of_a_replica_with_a_certificate(machine: Machine, tmp_path: Path) -> None:
    authority = Authority.make()
    tls = authority.service(tmp_path / "server")
    started = await machine.start("registry-0", **settings_of(tls, ""))
    ready = await started.ready()
    assert ready["health"] not in ("", ready["address"])
    probe = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "braid.runtime.health"),
        cwd=ROOT,
        env={**os.environ, "BRAID_READY_FILE": str(machine.directory / "registry-0.0.json"), "BRAID_LISTEN": "a:1"},
    )
    assert await probe.wait() == 0
    told = await read(ready["metrics"])
    assert metric(told, "braid_tls_certificate_expiry_seconds") == pytest.approx(30 * 86_400, abs=300)
    authority_seconds = (authority.certificate.not_valid_after_utc - datetime.now(UTC)).total_seconds()
    assert metric(told, "braid_tls_authority_expiry_seconds") == pytest.approx(authority_seconds, abs=300)
    assert metric(told, "braid_tls_files_unusable_total") == 0

    tls.certificate.write_text("half a certifi")

    async def counted() -> bool:
        return metric(await read(ready["metrics"]), "braid_tls_files_unusable_total") == 1

    await until(counted, "the unusable file is counted")
    client = Client(ready["address"], authority.client(tmp_path / "client"))
    assert await client.add() == 1  # with what was read before
    await client.close()
    code, log = await started.end(signal.SIGTERM)
    assert code == 0
    assert log.count("the TLS files changed and cannot be used") == 1


async def test_a_replica_does_not_start_with_files_it_cannot_use(machine: Machine, tmp_path: Path) -> None:
    authority = Authority.make()
    tls = authority.write(tmp_path / "server", uris=[SERVICE])
    tls.key.chmod(0o644)
    started = await machine.start("registry-0", **settings_of(tls, "required"))
    code, log = await started.end(signal.SIGCONT)
    assert code == 1
    assert f"registry-0: tls.key: {tls.key} is open to other users (its mode is 0644)" in log
