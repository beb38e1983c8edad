"""Heartbeats of many members on one assigner, together and one by one: `python -m bench.heartbeats`.

Assigners run as real processes over SQLite, each with clients in another process, over real gRPC. One has 10,000
members (`--units`) whose heartbeats travel together by connection. Two have a few hundred with a stream each, as in
earlier releases. The table compares the assigner's CPU per acknowledged heartbeat, over windows of some seconds in
which all of them beat twice a second. The cost of the process without members is included.
"""

import asyncio
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil

from bench.harness.arguments import asked
from bench.harness.contest import tell_round
from bench.harness.rounds import Sample, rows, verdict
from bench.harness.tables import Table, made_with
from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2
from braid.host.system import system_host
from braid.host.tls.files import TlsFiles
from braid.rpc.directory import Directory
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.mesh_client import ServiceClient
from testbed.members.identities import Identities
from testbed.members.many_members import JOINING_MAX

ROOT: Final = Path(__file__).parents[1]
PEER: Final = "a stream each"
AGAIN: Final = "a stream each, again"
OURS: Final = "together by connection"
MEMBERS_PER_CONNECTION: Final = 100
PEER_MEMBERS_MAX: Final = 200  # for each of the two peers: a core could not bear thousands
WINDOW_SECONDS: Final = 5.0
JOIN_SECONDS: Final = 600.0
LEASE_MS: Final = 10_000  # beats as often as the default of 3 s; all members join from one process beside the assigner


class Population(NamedTuple):
    """A number of members, whether their heartbeats travel together, and whether over mutual TLS with rights."""

    members: int
    shared: bool
    secure: bool = False


@dataclass
class Side:
    """An assigner and its members."""

    population: Population
    assigner: psutil.Process
    clients: asyncio.subprocess.Process
    told: Path
    joined_seconds: float = 0.0
    joined_cpu: float = 0.0
    answers_ms: list[float] = field(default_factory=list)
    lost: int = 0

    def cpu(self) -> float:
        """CPU seconds its assigner has used."""
        times = self.assigner.cpu_times()
        return float(times.user + times.system)

    async def ask(self) -> dict[str, Any]:
        """The members' counts since the last question."""
        assert self.clients.stdin is not None
        assert self.clients.stdout is not None
        self.clients.stdin.write(b"\n")
        await self.clients.stdin.drain()
        found: dict[str, Any] = json.loads(await self.clients.stdout.readline())
        return found

    async def settle(self) -> None:
        """Waits until all have joined, and beat as they are to."""
        began, wanted = time.perf_counter(), self.population.members
        while time.perf_counter() - began < JOIN_SECONDS:
            seen = await self.ask()
            if seen["welcomed"] == wanted and not self.joined_seconds:
                self.joined_seconds, self.joined_cpu = time.perf_counter() - began, self.cpu()
                print(f"{wanted} have joined after {self.joined_seconds:.1f} s", file=sys.stderr)
                tell(self.told, wanted, "ACTIVE")
            if seen["granted"] >= wanted and seen["carried"] == (wanted if self.population.shared else 0):
                return
            await asyncio.sleep(0.25)
        raise TimeoutError(f"not all of {wanted} members joined and settled within {JOIN_SECONDS:g} s: {seen}")


def tell(path: Path, partitions: int, state: str) -> None:
    """Sets the registry's description of the one channel."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps([{"name": "logs/live/1", "partitions": partitions, "state": state}]))
    part.replace(path)


class Ground:
    """Processes over stores of their own, ended with it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started: list[asyncio.subprocess.Process] = []

    async def side(self, name: str, population: Population) -> Side:
        """An assigner, told of a registry's one channel, and members that begin to join."""
        place = self._directory / name
        place.mkdir()
        told = place / "channels.json"
        tell(told, population.members, "STANDBY")
        identities = Identities(place / "identities") if population.secure else None
        await self._service(place, "registry-0", "testbed.members.told_registry", identities)
        assigner, address = await self._service(place, "assigner-0", "services.assigner", identities)
        await register(address, identities)
        connections = max(2, population.members // MEMBERS_PER_CONNECTION)
        way = "shared" if population.shared else "own"
        clients = await self._start(
            place, "clients", identities.of_caller() if identities else {}, "testbed.members.many_members",
            *(address, str(connections), str(population.members), "1", way),
        )  # fmt: skip
        return Side(population, psutil.Process(assigner.pid), clients, told)

    async def _service(
        self, place: Path, instance: str, module: str, identities: Identities | None
    ) -> tuple[asyncio.subprocess.Process, str]:
        ready = place / f"{instance}.json"
        settings = {
            "STORE": f"sqlite://{place}/store.db",
            "INSTANCE": instance,
            "READY_FILE": str(ready),
            "TOLD_CHANNELS": str(place / "channels.json"),
        }
        variables = {f"BRAID_{key}": value for key, value in settings.items()}
        variables |= identities.of_replica(instance) if identities else {}
        started = await self._start(place, instance, variables, module)
        async with asyncio.timeout(60.0):
            while not ready.exists():  # noqa: ASYNC110 - another process makes it
                await asyncio.sleep(0.02)
        return started, str(json.loads(ready.read_text())["address"])

    async def _start(
        self, place: Path, name: str, variables: Mapping[str, str], module: str, *arguments: str
    ) -> asyncio.subprocess.Process:
        with (place / f"{name}.err").open("w") as errors:
            started = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", module, *arguments),
                cwd=ROOT,
                env={**os.environ, **variables},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                limit=64 << 20,
            )
        self._started.append(started)
        return started

    async def close(self) -> None:
        """Kills everything."""
        for process in self._started:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def register(address: str, identities: Identities | None = None) -> None:
    """The members' group; its channel appears later, so that no start position is to be written to a broker."""
    host = system_host()
    files = TlsFiles(identities.caller) if identities else None
    directory = Directory(GrpcTransport(files), host, [address])
    spec = group_pb2.GroupSpec(streams=["logs"], lease_ms=LEASE_MS, fencing=group_pb2.FENCING_NONE)
    request = api.CreateGroupRequest(name="group-0", spec=spec)
    await ServiceClient(directory, "assigner", host).unary("CreateGroup", request, group_pb2.Group, timeout_seconds=30)
    await directory.close()


@contextlib.asynccontextmanager
async def ground() -> AsyncIterator[Ground]:
    """A place for processes."""
    with tempfile.TemporaryDirectory(prefix="braid-heartbeats-") as directory:
        made = Ground(Path(directory))
        try:
            yield made
        finally:
            await made.close()


async def window(sides: Mapping[str, Side], seconds: float) -> dict[str, Sample]:
    """The cost of some seconds of heartbeats, for each assigner."""
    before = {name: (side.cpu(), time.perf_counter(), await side.ask()) for name, side in sides.items()}
    await asyncio.sleep(seconds)
    samples = {}
    for name, side in sides.items():
        cpu, wall, _ = before[name]
        seen = await side.ask()
        samples[name] = Sample(seen["heartbeats"], side.cpu() - cpu, time.perf_counter() - wall)
        side.answers_ms += seen["answer_ms"]
        side.lost += seen["again"] + seen["lost"] + len(seen["refused"])
    return samples


async def contest(members: int, rounds: int, seconds: float) -> Table:
    """Joins everybody, then plays windows."""
    populations = {
        OURS: Population(members, shared=True),
        PEER: Population(min(members, PEER_MEMBERS_MAX), shared=False),
        AGAIN: Population(min(members, PEER_MEMBERS_MAX), shared=False),
    }
    samples: dict[str, list[Sample]] = {name: [] for name in populations}
    async with ground() as made:
        sides: dict[str, Side] = {}
        for number, (name, population) in enumerate(populations.items()):
            sides[name] = await made.side(str(number), population)
            await sides[name].settle()
        for number in range(rounds + 1):
            for name, sample in (await window(sides, seconds)).items():
                if number:
                    samples[name].append(sample)
            tell_round(number, rounds)
    found = rows({name: samples[name] for name in (PEER, AGAIN, OURS)}, PEER, "cpu")
    lost = sum(side.lost for side in sides.values())
    broken = f"void: {lost} members or leases were lost" if lost else ""
    return Table(
        "heartbeats", "heartbeat", "cpu", broken or verdict(found, AGAIN), facts(sides, samples), found, made_with()
    )


def facts(sides: Mapping[str, Side], samples: Mapping[str, list[Sample]]) -> dict[str, str]:
    """Facts that the table does not show."""
    told = {
        "work": "one group, granted a lease a member once all have joined, 2 heartbeats a second, leases of "
        f"{LEASE_MS / 1_000:g} s, {MEMBERS_PER_CONNECTION} members a connection; "
        "CPU of the assigner's process",
        "peer": "the same release with a Join stream for each member's heartbeats",
    }
    for name, side in sides.items():
        cores = statistics.median(sample.cpu_seconds / sample.wall_seconds for sample in samples[name])
        answers = sorted(side.answers_ms) or [0.0]
        p50, p99 = statistics.median(answers), answers[int(len(answers) * 0.99)]
        told[f"{side.population.members:,} members, {name}"] = (
            f"{cores:.3f} cores; answers {p50:.1f} ms p50, {p99:.1f} ms p99; {side.lost} lost; "
            f"joined, up to {JOINING_MAX} at a time, in {side.joined_seconds:.1f} s, {side.joined_cpu:.1f} s of CPU"
        )
    return told


def main() -> int:
    """Runs the benchmark; 1 when the run is void."""
    how = asked(__doc__, units=10_000, quick_units=200)
    table = asyncio.run(contest(how.units, how.rounds, 1.0 if how.quick else WINDOW_SECONDS))
    table.publish(how.directory)
    return int(bool(table.verdict) and not how.quick)


if __name__ == "__main__":
    sys.exit(main())
