"""A local mesh from Python: start it, ask it, break parts of it, end it. For tests, demos and `braid dev`.

The mesh is owned by a supervisor process of its own; everything here talks to it.
"""

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from braid._mesh import mesh_command
from braid.host.tls.paths import Tls
from braid.kernel.errors import BraidError, NotFound, Unavailable
from braid.kernel.limits.runtime import CLOCK_OFFSET_SECONDS
from devmesh.config import DERIVED_REPLICAS, MeshConfig
from devmesh.control import Answer, ask, error_from
from devmesh.documents import MeshStatus, Ready, ready_from_json, status_from_json
from devmesh.files import DirectoryLock, MeshFiles
from devmesh.limits import DEV_DOWN_SECONDS, DEV_POLL_SECONDS, DEV_READY_SECONDS, DEV_STOP_SECONDS, TOOL_RESOLVE_SECONDS
from devmesh.processes.forks.child import Child
from devmesh.processes.guard import spawn_guarded
from devmesh.processes.wall_clock import offset_text, parse_offset, set_off
from devmesh.supervision import ProcessKind

Say = Callable[[str], None]

# Tools may have to be resolved before anything starts.
_START_SECONDS: Final = TOOL_RESOLVE_SECONDS + DEV_READY_SECONDS


class DevMesh:
    """A mesh in a directory: one that runs, or one to be started by `up` or by entering the context.

    Args:
        directory: All state of the mesh; of one that runs, this alone counts.
        clusters: As in `MeshConfig`, like the next seven.
        store: `sqlite` or `etcd`.
        registries: Replicas.
        assigners: Replicas.
        lagmons: Replicas; none is allowed.
        dlqs: Replicas; none is allowed.
        port: Of the endpoint.
        ready_file: Written once everything answers.
        brokers: Of each cluster that says nothing else.
        kafka_settings: Of every broker, overriding ours; for this run alone.
        kafka_version: The release of Kafka; empty for ours.
        store_members: Of etcd, 1 or 3.
        secure: Whether services and clients speak mutual TLS, and rights are enforced; None for yes.
        outlive: Whether a mesh started from here goes on when this process ends.
    """

    def __init__(
        self,
        directory: Path,
        *,
        clusters: Sequence[str] = (),
        store: str = "",
        registries: int = 2,
        assigners: int = 2,
        lagmons: int = DERIVED_REPLICAS,
        dlqs: int = DERIVED_REPLICAS,
        port: int = 0,
        ready_file: Path | None = None,
        brokers: int = 0,
        kafka_settings: Mapping[str, str] | None = None,
        kafka_version: str = "",
        store_members: int = 0,
        secure: bool | None = None,
        console: int | None = None,
        outlive: bool = False,
    ) -> None:
        self._config = MeshConfig(
            directory=directory,
            clusters=tuple(clusters),
            store=store,
            registries=registries,
            assigners=assigners,
            port=port,
            ready_file=ready_file,
            lagmons=lagmons,
            dlqs=dlqs,
            brokers=brokers,
            kafka_settings=dict(kafka_settings or {}),
            kafka_version=kafka_version,
            store_members=store_members,
            secure=secure,
            console=console,
        )
        self._outlive = outlive
        self._files = MeshFiles(directory)
        self._process: Child | None = None
        self._ready: Ready | None = None

    @classmethod
    def of(cls, config: MeshConfig, *, outlive: bool = False) -> Self:
        """The mesh of a configuration."""
        mesh = cls(config.directory, outlive=outlive)
        mesh._config = config
        return mesh

    @property
    def ready(self) -> Ready:
        """Returns what the mesh offered when it became ready. Raises `Unavailable` before `up`."""
        if self._ready is None:
            raise Unavailable(f"the mesh in {self._files.directory} was not started from here")
        return self._ready

    @property
    def tls(self) -> Tls | None:
        """The certificate of the mesh's user; None where services speak plain text. Raises `Unavailable` as `ready`."""
        return self.ready.user_tls

    @property
    def supervisor_pid(self) -> int:
        """The process that owns the mesh. Raises `Unavailable` when none runs."""
        pid = DirectoryLock(self._files).holder()
        if pid is None:
            raise Unavailable(
                f"no mesh runs in {self._files.directory}", remedy="`braid dev` starts one; --dir says where it is"
            )
        return pid

    async def __aenter__(self) -> Self:
        await self.up()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            await self.down()

    async def up(self, say: Say | None = None) -> Ready:
        """Starts the mesh and waits until everything answers.

        Args:
            say: Gets the start log, a line at a time.

        Raises:
            BraidError: it could not be started; nothing is left running.
        """
        self._config.check()
        self._files.prepare()
        log = _Log(self._files.log, say)
        process = self._process = self._spawn()
        try:
            async with asyncio.timeout(_START_SECONDS):
                self._ready = await self._until_ready(process, log)
        except TimeoutError as error:
            raise Unavailable(f"the mesh in {self._files.directory} did not start", remedy=str(log.path)) from error
        finally:
            log.follow()
            if self._ready is None:
                await self._kill(process)
        return self._ready

    async def info(self) -> Ready:
        """Returns what the mesh offers now: processes started again have other ids."""
        return ready_from_json((await self._ask("ready"))["ready"])

    async def status(self) -> MeshStatus:
        """How its processes are. Raises `Unavailable` when no mesh runs."""
        return status_from_json((await self._ask("status"))["status"])

    async def kill(self, name: str) -> str:
        """Ends a cluster, broker or service by SIGKILL; returns when it is dead, with what happened. So do other verbs.

        Raises:
            NotFound: the mesh has no process of that name; lists the names.
            Refused: it is not in a state for the verb.
        """
        return await self.verb("kill", name)

    async def stop(self, name: str) -> str:
        """Ends a cluster or service in order."""
        return await self.verb("stop", name)

    async def start(self, name: str) -> str:
        """Starts a cluster or service that is down; returns when it serves."""
        return await self.verb("start", name)

    async def pause(self, name: str) -> str:
        """Freezes a cluster or service: connections stay open, nothing answers."""
        return await self.verb("pause", name)

    async def resume(self, name: str) -> str:
        """Lets a frozen cluster or service go on."""
        return await self.verb("resume", name)

    async def roll(self, cluster: str) -> str:
        """Restarts a cluster's brokers in order, one after the other; returns when all copies are in sync.

        Raises:
            Refused: the cluster has one broker, or one of them does not run.
            Unavailable: a broker does not come back, or stays behind.
        """
        return await self.verb("roll", cluster)

    async def set_clock(self, service: str, offset: str) -> str:
        """Sets the wall clock of a service's replica off from the machine's (`+1h`, `-8d`; `0` ends it).

        Returns what happened. A restarted replica keeps it, a mesh that is started again does not.

        Raises:
            Invalid: it is no offset.
            NotFound: the mesh has no replica of that name; lists the names.
            Unavailable: no mesh runs.
        """
        offset_ms = parse_offset(offset)
        status = await self.status()
        replicas = [each.name for each in status.processes if each.kind == ProcessKind.SERVICE]
        if service not in replicas:
            raise NotFound(f"this mesh has no service {service!r}", remedy=f"it has {', '.join(replicas)}")
        set_off(self._files.service(service), offset_ms)
        await asyncio.sleep(CLOCK_OFFSET_SECONDS)
        return f"{service}'s wall clock is {offset_text(offset_ms)}"

    async def verb(self, verb: str, name: str) -> str:
        """One of `kill`, `stop`, `start`, `pause`, `resume`, `roll`; returns what happened, a line for each process."""
        said: str = (await self._ask(verb, name))["said"]
        return said

    async def down(self) -> str:
        """Ends the mesh in order, a supervisor that does not heed by force; returns when nothing of it runs.

        Raises:
            Unavailable: no mesh runs.
        """
        begun = time.monotonic()
        pid = self.supervisor_pid
        patience, how = DEV_DOWN_SECONDS, "ended"
        try:
            async with asyncio.timeout(DEV_STOP_SECONDS):
                await ask(self._files.socket, "down")
        except (TimeoutError, Unavailable):  # it is paused, or has no socket yet
            patience = DEV_STOP_SECONDS
            os.kill(pid, signal.SIGTERM)
        if not await self._gone(patience):
            os.kill(pid, signal.SIGKILL)
            how = "was ended by force"
            await self._gone(DEV_STOP_SECONDS)
        return f"the mesh in {self._files.directory} {how} after {time.monotonic() - begun:.1f} s"

    async def kill_supervisor(self) -> None:
        """Ends the supervisor by SIGKILL, and with it everything."""
        os.kill(self.supervisor_pid, signal.SIGKILL)
        await self._gone(DEV_STOP_SECONDS)

    async def _ask(self, verb: str, name: str = "") -> Answer:
        _ = self.supervisor_pid  # says precisely when no mesh runs
        return await ask(self._files.socket, verb, name)

    def _spawn(self) -> Child:
        command = mesh_command("devmesh", self._config.to_json())
        if not self._outlive:
            return spawn_guarded(command, self._files.log)
        with self._files.log.open("ab") as log:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )

    async def _until_ready(self, process: Child, log: "_Log") -> Ready:
        """Asks the socket until our own supervisor answers: another's may listen there while ours finds out."""
        while process.poll() is None:
            log.follow()
            try:
                answer = await self._ask_while(process, log)
            except Unavailable:
                answer = {}
            if answer.get("pid") == process.pid:
                return ready_from_json(answer["ready"])
            await asyncio.sleep(DEV_POLL_SECONDS)
        await asyncio.sleep(0)  # lets an interrupt of both of us win over the report of its end
        raise log.reason()

    async def _ask_while(self, process: Child, log: "_Log") -> dict[str, Any]:
        asking = asyncio.ensure_future(ask(self._files.socket, "ready"))
        asking.add_done_callback(lambda asked: asked.cancelled() or asked.exception())  # we may be cancelled: heard
        try:
            while process.poll() is None and not asking.done():
                log.follow()
                await asyncio.wait((asking,), timeout=DEV_POLL_SECONDS)
        finally:
            asking.cancel()
        return dict(await asking) if asking.done() else {}

    async def _gone(self, timeout_seconds: float) -> bool:
        """Waits until nobody holds the directory and our own child is reaped."""
        deadline = time.monotonic() + timeout_seconds
        lock = DirectoryLock(self._files)
        while lock.holder() is not None or (self._process is not None and self._process.poll() is None):
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(DEV_POLL_SECONDS)
        return True

    async def _kill(self, process: Child) -> None:
        """After a failed start: lets it end in order if it is about to, then by force."""
        if process.poll() is None:
            process.terminate()
        try:
            await asyncio.to_thread(process.wait, DEV_DOWN_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def start_detached(config: MeshConfig, say: Say) -> str:
    """Starts a mesh that outlives this process; returns what happened, once everything answers.

    Raises:
        BraidError: it could not be started; nothing is left running.
    """
    mesh = DevMesh.of(config, outlive=True)
    await mesh.up(say)
    return f"it runs in the background (process {mesh.supervisor_pid})"


class _Log:
    """A supervisor's output from now on, passed on line by line; its last line may be the reason of its end."""

    def __init__(self, path: Path, say: Say | None) -> None:
        self.path = path
        self._say = say
        self._start = self._read = path.stat().st_size if path.exists() else 0

    def follow(self) -> None:
        """Passes on what came since."""
        if self._say is None or not self.path.exists():
            return
        with self.path.open("rb") as log:
            log.seek(self._read)
            whole, newline, _ = log.read().rpartition(b"\n")
        self._read += len(whole + newline)
        for line in whole.decode("utf-8", "replace").splitlines():
            if not line.startswith("{"):
                self._say(line)

    def reason(self) -> BraidError:
        """Why it ended."""
        with self.path.open("rb") as log:
            log.seek(self._start)
            lines = log.read().decode("utf-8", "replace").split("\n")
        last = next((line for line in reversed(lines) if line.strip()), "it wrote nothing")
        try:
            return error_from(json.loads(last))
        except (ValueError, KeyError, TypeError):
            return Unavailable(f"the supervisor ended: {last}", remedy=f"its log is {self.path}")
