"""A whole mesh on virtual time, and the command line in it: real registry, real assigner, clusters in memory; lagmon
and dlq, where a test wants them, say what it tells them to.

`Shell.braid` runs a command line from its parsing to its output; only the process around it is missing.
"""

import asyncio
import contextlib
import functools
import io
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import NamedTuple

from braid.archive.memory import MemoryArchive
from braid.cli import app
from braid.cli.core.endpoints import Choice
from braid.cli.core.execution import RUNNER, Job
from braid.cli.core.session import Session
from braid.cli.core.terminal import Terminal
from braid.cli.errors import EXIT_INTERRUPTED, error_text, exit_code
from braid.client.mesh import Mesh, Ports
from braid.kafka.memory.world import MemoryKafka
from braid.kernel.errors import BraidError
from braid.rpc.memory.network import MemoryNetwork
from braid.rpc.memory.transport import MemoryTransport
from braid.runtime.access.settings import AccessSettings
from braid.runtime.archive.serving import Archive
from braid.runtime.audit.settings import AuditSettings
from braid.runtime.replica import Replica
from braid.runtime.service import Service
from braid.stores.memory import MemoryStore
from braid.stores.memory_server import MemoryStoreServer
from services.assigner.servicer.service import Assigner
from services.registry.service import RegistryService
from services.registry.term import Tuning
from tests.support.authenticated import AuthenticatedTransport
from tests.support.virtual_time import VirtualProcess, run_virtual, running_loop
from tests.unit.cli.scripted import ScriptedDlq, ScriptedLagmon


class Result(NamedTuple):
    """How a command line ended."""

    code: int
    out: str
    err: str


class TerminalText(io.StringIO):
    """Text that claims to be a terminal."""

    def isatty(self) -> bool:
        """True, like a terminal."""
        return True


def virtual(test: Callable[[], Coroutine[object, object, None]]) -> Callable[[], None]:
    """Runs a test on virtual time."""

    @functools.wraps(test)
    def run() -> None:
        run_virtual(test())

    del run.__wrapped__  # pytest would take it for a coroutine function
    return run


class Shell:
    """One store, one network, some clusters, and somebody who types."""

    def __init__(self) -> None:
        self.me = VirtualProcess(running_loop(), "cli", 1)
        self.server = MemoryStoreServer(self.me.host.clock)
        self.network = MemoryNetwork(self.me.host.clock, self.me.host.randomness)
        self.kafka_latency_seconds = 0.0
        self.kafka = MemoryKafka(self.me.host.clock, lambda: self.kafka_latency_seconds)
        self.processes: dict[str, VirtualProcess] = {}
        self.replicas: dict[str, Replica] = {}
        self.archives: dict[str, MemoryArchive] = {}
        self.access: AccessSettings | None = None
        self.audit: AuditSettings | None = None
        self.principals: dict[str, str] = {}  # by process, those that the wire verifies: "cli", "assigner-0"
        self.lagmon = ScriptedLagmon()
        self.dlq = ScriptedDlq()

    async def start(self, *clusters: str, registries: int = 1, assigners: int = 1) -> "Shell":
        """Starts services, and Kafka clusters that are registered with them."""
        for number in range(registries):
            await self.replica(f"registry-{number}")
        for number in range(assigners):
            await self.replica(f"assigner-{number}")
        for position, name in enumerate(clusters):
            self.kafka.add_cluster(name)
            zone = "abc"[position]
            result = await self.braid("create", "cluster", name, "--bootstrap", f"{name}:9092", "--zone", zone)
            assert result.code == 0, result
        return self

    async def replica(self, instance: str, *, skew_ms: int = 0) -> None:
        """Starts a replica and waits until it serves."""
        process = VirtualProcess(running_loop(), instance, 1, skew_ms=skew_ms)
        transport = AuthenticatedTransport(self.network, instance, self.principals)
        store = MemoryStore(process.host, self.server)
        replica = Replica(
            self._service(instance),
            process.host,
            store,
            transport,
            address=f"{instance}:1",
            instance=instance,
            archive=Archive(self.archives[instance], "memory") if instance in self.archives else None,
            access=self.access,
            audit=self.audit,
        )
        self.processes[instance], self.replicas[instance] = process, replica
        process.tasks.spawn(replica.run(), "run")
        await replica.ready()
        kind = instance.partition("-")[0]
        await self.until(lambda: any(each.leading() for name, each in self.replicas.items() if name.startswith(kind)))

    def _service(self, instance: str) -> Service:
        match instance.partition("-")[0]:
            case "registry":
                return RegistryService(self.kafka.process(), Tuning(30.0, 0.25, 0.75))
            case "lagmon":
                return self.lagmon
            case "dlq":
                return self.dlq
            case _:
                return Assigner(self.kafka)

    def kill(self, instance: str) -> None:
        """kill -9."""
        self.processes.pop(instance).kill()
        del self.replicas[instance]
        self.network.kill(instance)

    async def braid(self, *arguments: str, seconds: float = 0.0, terminal: bool = False) -> Result:
        """Runs a command line; as if somebody ended it after so many seconds, unless that is 0.

        Its output is piped, or goes to a terminal without colours.
        """
        jobs: list[Job] = []
        out, err = io.StringIO(), io.StringIO()

        def keep(choice: Choice, job: Job) -> int:
            jobs.append(job)
            return 0

        token = RUNNER.set(keep)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = app.run(arguments)
        finally:
            RUNNER.reset(token)
        if not jobs:
            return Result(code, out.getvalue(), err.getvalue())
        return await self.work(jobs[0], seconds, terminal)

    async def work(self, job: Job, seconds: float = 0.0, terminal: bool = False) -> Result:
        """Runs the work of a command in a session of its own."""
        out = TerminalText() if terminal else io.TextIOWrapper(io.BytesIO(), write_through=True)
        err = io.StringIO()
        code = 0
        try:
            async with self.session(Terminal(out, err, {"NO_COLOR": "1"})) as session:
                with contextlib.suppress(TimeoutError):
                    code = session.interrupt_code
                    async with asyncio.timeout(seconds or None):
                        code = await job(session)
                if code == EXIT_INTERRUPTED:
                    code = session.interrupt_code
        except BraidError as error:
            err.write(error_text(error) + "\n")
            code = exit_code(error)
        out.seek(0)
        return Result(code, out.read(), err.getvalue())

    @contextlib.asynccontextmanager
    async def session(self, terminal: Terminal) -> AsyncIterator[Session]:
        """A session to this mesh."""
        transport = MemoryTransport(self.network, "cli")
        ports = Ports(self.me.host, self.kafka, transport)
        addresses = [f"{instance}:1" for instance in self.processes]
        async with Mesh(ports.host, ports.kafka, transport, addresses, "ada", "") as mesh:
            yield Session(ports, mesh, terminal)

    async def until(self, condition: Callable[[], bool], seconds: float = 30.0) -> None:
        """Waits on virtual time until a condition holds."""
        deadline = self.me.host.clock.elapsed() + seconds
        while not condition():
            assert self.me.host.clock.elapsed() < deadline, "it never came true"
            await asyncio.sleep(0.05)
