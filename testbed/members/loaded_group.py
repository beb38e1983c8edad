"""A group under load on a real mesh: two computing members, each on its own core, and a process that steals a core.

Records come at a steady rate to every partition, so what a partition costs is its handler's time alone.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import psutil

import braid
from braid.api.assigner.v1 import group_pb2
from braid.api.assigner.v1.assigner_service_pb2 import CreateGroupRequest, ExplainLeaseRequest, ExplainLeaseResponse
from braid.api.registry.v1.registry_service_pb2 import CreateStreamRequest
from braid.api.registry.v1.stream_pb2 import LaneSpec, Stream, StreamSpec
from braid.kernel.limits.assigner.placement import LOAD_SETTLE_SECONDS
from testbed.members.loaded_member import HANDLER_SECONDS
from testbed.members.steady_sender import steadily_sent
from testbed.patience import until

ROOT: Final = Path(__file__).parents[2]
MEMBERS: Final = ("web-0", "web-1")
PARTITIONS: Final = 8
RECORDS_PER_SECOND: Final = 30  # which keeps each member's core busy for less than a third of the time
HOGS: Final = 2  # the scheduler gives who wakes up more than its part: beside one, handlers may be hardly slower
HOG_PART_MIN: Final = 0.45  # of a core; below it, others compute on it too, and the members are as slow as each other
BUSY: Final = RECORDS_PER_SECOND * HANDLER_SECONDS / len(MEMBERS)
LEASE_MS: Final = 10_000  # nobody may lose a lease because the machine stalls
_HOG: Final = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True:\n    pass\n"


class Hog:
    """Processes that take all the time of a core that they can get."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._processes = [psutil.Process(pid) for pid in pids]
        self._began = time.monotonic()

    @property
    def part(self) -> float:
        """The share of the core that they got. A member that is busy a third of the time leaves more than half."""
        times = [process.cpu_times() for process in self._processes]
        return sum(each.user + each.system for each in times) / (time.monotonic() - self._began)


class LoadedGroup:
    """Consumer processes, and the leases they report."""

    def __init__(self, directory: Path, endpoint: str, name: str) -> None:
        cores = sorted(os.sched_getaffinity(0))
        self._directory = directory
        self._endpoint = endpoint
        self._name = name
        self._cores = dict(zip(MEMBERS, (cores[0], cores[-1]), strict=True))
        self._processes: dict[str, asyncio.subprocess.Process] = {}

    async def start(self) -> None:
        """Starts the members; waits until they hold equal numbers."""
        self._directory.mkdir(exist_ok=True)
        for name in MEMBERS:
            arguments = (self._endpoint, self._name, name, str(self._log(name)), str(self._cores[name]))
            self._log(name).touch()
            with self._log(name).with_suffix(".err").open("w") as errors:
                self._processes[name] = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "testbed.members.loaded_member", *arguments, cwd=ROOT, stderr=errors
                )
        await self.until(lambda: self.counts() == [PARTITIONS // len(MEMBERS)] * len(MEMBERS), 30)

    async def close(self) -> None:
        """Kills all member processes."""
        for process in self._processes.values():
            if process.returncode is None:
                process.kill()
            await process.wait()

    @asynccontextmanager
    async def hogged(self, name: str) -> AsyncIterator["Hog"]:
        """Runs an endless computation on a member's core."""
        arguments = (sys.executable, "-c", _HOG, str(self._cores[name]))
        processes = [await asyncio.create_subprocess_exec(*arguments) for _ in range(HOGS)]
        try:
            yield Hog([process.pid for process in processes])
            assert all(process.returncode is None for process in processes), "a hog has died"
        finally:
            for process in processes:
                process.kill()
                await process.wait()

    def held(self, name: str) -> set[str]:
        """The leases of a member, by its log."""
        held: set[str] = set()
        for line in self._lines(name):
            if line["what"] == "granted":
                held.add(line["lease"])
            else:
                held.discard(line["lease"])
        return held

    def released(self) -> int:
        """The number of leases ever released."""
        return sum(line["what"] == "released" for name in self._processes for line in self._lines(name))

    def counts(self) -> list[int]:
        """The number of leases per member; empty while any lease has no holder."""
        counts = [len(self.held(name)) for name in self._processes]
        return counts if sum(counts) == PARTITIONS else []

    def holds_less(self, name: str, before: set[str]) -> bool:
        """Whether a member has released a lease, and every lease has a holder."""
        return bool(self.counts()) and len(self.held(name)) < len(before)

    async def relieved(self, name: str, seconds: float) -> float:
        """Waits until a member holds less. Returns how long that took."""
        before = self.held(name)
        return await self.until(lambda: self.holds_less(name, before), seconds)

    async def come_to_rest(self) -> None:
        """Waits until no lease has moved for as long as its new cost takes to be measured."""

        async def rested() -> bool:
            before = self.released()
            await asyncio.sleep(LOAD_SETTLE_SECONDS + 6)
            return self.released() == before and bool(self.counts())

        await until(rested, "the leases come to rest", 120)

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
async def loaded_group(
    mesh: braid.Mesh, directory: Path, endpoint: str, name: str = "loaded"
) -> AsyncIterator[LoadedGroup]:
    """Creates stream and group of one name, sends to every partition, starts the members.

    Ends everything except the stream and the group.
    """
    spec = StreamSpec(lanes={"live": LaneSpec(partitions=PARTITIONS)}, replication_factor=1)
    await mesh.service("registry").unary("CreateStream", CreateStreamRequest(name=name, spec=spec), Stream)
    wanted = group_pb2.GroupSpec(streams=[name], lease_ms=LEASE_MS, fencing=group_pb2.FENCING_GENERATION)
    request = CreateGroupRequest(name=name, spec=wanted)
    await mesh.service("assigner").unary("CreateGroup", request, group_pb2.Group, timeout_seconds=60)
    group = LoadedGroup(directory, endpoint, name)
    try:
        async with steadily_sent(mesh, name, PARTITIONS, RECORDS_PER_SECOND):
            await group.start()
            yield group
    finally:
        await group.close()


async def reasons(mesh: braid.Mesh, lease: str) -> Sequence[str]:
    """Why a lease is where it is."""
    told = await mesh.service("assigner").unary("ExplainLease", ExplainLeaseRequest(lease=lease), ExplainLeaseResponse)
    return [reason.text for reason in told.reasons]
