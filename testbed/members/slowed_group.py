"""A group of real processes on a real mesh, of which one can be made ten times slower and fast again."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import braid
from braid.api.assigner.v1 import group_pb2
from braid.api.assigner.v1.assigner_service_pb2 import CreateGroupRequest
from braid.api.lagmon.v1.lagmon_service_pb2 import LagFilter, ListLagRequest, ListLagResponse
from braid.api.registry.v1.registry_service_pb2 import CreateStreamRequest
from braid.api.registry.v1.stream_pb2 import LaneSpec, Stream, StreamSpec
from testbed.members.steady_sender import steadily_sent
from testbed.patience import until

ROOT: Final = Path(__file__).parents[2]
MEMBERS: Final = ("web-0", "web-1", "web-2", "web-3")
SLOW: Final = MEMBERS[0]
PARTITIONS: Final = 12
EVEN: Final = PARTITIONS // len(MEMBERS)
RATE: Final = 60  # records a second: a slow member bears 10 of them, and one lease has 5
TARGET_SECONDS: Final = 2.0
EVEN_SECONDS: Final = 150.0  # until it is so at first; members that join apart are warmed up one after the other
LEASE_MS: Final = 10_000  # nobody may lose a lease because the machine stalls


class SlowedGroup:
    """The member processes, and the leases that they report."""

    def __init__(self, directory: Path, mesh: braid.Mesh, endpoint: str, name: str) -> None:
        self.name = name
        self._mesh = mesh
        self._directory = directory
        self._endpoint = endpoint
        self._slow = directory / "slow"
        self._processes: dict[str, asyncio.subprocess.Process] = {}

    async def start(self) -> None:
        """Starts the members; waits until they hold equal numbers."""
        self._directory.mkdir(exist_ok=True)
        for name in MEMBERS:
            arguments = (self._endpoint, self.name, name, str(self._log(name)), str(self._slow))
            slow = arguments if name == SLOW else (*arguments[:-1], str(self._directory / "never"))
            self._log(name).touch()
            with self._log(name).with_suffix(".err").open("w") as errors:
                self._processes[name] = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "testbed.members.slowable_member", *slow, cwd=ROOT, stderr=errors
                )
        even = [EVEN] * len(MEMBERS)
        await until(lambda: [self.held(name) for name in MEMBERS] == even, lambda: str(self), EVEN_SECONDS)

    async def close(self) -> None:
        """Kills all member processes."""
        for process in self._processes.values():
            if process.returncode is None:
                process.kill()
            await process.wait()

    def slow_down(self) -> None:
        """Makes the first member ten times slower from now on."""
        self._slow.touch()

    def recover(self) -> None:
        """Makes it as fast as the others again."""
        self._slow.unlink()

    def held(self, name: str) -> int:
        """How many leases a member holds, by its log. Fails if a member has ended."""
        for each, process in self._processes.items():
            assert process.returncode is None, self._log(each).with_suffix(".err").read_text()
        return self.counts(name)[-1][1]

    def counts(self, name: str) -> list[tuple[float, int]]:
        """When a member's number of leases changed, on the boot clock, and to what; the first is its start."""
        counts, held = [(0.0, 0)], set[str]()
        for line in self._log(name).read_text().splitlines():
            told = json.loads(line)
            held = held | {told["lease"]} if told["what"] == "granted" else held - {told["lease"]}
            counts.append((told["at"], len(held)))
        return counts

    def least(self, name: str, since: float) -> int:
        """The fewest leases that a member held since a moment of the boot clock."""
        counts = self.counts(name)
        before = [count for at, count in counts if at <= since][-1]
        return min(before, *(count for at, count in counts if at > since), before)

    async def lag(self) -> float | None:
        """How many seconds the group is behind, as lagmon says it; None where it does not know."""
        request = ListLagRequest(filter=LagFilter(group=self.name, stream=self.name, lane="live"))
        told = await self._mesh.service("lagmon").unary("ListLag", request, ListLagResponse)
        return max((each.lag_seconds for each in told.lags if not each.stale), default=None)

    def __str__(self) -> str:
        return str({name: self.counts(name)[-1][1] for name in MEMBERS})

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"


@asynccontextmanager
async def slowed_group(mesh: braid.Mesh, directory: Path, endpoint: str, name: str) -> AsyncIterator[SlowedGroup]:
    """Creates a stream with a lag target and a group of one name, sends to every partition, starts the members.

    Ends everything except the stream and the group.
    """
    lanes = {"live": LaneSpec(partitions=PARTITIONS)}
    spec = StreamSpec(lanes=lanes, replication_factor=1, lag_target={"live": f"{TARGET_SECONDS:g}s"})
    request = CreateStreamRequest(name=name, spec=spec)
    await mesh.service("registry").unary("CreateStream", request, Stream, timeout_seconds=60)
    wanted = group_pb2.GroupSpec(streams=[name], lease_ms=LEASE_MS, fencing=group_pb2.FENCING_GENERATION)
    create = CreateGroupRequest(name=name, spec=wanted)
    await mesh.service("assigner").unary("CreateGroup", create, group_pb2.Group, timeout_seconds=60)
    group = SlowedGroup(directory, mesh, endpoint, name)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(group.close)
        await stack.enter_async_context(steadily_sent(mesh, name, PARTITIONS, RATE))
        await group.start()
        yield group
