"""Placement by load on real processes: steady load moves nothing, a slow handler does, a leader change does not."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

import braid
from braid.api.assigner.v1.assigner_service_pb2 import ExplainLeaseRequest, ExplainLeaseResponse
from braid.api.mesh.v1.endpoint_pb2 import ListEndpointsRequest, ListEndpointsResponse
from braid.api.registry.v1.registry_service_pb2 import CreateStreamRequest
from braid.api.registry.v1.stream_pb2 import LaneSpec, Stream, StreamSpec
from braid.kafka.partitioner import murmur2
from braid.kernel.limits import LOAD_SETTLE_SECONDS
from devmesh.mesh import DevMesh
from tests.support.mesh import running_mesh

ROOT: Final = Path(__file__).parents[2]
PARTITIONS: Final = 8
RECORDS_PER_SECOND: Final = 80
STEADY_SECONDS: Final = 12.0
SHIFT_SECONDS: Final = 15.0
MEMBERS: Final = ("web-0", "web-1")

pytestmark = [pytest.mark.real, pytest.mark.timeout(240)]
KEYS: Final = {(murmur2(key) & 0x7FFFFFFF) % PARTITIONS: key for key in (b"%d" % number for number in range(200))}


class Members:
    """Consumer processes, and what they say they hold."""

    def __init__(self, directory: Path, endpoint: str) -> None:
        self._directory = directory
        self._endpoint = endpoint
        self._processes: dict[str, asyncio.subprocess.Process] = {}

    async def start(self, name: str) -> None:
        """One more."""
        arguments = ("-m", "tests.support.loaded_member", self._endpoint, "loaded", name, str(self._log(name)))
        self._log(name).touch()
        with self._log(name).with_suffix(".err").open("w") as errors:
            self._processes[name] = await asyncio.create_subprocess_exec(
                sys.executable, *arguments, cwd=ROOT, stderr=errors, env=os.environ
            )

    def signal(self, name: str, number: signal.Signals) -> None:
        """To one of them."""
        self._processes[name].send_signal(number)

    async def close(self) -> None:
        """Kills them."""
        for process in self._processes.values():
            if process.returncode is None:
                process.kill()
            await process.wait()

    def held(self, name: str) -> set[str]:
        """What it holds, by its log."""
        held: set[str] = set()
        for line in self._lines(name):
            if line["what"] == "granted":
                held.add(line["lease"])
            else:
                held.discard(line["lease"])
        return held

    def released(self) -> int:
        """How many leases were ever given up."""
        return sum(line["what"] == "released" for name in self._processes for line in self._lines(name))

    def counts(self) -> list[int]:
        """How many each holds; empty while any lease is nobody's."""
        counts = [len(self.held(name)) for name in self._processes]
        return counts if sum(counts) == PARTITIONS else []

    async def until(self, condition: Callable[[], bool], seconds: float) -> float:
        """Waits for a condition; returns how long it took."""
        began = time.monotonic()
        while not condition():
            assert time.monotonic() - began < seconds, (
                f"{[self.held(name) for name in self._processes]} after {seconds} s"
            )
            for name, process in self._processes.items():
                assert process.returncode is None, self._log(name).with_suffix(".err").read_text()
            await asyncio.sleep(0.05)
        return time.monotonic() - began

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"

    def _lines(self, name: str) -> list[dict[str, str]]:
        return [json.loads(line) for line in self._log(name).read_text().splitlines()]


@asynccontextmanager
async def sending(mesh: braid.Mesh) -> AsyncIterator[None]:
    """Sends to every partition at a steady rate."""

    async def send(producer: braid.Producer) -> None:
        number = 0
        while True:
            due = time.monotonic() + 1 / RECORDS_PER_SECOND
            await producer.send(b"%d" % number, key=KEYS[number % PARTITIONS])
            number += 1
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async with mesh.producer("logs") as producer:
        task = asyncio.create_task(send(producer))
        try:
            yield
            assert not task.done(), task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def local(tmp_path: Path) -> Iterator[DevMesh]:
    """One cluster, one registry, two assigners."""
    with running_mesh(tmp_path / "mesh", clusters=("east",), registries=1, assigners=2) as running:
        yield running


async def test_load_decides_and_a_new_leader_moves_nothing(local: DevMesh, tmp_path: Path) -> None:
    async with braid.connect(local.ready.endpoint) as mesh:
        spec = StreamSpec(lanes={"live": LaneSpec(partitions=PARTITIONS)}, replication_factor=1)
        await mesh.service("registry").unary("CreateStream", CreateStreamRequest(name="logs", spec=spec), Stream)
        members = Members(tmp_path, local.ready.endpoint)
        try:
            async with sending(mesh):
                await play(members, mesh, local)
        finally:
            await members.close()


async def leader(mesh: braid.Mesh) -> str:
    """The assigner that leads."""
    told = await mesh.service("assigner").unary("ListEndpoints", ListEndpointsRequest(), ListEndpointsResponse)
    return next(each.instance for each in told.endpoints if each.service == "assigner" and each.leader)


async def come_to_rest(members: Members) -> None:
    """Waits until nothing has moved for as long as a lease's new cost takes to be learnt."""
    while True:
        before = members.released()
        await asyncio.sleep(LOAD_SETTLE_SECONDS + 6)
        if members.released() == before and members.counts():
            return


async def play(members: Members, mesh: braid.Mesh, local: DevMesh) -> None:
    """Two members, steady; then one of them slow; then another leader."""
    for name in MEMBERS:
        await members.start(name)
    await members.until(lambda: members.counts() == [4, 4], 30)

    await asyncio.sleep(LOAD_SETTLE_SECONDS)
    before = members.released()
    await asyncio.sleep(STEADY_SECONDS)
    assert members.released() == before, "steady load moves nothing"

    members.signal("web-0", signal.SIGUSR1)
    held = members.held("web-0")
    took = await members.until(lambda: members.counts() not in ([], [4, 4]), SHIFT_SECONDS)
    print(f"a slow handler moved partitions after {took:.1f} s: {members.counts()}")
    (moved, *_) = sorted(held - members.held("web-0"))
    told = await mesh.service("assigner").unary("ExplainLease", ExplainLeaseRequest(lease=moved), ExplainLeaseResponse)
    assert any("balanced by load: web-0 bore" in reason.text for reason in told.reasons), told

    await come_to_rest(members)
    counts, before = members.counts(), members.released()
    print(f"at rest: {counts}, {before} moved in all")
    assert counts[0] < counts[1]
    await local.kill(await leader(mesh))
    await asyncio.sleep(LOAD_SETTLE_SECONDS + 8)
    assert (members.counts(), members.released()) == (counts, before), "a leader change moves nothing"
