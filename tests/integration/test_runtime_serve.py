"""Two real processes over one SQLite file: leadership, kill -9, redirects, graceful ends, failures to start."""

import asyncio
import json
import os
import signal
import sys
import time
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from google.protobuf.wrappers_pb2 import Int64Value, StringValue

from braid.api.mesh.v1.event_pb2 import EventRecord, ListEventsRequest, ListEventsResponse, WatchEventsRequest
from braid.host.system import system_host
from braid.kernel.errors import Invalid, NotLeader, Unavailable
from braid.kernel.ports import CallOptions
from braid.rpc.directory import Directory
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.mesh_client import ServiceClient
from braid.rpc.methods import method_path
from testbed.patience import in_time, until

pytestmark = pytest.mark.untimed

ROOT = Path(__file__).parents[2]
CALL_SECONDS = 60.0  # by the wall: a call that is not answered at all


class Process:
    """A replica that was started in its own process."""

    def __init__(self, process: asyncio.subprocess.Process, ready_file: Path) -> None:
        self.process = process
        self._ready_file = ready_file

    async def ready(self) -> dict[str, str]:
        """Waits for the ready file."""

        def there() -> bool:
            assert self.process.returncode is None, "the process ended early"
            return self._ready_file.exists()

        await until(there, "it serves", poll=0.01)
        found: dict[str, str] = json.loads(self._ready_file.read_text())
        return found

    async def end(self, number: signal.Signals) -> tuple[int, str]:
        """Sends a signal; returns exit code and stderr."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        _, stderr = await in_time(self.process.communicate(), "it ends")
        return self.process.returncode or 0, stderr.decode()


class Machine:
    """Starts replicas over one store and ends what is left."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = f"sqlite://{directory}/store.db"
        self._started: list[Process] = []

    async def start(self, instance: str, **settings: str) -> Process:
        """Starts a replica; settings are environment variables without their prefix."""
        ready_file = self.directory / f"{instance}.{len(self._started)}.json"
        values = {"store": self.store, "instance": instance, "ready_file": str(ready_file), **settings}
        variables = {f"BRAID_{name.upper()}": value for name, value in values.items()}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tests.support.counter_process"),
            cwd=ROOT,
            env={**os.environ, **variables},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        self._started.append(Process(process, ready_file))
        return self._started[-1]

    async def close(self) -> None:
        """Kills what still runs."""
        for started in self._started:
            await started.end(signal.SIGKILL)


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    """A directory and its processes."""
    made = Machine(tmp_path)
    yield made
    await made.close()


def _client(address: str) -> tuple[Directory, ServiceClient]:
    host = system_host()
    directory = Directory(GrpcTransport(), host, [address])
    return directory, ServiceClient(directory, "registry", host, principal="alice")


async def _add(client: ServiceClient, amount: int) -> int:
    return (await client.unary("Add", Int64Value(value=amount), Int64Value, timeout_seconds=CALL_SECONDS)).value


async def test_a_killed_leader_is_replaced_without_acknowledged_loss(machine: Machine) -> None:
    first = await machine.start("registry-0")
    ready = [await first.ready()]
    directory, client = _client(ready[0]["address"])
    assert await _add(client, 1) == 1
    second = await machine.start("registry-1")
    ready.append(await second.ready())
    while len(directory.endpoints) < 2:
        await asyncio.sleep(0.05)
        await directory.refresh()
    assert directory.leader("registry") == ready[0]["address"]

    acknowledged = 1
    killed = 0.0
    for number in range(40):
        if number == 20:
            first.process.send_signal(signal.SIGKILL)
            killed = time.monotonic()
        acknowledged += 1
        assert await _add(client, 1) == acknowledged
        if number == 20:
            print(f"first answer of the new leader after {time.monotonic() - killed:.2f} s")
    assert directory.leader("registry") == ready[1]["address"]

    code, log = await second.end(signal.SIGTERM)
    assert code == 0, log
    await directory.close()


async def test_a_follower_redirects_and_lists_and_watches(machine: Machine) -> None:
    first = await machine.start("registry-0")
    leader = (await first.ready())["address"]
    directory, client = _client(leader)
    assert await _add(client, 5) == 5
    follower = (await (await machine.start("registry-1")).ready())["address"]
    channel = directory.channel(follower)
    with pytest.raises(NotLeader) as redirect:
        await channel.unary(method_path("registry", "Add"), Int64Value(value=1), Int64Value, CallOptions(CALL_SECONDS))
    assert redirect.value.leader == leader
    with pytest.raises(Invalid) as refused:
        await _add(client, -1)
    assert refused.value.field == "amount"

    watch = channel.server_stream(
        method_path("registry", "WatchEvents"),
        WatchEventsRequest(history="counter/total"),
        EventRecord,
        CallOptions(CALL_SECONDS),
    )
    seen = asyncio.ensure_future(anext(watch))

    async def told() -> bool:
        await _add(client, 7)
        await asyncio.wait((seen,), timeout=0.1)
        return seen.done()

    await until(told, "the watch tells of it")
    assert seen.result().type == "Added"
    assert seen.result().metadata.actor == "alice"
    listed = await channel.unary(
        method_path("registry", "ListEvents"),
        ListEventsRequest(history="counter/total", page_size=1),
        ListEventsResponse,
        CallOptions(CALL_SECONDS),
    )
    assert [(record.sequence, record.type) for record in listed.events] == [(1, "Added")]
    page = await channel.unary(
        method_path("registry", "ListEvents"),
        ListEventsRequest(history="counter/total", page_token=listed.next_page_token),
        ListEventsResponse,
        CallOptions(CALL_SECONDS),
    )
    assert page.events[0].sequence == 2
    read = await client.unary("Read", StringValue(value="terms"), Int64Value, any_replica=True)
    assert read.value == 1
    await directory.close()


async def test_graceful_end_hands_over_at_once(machine: Machine) -> None:
    first = await machine.start("registry-0")
    directory, client = _client((await first.ready())["address"])
    await _add(client, 1)
    second = await machine.start("registry-1")
    await second.ready()

    async def both() -> bool:  # it serves a moment before it stands in the directory
        await directory.refresh()
        return len(directory.endpoints) == 2

    await until(both, "both replicas stand in the directory")
    begun = time.monotonic()
    code, log = await first.end(signal.SIGTERM)
    assert code == 0, log
    assert await _add(client, 1) == 2
    print(f"handed over in {time.monotonic() - begun:.2f} s")
    records = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert {"leading", "no longer leading", "serving"} <= {record["event"] for record in records}
    frozen = next(record["frozen"] for record in records if record["event"] == "serving")
    assert frozen > 10_000, "the garbage collector looks at all that was loaded"
    assert {record["instance"] for record in records if record["logger"] == "braid.registry" and "instance" in record}
    await directory.close()


async def test_metrics_are_served(machine: Machine) -> None:
    first = await machine.start("registry-0")
    ready = await first.ready()
    directory, client = _client(ready["address"])
    await _add(client, 1)

    def scrape() -> str:
        with urllib.request.urlopen(ready["metrics"], timeout=CALL_SECONDS) as response:
            body: bytes = response.read()
        return body.decode()

    text = await asyncio.to_thread(scrape)
    assert 'braid_service_info{instance="registry-0",service="registry"} 1.0' in text
    assert 'braid_rpc_seconds_count{code="OK",method="Add"} 1.0' in text
    assert "braid_leader 1.0" in text
    await directory.close()


async def test_a_port_in_use_ends_with_its_reason(machine: Machine) -> None:
    address = (await (await machine.start("registry-0")).ready())["address"]
    second = await machine.start("registry-1", listen=address)
    _, stderr = await in_time(second.process.communicate(), "it ends")
    assert second.process.returncode == 1
    assert stderr.decode().splitlines()[-1] == f"registry-1: cannot listen on {address} (is the port in use?)"


async def test_an_unknown_store_ends_with_its_reason(machine: Machine) -> None:
    process = await machine.start("registry-0", store="redis://x")
    _, stderr = await in_time(process.process.communicate(), "it ends")
    assert process.process.returncode == 1
    assert "names no event store" in stderr.decode().splitlines()[-1]


async def test_it_ends_with_its_parent(machine: Machine) -> None:
    first = await machine.start("registry-0", parent_pid="1")
    _, stderr = await in_time(first.process.communicate(), "it ends")
    assert first.process.returncode == 0, stderr
    directory, client = _client("127.0.0.1:1")
    with pytest.raises(Unavailable, match="no replica of the mesh answers"):
        await client.unary("Add", Int64Value(value=1), Int64Value, timeout_seconds=0.3)
    await directory.close()
