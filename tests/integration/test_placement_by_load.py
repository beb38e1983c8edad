"""Placement by load on real processes: steady load moves nothing, a slow handler does, a leader change does not."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

import braid
from braid.api.assigner.v1 import group_pb2
from braid.api.assigner.v1.assigner_service_pb2 import CreateGroupRequest, ExplainLeaseRequest, ExplainLeaseResponse
from braid.api.registry.v1.registry_service_pb2 import CreateStreamRequest
from braid.api.registry.v1.stream_pb2 import LaneSpec, Stream, StreamSpec
from braid.kafka.partitioner import murmur2
from braid.kernel.limits import LOAD_SETTLE_SECONDS
from devmesh.mesh import DevMesh
from tests.support.grounds import wait_healthy
from tests.support.leading import leader
from tests.support.patience import Deadline, until

ROOT: Final = Path(__file__).parents[2]
PARTITIONS: Final = 8
RECORDS_PER_SECOND: Final = 80
STEADY_SECONDS: Final = 12.0
SHIFT_SECONDS: Final = 15.0
SHARE_MIN: Final = 0.9  # of the machine's time; below it, handlers take longer for somebody else's work
LEASE_MS: Final = 10_000  # nobody may lose a lease because the machine stalls
MEMBERS: Final = ("web-0", "web-1")

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]
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

        def look() -> bool:
            for name, process in self._processes.items():
                assert process.returncode is None, self._log(name).with_suffix(".err").read_text()
            return condition()

        return await until(look, lambda: str([self.held(name) for name in self._processes]), seconds)

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
def local(one_cluster: DevMesh) -> DevMesh:
    """One cluster, one registry, two assigners; all healthy."""
    wait_healthy(one_cluster)
    return one_cluster


async def test_load_decides_and_a_new_leader_moves_nothing(local: DevMesh, tmp_path: Path) -> None:
    async with braid.connect(local.ready.endpoint) as mesh:
        spec = StreamSpec(lanes={"live": LaneSpec(partitions=PARTITIONS)}, replication_factor=1)
        await mesh.service("registry").unary("CreateStream", CreateStreamRequest(name="logs", spec=spec), Stream)
        wanted = group_pb2.GroupSpec(streams=["logs"], lease_ms=LEASE_MS, fencing=group_pb2.FENCING_GENERATION)
        request = CreateGroupRequest(name="loaded", spec=wanted)
        await mesh.service("assigner").unary("CreateGroup", request, group_pb2.Group, timeout_seconds=60)
        members = Members(tmp_path, local.ready.endpoint)
        try:
            async with sending(mesh):
                await play(members, mesh, local)
        finally:
            await members.close()


async def come_to_rest(members: Members) -> None:
    """Waits until nothing has moved for as long as a lease's new cost takes to be learnt."""

    async def rested() -> bool:
        before = members.released()
        await asyncio.sleep(LOAD_SETTLE_SECONDS + 6)
        return members.released() == before and bool(members.counts())

    await until(rested, "the leases come to rest", 120)


async def quiet(members: Members, seconds: float, what: str) -> bool:
    """Whether nothing moves for so long. What moves on a machine that gave all its time fails the test at once: where
    it did not, handlers were slower than they are, and moves by load are right."""
    counts, before, given = members.counts(), members.released(), Deadline(seconds)
    await asyncio.sleep(seconds)
    now = (members.counts(), members.released())
    print(f"{what}: {counts} before, {now[0]} after, {now[1] - before} moved, {given.share:.0%} of the time given")
    assert now == (counts, before) or given.share < SHARE_MIN, what
    return now == (counts, before)


async def reasons(mesh: braid.Mesh, lease: str) -> list[str]:
    """Why a lease is where it is."""
    told = await mesh.service("assigner").unary("ExplainLease", ExplainLeaseRequest(lease=lease), ExplainLeaseResponse)
    return [reason.text for reason in told.reasons]


async def play(members: Members, mesh: braid.Mesh, local: DevMesh) -> None:
    """Two members, steady; then one of them slow; then another leader."""
    for name in MEMBERS:
        await members.start(name)
    await members.until(lambda: members.counts() == [4, 4], 30)

    await asyncio.sleep(LOAD_SETTLE_SECONDS)
    assert await once_of_three(lambda: quiet(members, STEADY_SECONDS, "steady load moves nothing"), members)

    counts, held, given = members.counts(), members.held("web-0"), Deadline(SHIFT_SECONDS)
    members.signal("web-0", signal.SIGUSR1)
    took = await members.until(lambda: sum(members.counts()) > 0 and members.counts()[0] < counts[0], 60)
    print(f"a slow handler moved partitions after {took:.1f} s, {given.share:.0%} given: {members.counts()}")
    assert took <= SHIFT_SECONDS or given.share < SHARE_MIN
    (moved, *_) = sorted(held - members.held("web-0"))
    told = await reasons(mesh, moved)
    assert any("balanced by load: web-0 bore" in text for text in told), told

    await come_to_rest(members)
    counts = members.counts()
    print(f"at rest: {counts}, {members.released()} moved in all")
    assert counts[0] < counts[1]
    assert await once_of_three(lambda: another_leads(members, mesh, local), members)


async def another_leads(members: Members, mesh: braid.Mesh, local: DevMesh) -> bool:
    """Kills the leader; whether nothing moves. Never may anything move but by load."""
    before = {name: members.held(name) for name in MEMBERS}
    killed = await leader(mesh)
    await local.kill(killed)
    try:
        still = await quiet(members, LOAD_SETTLE_SECONDS + 8, "a leader change moves nothing")
    finally:
        await local.start(killed)
    for lease in {lease for name in MEMBERS for lease in before[name] - members.held(name)}:
        told = await reasons(mesh, lease)
        assert any("balanced by load" in text for text in told), told
    return still


async def once_of_three(attempt: Callable[[], Awaitable[bool]], members: Members) -> bool:
    """Whether an attempt succeeds; after one that a starved machine spoilt, there is another."""
    for _ in range(3):
        if await attempt():
            return True
        await come_to_rest(members)
    return False
