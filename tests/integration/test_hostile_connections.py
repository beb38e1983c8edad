"""A real replica with a thousand clients that connect and stall: others are served, and what stalls is closed."""

import asyncio
import ssl
import time
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import median
from typing import Final

import grpc
import psutil
import pytest
from google.protobuf.wrappers_pb2 import Int64Value
from grpc_health.v1 import health_pb2, health_pb2_grpc

from braid.host.system import system_host
from braid.host.tls.files import TlsFiles
from braid.host.tls.paths import Tls
from braid.kernel.limits.rpc import HANDSHAKE_SECONDS
from braid.rpc.directory import Directory
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.mesh_client import ServiceClient
from testbed.authority import Authority
from testbed.patience import until
from testbed.stalled import HALF_HELLO, NO_CALL, NO_PREFACE, NO_SETTINGS, NOTHING, Stalled
from tests.integration.test_mutual_tls_processes import settings_of
from tests.integration.test_runtime_serve import CALL_SECONDS, Machine

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(300)]

# Connections of each kind. Those that last longest come first, and those that are opened fastest last: a stalled
# handshake is closed after ten seconds, and a thousand must be open when the honest client is measured.
EACH: Final = {NO_CALL: 200, NO_PREFACE: 50, NO_SETTINGS: 50, HALF_HELLO: 400, NOTHING: 400}
OPEN_MIN: Final = 1_000
BLOCKS: Final = 1  # of measurements, each with connections of its own; more for better figures
BESIDE: Final = 300  # at the ports of health checks and metrics
MEMORY_MIB: Final = 150.0  # that a thousand connections may take


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    """A directory and its processes."""
    made = Machine(tmp_path)
    yield made
    await made.close()


class Honest:
    """A client that calls, opens connections, asks for health and scrapes; each time is measured."""

    def __init__(self, ready: dict[str, str], tls: Tls) -> None:
        self._ready = ready
        self._tls = tls
        self._host = system_host()
        self._directory, self._client = self._connected()
        self.value = 0

    def _connected(self) -> tuple[Directory, ServiceClient]:
        directory = Directory(GrpcTransport(TlsFiles(self._tls)), self._host, [self._ready["address"]])
        return directory, ServiceClient(directory, "registry", self._host, principal="alice")

    async def _add(self, client: ServiceClient) -> None:
        self.value += 1
        found = await client.unary("Add", Int64Value(value=1), Int64Value, timeout_seconds=CALL_SECONDS)
        assert found.value == self.value

    async def call(self) -> None:
        """A call on a connection that is open."""
        await self._add(self._client)

    async def connect(self) -> None:
        """A new connection and a call."""
        directory, client = self._connected()
        await self._add(client)
        await directory.close()

    async def check(self) -> None:
        """A health check without a certificate."""
        async with grpc.aio.insecure_channel(self._ready["health"]) as channel:
            answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=30)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING

    async def scrape(self) -> None:
        """A scrape of the metrics."""
        context = (
            ssl.create_default_context(cafile=self._tls.ca) if self._ready["metrics"].startswith("https") else None
        )

        def read() -> bytes:
            with urllib.request.urlopen(self._ready["metrics"], timeout=30, context=context) as answer:
                return bytes(answer.read())

        assert b"braid_service_info" in await asyncio.to_thread(read)

    async def measured(self, rounds: int = 20) -> dict[str, list[float]]:
        """The times of each, milliseconds."""
        found: dict[str, list[float]] = {}
        for _ in range(rounds):
            for work in (self.call, self.connect, self.check, self.scrape):
                begun = time.perf_counter()
                await work()
                found.setdefault(work.__name__, []).append((time.perf_counter() - begun) * 1_000)
        return found

    async def close(self) -> None:
        """Ends its connections."""
        await self._directory.close()


async def test_a_thousand_connections_that_stall_hold_up_nobody(machine: Machine, tmp_path: Path) -> None:
    authority = Authority.make()
    tls, alice = authority.service(tmp_path / "server"), authority.client(tmp_path / "alice")
    started = await machine.start("registry-0", **settings_of(tls, "required"))
    ready, process = await started.ready(), psutil.Process(started.process.pid)
    honest = Honest(ready, alice)
    await honest.measured(3)
    without, with_ = list[dict[str, list[float]]](), list[dict[str, list[float]]]()
    before, memory = process.num_fds(), process.memory_info().rss
    metrics = ready["metrics"].partition("://")[2].partition("/")[0]
    for _ in range(BLOCKS):
        without.append(await honest.measured())
        with (
            Stalled(ready["address"], alice) as stalled,
            Stalled(ready["health"], alice) as checks,
            Stalled(metrics, alice) as scrapes,
        ):
            await asyncio.to_thread(open_all, stalled, checks, scrapes)
            await until(lambda: connections(process, ready["address"]) >= OPEN_MIN, "a thousand are open at once")
            opened = connections(process, ready["address"])
            with_.append(await honest.measured())
            left = connections(process, ready["address"])
            grown = (process.memory_info().rss - memory) / (1 << 20)
            print(f"{opened} open, {left} after the measurement, {grown:.0f} MiB")
            assert grown < MEMORY_MIB

            async def closed() -> bool:
                return process.num_fds() <= before + EACH[NO_CALL] + 20  # those without a call have longer

            await until(closed, "what stalls is closed", 5 * HANDSHAKE_SECONDS)
            await honest.measured(3)
    print(f"ms, without and with them: {medians(without)}, {medians(with_)}")
    await honest.close()


def open_all(stalled: Stalled, checks: Stalled, scrapes: Stalled) -> None:
    """Opens all connections, those of the replica's own port last: most of them are closed soonest."""
    for _ in range(BESIDE):
        scrapes.open(NOTHING)
        checks.open(NOTHING)
    for kind, count in EACH.items():
        for _ in range(count):
            stalled.open(kind)


def connections(process: psutil.Process, address: str) -> int:
    """How many connections a process has open at an address."""
    port = int(address.rpartition(":")[2])
    found = process.net_connections("tcp")
    return sum(each.laddr.port == port and each.status == psutil.CONN_ESTABLISHED for each in found)


def medians(blocks: list[dict[str, list[float]]]) -> dict[str, float]:
    """The median of each work over all blocks."""
    return {name: round(median(each for block in blocks for each in block[name]), 1) for name in blocks[0]}
