"""Two real assigners over one real store, members in their own processes, and breakable connections between all.

Each assigner reaches the store, and is reached by everybody else, over its own wires (`testbed.wire`). What happened is
read afterwards: from the histories, the members' logs, and the broker.
"""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
import time
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiokafka.errors import KafkaError

import braid
from braid.api.assigner.v1.events_pb2 import AssignerEvent
from braid.api.mesh.v1.endpoint_pb2 import ListEndpointsRequest, ListEndpointsResponse
from braid.host.system import system_host
from braid.runtime.histories.kinds import RecordedEvent
from braid.runtime.opening import open_store
from braid.runtime.rpc_service import event_record
from devmesh.processes.forks.child import Child
from devmesh.processes.guard import spawn_guarded
from services.assigner.reconciler.group_loop import GROUPS
from testbed.checkers import facts
from testbed.feeding import fed
from testbed.ground.clusters import cluster_facts
from testbed.ground.histories import Histories
from testbed.members.identities import Identities
from testbed.members.telling_member import OWNERSHIPS, MemberEvent, MemberLog, group_of
from testbed.patience import Deadline, until
from testbed.ports import free_port
from testbed.wire import Wire

ROOT: Final = Path(__file__).parents[2]
ASSIGNERS: Final = ("assigner-0", "assigner-1")
PARTITIONS: Final = 8
SESSION_TTL_SECONDS: Final = 2.0  # what etcd grants at least
GRACE_SECONDS: Final = 3.3  # of a new leader, and a little
READY_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Shape:
    """The configuration of a pair.

    Attributes:
        stream: Its name, and the prefix of its groups' names.
        ownerships: Kinds of ownership, with a group for each.
        members: Number of members at the start.
        lease_seconds: Lease duration of the groups.
        session_seconds: Session duration of the assigners in the store.
        record_seconds: Time between two records of the load.
        secure: Whether all connections are mutual TLS, and rights are enforced.
    """

    stream: str
    ownerships: Sequence[str] = OWNERSHIPS
    members: int = 3
    lease_seconds: float = 1.0
    session_seconds: float = SESSION_TTL_SECONDS
    record_seconds: float = 0.02
    secure: bool = False


class AssignerPair:
    """The processes and wires of one stream's groups.

    Attributes:
        edges: The wire to each assigner.
        storage: Wires to the store's members, by assigner; none if the store is a file.
        judged_us: Everything up to this time, in microseconds, was checked against the invariants.
        given: Counts the time that the machine gave since then.
    """

    def __init__(self, shape: Shape, directory: Path, bootstrap: str, store: str, servers: Sequence[str] = ()) -> None:
        """Prepares a pair. `store` is the store's URL, `servers` its members' addresses."""
        self.shape = shape
        self.directory = directory
        self.stream = shape.stream
        self.groups = tuple(group_of(shape.stream, ownership) for ownership in shape.ownerships)
        self.edges: dict[str, Wire] = {}
        self.storage: dict[str, list[Wire]] = {}
        self._bootstrap = bootstrap
        self._store = store
        self._servers = servers
        self._processes: dict[str, Child] = {}
        self._paused: set[str] = set()
        self._ports: dict[str, int] = {}
        self._befell: list[tuple[int, facts.Fact]] = []
        self._members = itertools.count()
        self._logs: dict[str, MemberLog] = {}
        self._mesh: braid.Mesh | None = None
        self._host = system_host()
        self._histories = Histories()
        self._identities = Identities(directory / "identities") if shape.secure else None
        self.judged_us = 0
        self.given = Deadline(1.0)

    @property
    def topic(self) -> str:
        """The topic of the load."""
        return f"braid.{self.stream}.live.1"

    @property
    def mesh(self) -> braid.Mesh:
        """A client of the whole mesh."""
        assert self._mesh is not None
        return self._mesh

    # --- processes

    async def start(self, stack: AsyncExitStack) -> None:
        """Starts services, load and members, and waits until all leases are held; `stack` ends everything."""
        stack.callback(self._kill_all)
        channel = {"name": f"{self.stream}/live/1", "partitions": PARTITIONS, "state": "ACTIVE"}
        (self.directory / "channels.json").write_text(json.dumps([channel]))
        registry = await self._service("registry-0", "testbed.members.told_registry", self._store)
        for name in ASSIGNERS:
            self._ports[name] = free_port()
            self.storage[name] = [await self._wire(stack, server) for server in self._servers]
            self.edges[name] = await self._wire(stack, f"127.0.0.1:{self._ports[name]}")
        await asyncio.gather(*map(self.start_assigner, ASSIGNERS))
        tls = self._identities.caller if self._identities else None
        self._mesh = await stack.enter_async_context(braid.connect(registry, tls=tls))
        await stack.enter_async_context(fed(self._bootstrap, self.topic, PARTITIONS, self.shape.record_seconds))
        for _ in range(self.shape.members):
            self.start_member()
        await self.settled(seconds=READY_SECONDS, evenly=True)

    async def start_assigner(self, name: str) -> None:
        """Starts an assigner, and waits until it serves."""
        wires = self.storage[name]
        store = f"etcd://{','.join(wire.address for wire in wires)}" if wires else self._store
        settings = {"LISTEN": f"127.0.0.1:{self._ports[name]}", "ADVERTISE": self.edges[name].address}
        await self._service(name, "services.assigner", store, settings)

    async def _service(self, name: str, module: str, store: str, more: Mapping[str, str] | None = None) -> str:
        ready, told = self.directory / f"{name}.json", self.directory / "channels.json"
        ready.unlink(missing_ok=True)
        settings = {
            "STORE": store,
            "INSTANCE": name,
            "READY_FILE": str(ready),
            "TOLD_CHANNELS": str(told),
            "TOLD_BOOTSTRAP": self._bootstrap,
            "SESSION_TTL_SECONDS": str(self.shape.session_seconds),
            **(more or {}),
        }
        proof = self._identities.of_replica(name) if self._identities else {}
        self._spawn(name, module, **{f"BRAID_{key}": value for key, value in settings.items()}, **proof)
        await until(lambda: self._alive() and ready.exists(), f"{name} serves", READY_SECONDS)
        address: str = json.loads(ready.read_text())["address"]
        return address

    def start_member(self) -> str:
        """Starts a member of both groups; returns its name."""
        name = f"web-{next(self._members)}"
        seeds = ",".join(edge.address for edge in self.edges.values())
        how = (str(self.shape.lease_seconds), ",".join(self.shape.ownerships))
        path = self.directory / f"{name}.jsonl"
        self._logs[name] = MemberLog(path)
        proof = self._identities.of_caller() if self._identities else {}
        self._spawn(name, "testbed.members.telling_member", seeds, self.stream, name, str(path), *how, **proof)
        return name

    def _spawn(self, name: str, module: str, *arguments: str, **variables: str) -> None:
        environment = {**os.environ, **variables, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", module, *arguments]
        self._processes[name] = spawn_guarded(command, self.directory / f"{name}.out", environment)

    def kill(self, name: str) -> None:
        """Kills an assigner or a member by SIGKILL."""
        process = self._processes.pop(name)
        self.befell(facts.Killed(name))
        process.kill()
        process.wait()

    def pause(self, name: str) -> None:
        """Pauses a process by SIGSTOP. If the store is a file, others kill a process paused during a write, which would
        block them."""
        self._paused.add(name)
        self._processes[name].send_signal(signal.SIGSTOP)
        self.befell(facts.Paused(name))

    def resume(self, name: str) -> None:
        """Resumes a process by SIGCONT."""
        self._paused.discard(name)
        self._processes[name].send_signal(signal.SIGCONT)

    async def go_on(self, name: str) -> None:
        """Resumes a paused assigner, or starts it again if another process killed it."""
        self.resume(name)
        if self._processes[name].poll() is not None:
            print(f"{name} was stopped while it wrote to the file, and ended")
            self.kill(name)
            await self.start_assigner(name)

    def mend(self) -> None:
        """Ends all faults of wires and all pauses of processes."""
        for wire in [*self.edges.values(), *itertools.chain.from_iterable(self.storage.values())]:
            wire.mend()
        for name in self._processes:
            self.resume(name)

    def _alive(self) -> bool:
        for name, process in self._processes.items():
            ended = process.poll()
            if ended == -signal.SIGKILL and name in self._paused and not self._servers:
                continue
            assert ended is None, f"{name} ended ({ended}): {(self.directory / f'{name}.out').read_text()[-2000:]}"
        return True

    def _kill_all(self) -> None:
        for name in list(self._processes):
            self.kill(name)

    async def _wire(self, stack: AsyncExitStack, target: str) -> Wire:
        wire = await Wire(target).start()
        stack.push_async_callback(wire.close)
        return wire

    # --- what is so

    @property
    def members(self) -> list[str]:
        """Names of live member processes."""
        return [name for name in self._processes if name.startswith("web-")]

    def lines(self, name: str) -> list[MemberEvent]:
        """The lines of a member process's log."""
        return self._logs[name].read().lines

    def since(self, name: str, ms: float) -> Sequence[MemberEvent]:
        """The lines of a member's log since a time."""
        lines = self.lines(name)
        return lines[bisect_left(lines, ms, key=lambda line: line.ms) :]

    def holdings(self) -> dict[str, dict[str, tuple[str, int]]]:
        """The holder and the epoch of each lease, by group, according to live members' logs."""
        found: dict[str, dict[str, tuple[str, int]]] = {group: {} for group in self.groups}
        for name in self.members:
            log = self._logs[name].read()
            for group in self.groups:
                found[group] |= {lease: (name, epoch) for lease, epoch in log.held.get(group, {}).items()}
        return found

    def worked_since(self, ms: float, group: str) -> int:
        """The number of handlers of a group that began since a time."""
        lines = [line for name in self.members for line in self.since(name, ms)]
        return sum(line.what == "began" and line.group == group for line in lines)

    async def settled(self, since_ms: float = 0.0, seconds: float = 15.0, *, evenly: bool = False) -> float:
        """Waits until each live member was answered since a time, and every lease has one live holder.

        Args:
            since_ms: The time.
            seconds: How long to wait.
            evenly: Whether members must hold equal numbers, give or take one: then no lease is moving.

        Returns:
            Milliseconds on the wall clock from the time to the last member's first answer.
        """
        firsts: list[float] = []

        def looks() -> bool:
            self._alive()
            logs = [self._logs[name].read() for name in self.members]
            firsts[:] = [_after(log.heard.get(group, []), since_ms) for log in logs for group in self.groups]
            held = [sorted(lease for log in logs for lease in log.held.get(group, {})) for group in self.groups]
            counts = [len(log.held.get(group, {})) for group in self.groups for log in logs]
            even = not evenly or set(counts) <= {PARTITIONS // len(logs), -(-PARTITIONS // len(logs))}
            once = all(len(leases) == len(set(leases)) == PARTITIONS for leases in held)
            return once and even and max(firsts) < float("inf")

        await until(looks, lambda: f"every lease has one holder who is heard: {self.holdings()}", seconds)
        return max(firsts) - since_ms

    async def leader(self, *, other_than: str = "") -> str:
        """The assigner that leads according to the store; waits until it is another than the named one."""
        found: list[str] = []

        async def told() -> bool:
            registry, request = self.mesh.service("registry"), ListEndpointsRequest()
            answer = await registry.unary("ListEndpoints", request, ListEndpointsResponse, any_replica=True)
            found[:] = [each.instance for each in answer.endpoints if each.service == "assigner" and each.leader]
            return bool(found) and found[0] != other_than

        await until(told, lambda: f"an assigner other than {other_than!r} leads, not {found}", 30.0)
        return found[0]

    # --- what happened

    def befell(self, fact: facts.Fact, at_ms: float | None = None) -> None:
        """Notes a test's action on a process, now or at that time."""
        self._befell.append((round((now_ms() if at_ms is None else at_ms) * 1000), fact))

    async def grants(self, group: str) -> list[facts.LeaseGranted]:
        """Every grant in a group's history."""
        told = [fact for _, fact in (await self._history()).facts({})]
        return [fact for fact in told if isinstance(fact, facts.LeaseGranted) and fact.group == group]

    async def _commits(self, group: str) -> list[tuple[int, facts.Fact]]:
        """Every commit that the broker stored; on a stalled machine a reader's first connection may fail."""
        found: list[list[tuple[int, facts.Fact]]] = []

        async def read() -> bool:
            with contextlib.suppress(KafkaError):
                found.append(await cluster_facts("east", self._bootstrap, "no topic", group))
            return bool(found)

        await until(read, f"the broker tells the commits of {group}", READY_SECONDS)
        return found[0]

    @property
    def befallen(self) -> Sequence[tuple[int, facts.Fact]]:
        """Tests' actions on processes, with times in microseconds."""
        return self._befell

    @property
    def logs(self) -> Mapping[str, MemberLog]:
        """Logs of all members, dead ones included."""
        return self._logs

    async def decided(self) -> list[tuple[float, str]]:
        """The time (ms since the epoch) and the type of each event in the histories, in order."""
        records = [record for each in (await self._history()).records.values() for record in each.values()]
        return sorted((float(record.metadata.time_ms), record.type) for record in records)

    async def lost_members(self) -> list[str]:
        """Every member whose end is in a history."""
        records = [record for each in (await self._history()).records.values() for record in each.values()]
        told = [AssignerEvent.FromString(record.data) for record in records]
        return [event.member_gone.member for event in told if event.HasField("member_gone")]

    async def _history(self) -> Histories:
        """All events of the assigners, read directly from the store."""
        store, kind = open_store(self._store, self._host), GROUPS
        try:
            histories, _ = await store.histories("assigner")
            for history in histories:
                loaded = await store.load(history)
                for sequence, data in enumerate(loaded.events, loaded.first):
                    recorded = RecordedEvent(history, sequence, 0, *kind.codec.decode(data), data)
                    self._histories.keep(event_record(recorded))
        finally:
            await store.close()
        return self._histories

    async def journal(self) -> list[tuple[int, facts.Fact]]:
        """All facts so far with their times in microseconds, in order; an event precedes what members hear of it."""
        lines = [(name, line) for name in self._logs for line in self.lines(name)]  # first: no event is later than they
        timed = [*self._befell]
        timed += [(ms * 1000, fact) for ms, fact in (await self._history()).facts({})]
        timed += [(round(line.ms * 1000), fact) for name, line in lines if (fact := _fact_of(name, line))]
        for group in self.groups:
            timed += [(ms * 1000, fact) for ms, fact in await self._commits(group)]
        return sorted(timed, key=lambda each: each[0])


def now_ms() -> float:
    """The machine's wall clock, which histories and members' lines carry."""
    return time.time() * 1000


def _after(times_ms: Sequence[float], since_ms: float) -> float:
    """The first of these times after another; never if there is none."""
    index = bisect_right(times_ms, since_ms)
    return times_ms[index] if index < len(times_ms) else float("inf")


def _fact_of(process: str, line: MemberEvent) -> facts.Fact | None:
    match line.what:
        case "granted":
            return facts.LeaseTold(process, line.group, line.subject, line.member, line.number)
        case "dropped":
            return facts.LeaseDropped(process, line.group, line.subject, line.number)
        case "began":
            topic, _, partition = line.subject.rpartition("/")
            return facts.HandlerStarted(line.group, process, facts.LogId("east", topic, int(partition)), line.number)
        case "ended":
            return facts.HandlerEnded(process, line.number)
        case _:
            return None
