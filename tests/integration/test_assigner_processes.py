"""Real assigner and member processes over one SQLite file: leaders and members killed with -9, takeovers measured."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2
from braid.host.system import system_host
from braid.rpc.directory import Directory
from braid.rpc.grpc_transport import GrpcTransport
from braid.rpc.mesh_client import ServiceClient
from testbed.patience import until

ROOT = Path(__file__).parents[2]
TAKEOVERS = 8


class Machine:
    """Processes over one store; ends what is left."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.processes: dict[str, asyncio.subprocess.Process] = {}
        self.addresses: dict[str, str] = {}
        self.told = directory / "channels.json"
        self.told.write_text("[]")
        self.host = system_host()
        self.mesh: Directory | None = None

    def tell(self, *channels: tuple[str, int, str]) -> None:
        """What the registry says: (name, partitions, state) each."""
        keys = ("name", "partitions", "state")
        part = self.told.with_suffix(".part")
        part.write_text(json.dumps([dict(zip(keys, channel, strict=True)) for channel in channels]))
        part.replace(self.told)

    async def service(self, instance: str, module: str) -> None:
        """Starts a replica and waits until it serves."""
        ready = self.directory / f"{instance}.json"
        settings = {"STORE": f"sqlite://{self.directory}/store.db", "INSTANCE": instance, "READY_FILE": str(ready)}
        settings["TOLD_CHANNELS"] = str(self.told)
        await self._start(instance, {f"BRAID_{name}": value for name, value in settings.items()}, "-m", module)
        await self.until(ready.exists)
        self.addresses[instance] = json.loads(ready.read_text())["address"]

    async def member(self, client_id: str) -> None:
        """Starts a member."""
        arguments = (self.addresses["assigner-1"], client_id, str(self.directory / f"{client_id}.log"))
        await self._start(client_id, {}, "-m", "tests.support.lease_member", *arguments)

    async def _start(self, name: str, variables: dict[str, str], *arguments: str) -> None:
        with (self.directory / f"{name}.err").open("w") as errors:
            self.processes[name] = await asyncio.create_subprocess_exec(
                sys.executable,
                *arguments,
                cwd=ROOT,
                env={**os.environ, **variables},
                stdout=asyncio.subprocess.DEVNULL,
                stderr=errors,
            )

    async def kill(self, name: str) -> float:
        """kill -9; returns when, on the boot clock."""
        process = self.processes.pop(name)
        at = time.clock_gettime(time.CLOCK_BOOTTIME)
        process.send_signal(signal.SIGKILL)
        await process.wait()
        return at

    async def close(self) -> None:
        """Kills what still runs."""
        for name in list(self.processes):
            await self.kill(name)
        if self.mesh is not None:
            await self.mesh.close()

    async def until(self, condition: Callable[[], object], seconds: float = 30.0) -> None:
        """Waits until a condition holds."""

        def look() -> object:
            for name, process in self.processes.items():
                assert process.returncode is None, (self.directory / f"{name}.err").read_text()
            return condition()

        await until(look, self._holdings, seconds, poll=0.02)

    def _holdings(self) -> str:
        """What every member's log says it holds."""
        return str({path.stem: sorted(self.held(path.stem)) for path in sorted(self.directory.glob("*.log"))})

    def client(self) -> ServiceClient:
        """A client of the assigners."""
        if self.mesh is None:
            self.mesh = Directory(GrpcTransport(), self.host, [self.addresses["assigner-1"]])
        return ServiceClient(self.mesh, "assigner", self.host)

    def leader(self) -> str:
        """The assigner that leads, as the client knows."""
        assert self.mesh is not None
        address = self.mesh.leader("assigner")
        return next(name for name, known in self.addresses.items() if known == address and name in self.processes)

    def log(self, client_id: str) -> list[dict[str, object]]:
        """What a member was told."""
        path = self.directory / f"{client_id}.log"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def held(self, client_id: str) -> dict[str, int]:
        """What a member holds, by its log: lease and epoch."""
        held: dict[str, int] = {}
        for line in self.log(client_id):
            if line["what"] == "granted":
                held[str(line["lease"])] = int(str(line["epoch"]))
            else:
                held.pop(str(line["lease"]), None)
        return held

    def balanced(self, members: Sequence[str], partitions: int) -> bool:
        """Whether these members hold everything, each lease once, evenly."""
        held = [self.held(name) for name in members]
        leases = [lease for each in held for lease in each]
        counts = [len(each) for each in held]
        return len(leases) == len(set(leases)) == partitions and max(counts) - min(counts) <= 1


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    """A registry, two assigners, and a group whose one channel appeared later, so that no Kafka is needed."""
    made = Machine(tmp_path)
    try:
        made.tell(("logs/live/1", 12, "STANDBY"))
        await made.service("registry-0", "testbed.members.told_registry")
        await made.service("assigner-0", "services.assigner")
        await made.service("assigner-1", "services.assigner")
        spec = group_pb2.GroupSpec(streams=["logs"], lease_ms=1_000, fencing=group_pb2.FENCING_NONE)
        request = api.CreateGroupRequest(name="indexer", spec=spec)
        await made.client().unary("CreateGroup", request, group_pb2.Group, timeout_seconds=20)
        made.tell(("logs/live/1", 12, "ACTIVE"))
        yield made
    finally:
        await made.close()


@pytest.mark.timeout(600)
async def test_killed_members_are_replaced_at_once(machine: Machine) -> None:
    members = ["web-0", "web-1", "web-2"]
    for name in members:
        await machine.member(name)
    await machine.until(lambda: machine.balanced(members, 12))
    took: list[float] = []
    for number in range(3, 3 + TAKEOVERS):
        victim, *members = members
        lost = machine.held(victim)
        killed = await machine.kill(victim)
        await machine.until(lambda survivors=tuple(members): machine.balanced(survivors, 12))  # type: ignore[misc]
        lines = [line for name in members for line in machine.log(name)]
        regained = [line for line in lines if line["what"] == "granted" and float(str(line["at"])) > killed]
        assert {str(line["lease"]) for line in regained} >= set(lost)
        assert all(int(str(line["epoch"])) > lost.get(str(line["lease"]), 0) for line in regained)
        took.append(max(float(str(line["at"])) for line in regained) - killed)
        members.append(f"web-{number}")
        await machine.member(members[-1])
        await machine.until(lambda all_of=tuple(members): machine.balanced(all_of, 12))  # type: ignore[misc]
    figures = sorted(round(seconds * 1000) for seconds in took)
    print(f"kill -9 of a member to its last lease granted elsewhere: {figures} ms")


@pytest.mark.timeout(600)
async def test_a_killed_leader_moves_nothing(machine: Machine) -> None:
    members = ["web-0", "web-1", "web-2"]
    for name in members:
        await machine.member(name)
    await machine.until(lambda: machine.balanced(members, 12))
    before = {name: machine.held(name) for name in members}
    await machine.client().unary("ListGroups", api.ListGroupsRequest(stream="logs"), api.ListGroupsResponse)
    killed = await machine.kill(machine.leader())
    request = api.ListGroupsRequest(stream="logs", lane="live")
    await machine.client().unary("ListGroups", request, api.ListGroupsResponse, timeout_seconds=30)
    print(f"first answer of the new leader after {time.clock_gettime(time.CLOCK_BOOTTIME) - killed:.2f} s")
    await asyncio.sleep(4.5)  # beyond the new leader's grace, in which it expires nobody
    assert {name: machine.held(name) for name in members} == before
    leases = await machine.client().unary("ListLeases", api.ListLeasesRequest(), api.ListLeasesResponse)
    assert {lease.name: lease.epoch for lease in leases.leases} == {n: e for h in before.values() for n, e in h.items()}
    lost = machine.held("web-0")
    killed = await machine.kill("web-0")
    await machine.until(lambda: machine.balanced(members[1:], 12))
    lines = [line for name in members[1:] for line in machine.log(name) if str(line["lease"]) in lost]
    took = max(float(str(line["at"])) for line in lines if line["what"] == "granted") - killed
    print(f"kill -9 of a member under the new leader to its last lease granted elsewhere: {took * 1000:.0f} ms")
