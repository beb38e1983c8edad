"""The process that owns a mesh: starts everything, restarts what crashed, obeys the control socket, ends everything.

What to do about processes is decided in `supervision`; what a verb does in `verbs`. Here they meet the clock.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from braid.kernel.errors import BraidError, Invalid, Refused, Unavailable
from devmesh import credentials, roster, verbs
from devmesh.blueprint import kind_of, python_modules
from devmesh.config import MeshConfig, MeshLayout, Remembered, lay_out
from devmesh.control import Answer, ControlServer
from devmesh.documents import Ready
from devmesh.files import DirectoryLock, MeshFiles, remove, write_whole
from devmesh.limits import (
    DEV_BRISK_SECONDS,
    DEV_CALM_SECONDS,
    DEV_POLL_SECONDS,
    DEV_READY_SECONDS,
    DEV_STARTS_MAX,
    DEV_STEP_SECONDS,
    DEV_THREADS_MAX,
)
from devmesh.processes.guard import preloaded
from devmesh.processes.kafka_cluster import end_stragglers, wait_in_sync
from devmesh.processes.ports import PortClaims
from devmesh.registration import Address, Registration
from devmesh.report import ready_document, ready_page, status_document, warnings_of
from devmesh.roster import Say, Supervised
from devmesh.supervision import Action, DesiredState, ProcessKind, Verb, plan, start_stages, stop_stages

T = TypeVar("T")


class Supervisor:
    """One mesh, from start to end.

    Args:
        config: What is asked for.
        say: Gets the start log, a line at a time.
        foreground: Whether Ctrl-C ends it.
    """

    def __init__(self, config: MeshConfig, say: Say, *, foreground: bool = True) -> None:
        self._config = config
        self._foreground = foreground
        self._warnings: Sequence[str] = ()
        self._files = MeshFiles(config.directory)
        self._say = say
        self._begun = time.monotonic()
        self._held: dict[str, Supervised] = {}
        self._layout = MeshLayout("", {}, (), True)
        self._credentials: credentials.MeshCredentials | None = None
        self._awaited: list[str] = []
        self._ready = asyncio.Event()
        self._ending = asyncio.Event()
        self._failure: BraidError | None = None
        self._written: Ready | None = None
        self._changed = asyncio.Event()
        self._changed_at = self._begun
        self._working: set[asyncio.Task[object]] = set()

    def end(self) -> None:
        """Asks it to end; a second time, at once and by force."""
        if self._ending.is_set():
            for held in self._held.values():
                held.process.kill()
        self._ending.set()

    def look(self) -> None:
        """Looks at all processes at once: some may have changed."""
        self._changed_at = time.monotonic()
        self._changed.set()

    async def run(self) -> None:
        """Runs the mesh until it is asked to end.

        Raises:
            BraidError: it could not be started; nothing is left running.
        """
        self._config.check()
        self._files.prepare()
        lock = DirectoryLock(self._files)
        lock.take()
        control = ControlServer(self._files.socket, self._handle)
        try:
            with PortClaims() as claims:
                self._remove_ready()
                await self._beside(lambda: self._prepare(claims))
                await control.open()
                await self._live()
        finally:
            await self._stop_all()
            self._remove_ready()
            control.close()
            lock.release()

    # --- from start to end

    def _prepare(self, claims: PortClaims) -> None:
        remembered = self._files.recall()
        self._layout = layout = lay_out(self._config, remembered)
        self._say(f"braid dev: a mesh in {self._files.directory} (store {layout.store})")
        tools = roster.find_tools(layout.store, self._say, self._config.kafka_version)
        ports = roster.claim_ports(layout, self._config, remembered.ports, claims)
        self._warnings = warnings_of(layout, self._config.port, remembered.ports, ports)
        for warning in self._warnings:
            self._say(f"WARNING: {warning}")
        known = {**remembered.ports, **ports}
        self._credentials = credentials.prepared(layout.secure, self._files.tls, layout.instances)
        self._files.remember(Remembered(layout.store, layout.zones, known, layout.brokers, layout.secure))
        self._held = roster.build(layout, ports, self._files, tools, self._config.kafka_settings, self._credentials)

    async def _live(self) -> None:
        """Starts, then watches; a start that fails, or an end asked for meanwhile, stops the rest of it."""
        starting = asyncio.ensure_future(self._start_all())
        ending = asyncio.ensure_future(self._ending.wait())
        deadline = time.monotonic() + DEV_READY_SECONDS
        try:
            while not ending.done():
                await self._watch()
                await self._until_changed(ending)
                if starting.done():
                    starting.result()
                elif time.monotonic() > deadline:
                    late = f"not ready after {DEV_READY_SECONDS:.0f} s: {', '.join(self._awaited)}"
                    raise Unavailable(late, remedy=f"the logs are under {self._files.directory}")
        except BraidError as error:
            self._failure = error
            self._ready.set()
            raise
        finally:
            starting.cancel()
            ending.cancel()
            await asyncio.gather(starting, ending, return_exceptions=True)

    async def _start_all(self) -> None:
        for stage in start_stages(*self._names(), self._layout.fresh):
            self._note(f"starting {', '.join(stage)}")
            self._awaited = list(stage)
            await _all(self._come_up(self._held[name]) for name in stage)
        self._awaited = ["the registry's view of the clusters"]
        await self._register()
        self._note("ready")
        self.look()
        self._write_ready()
        self._ready.set()
        page = ready_page(self._document(), self._files, self._warnings, foreground=self._foreground)
        self._say(page)

    async def _come_up(self, held: Supervised) -> None:
        """Starts one for the first time; a service that ends at once gets a few attempts."""
        async with held.lock:
            held.desired = DesiredState.RUN
            for attempt in range(1, DEV_STARTS_MAX + 1):
                held.begun()
                try:
                    await self._beside(held.process.start)
                    await self._beside(lambda: held.process.wait_ready(DEV_STEP_SECONDS))
                    break
                except Unavailable:
                    if held.kind == ProcessKind.CLUSTER or attempt == DEV_STARTS_MAX:
                        raise
            self._awaited.remove(held.process.name)
            zone = f" (zone {held.zone})" if held.zone else ""
            self._note(f"{held.process.name} serves on {held.address}{zone}")

    async def _register(self) -> None:
        clusters = self._document().clusters
        wanted = {name: Address(each.bootstrap, each.zone) for name, each in clusters.items()}
        services = roster.named(self._held, ProcessKind.SERVICE)
        tls = None if self._credentials is None else self._credentials.supervisor
        registration = Registration([self._held[name].address for name in services], tls)
        try:
            await registration.wait_leaders(tuple(dict.fromkeys(map(kind_of, services))))
            told = await registration.tell(wanted)
            if told:
                self._note(f"the registry knows {', '.join(told)}")
            await registration.wait_healthy(list(clusters))
        finally:
            await registration.close()

    async def _stop_all(self) -> None:
        """Ends every process, also those that a verb at work is about to start."""
        while self._working or any(held.process.pid is not None for held in self._held.values()):
            for stage in stop_stages(*self._names()):
                running = [self._held[name] for name in stage if self._held[name].process.pid is not None]
                if running:
                    self._note(f"stopping {', '.join(held.process.name for held in running)}")
                await _all(asyncio.to_thread(stop) for stop in roster.stops(running))
            if self._working:
                await asyncio.wait(self._working, timeout=DEV_POLL_SECONDS)
        if self._held:
            self._note("everything has ended")

    async def _beside(self, call: Callable[[], T]) -> T:
        """Runs a blocking call beside the loop. It goes on when its caller is cancelled; `_stop_all` waits for it."""
        task = asyncio.ensure_future(asyncio.to_thread(call))
        self._working.add(task)
        task.add_done_callback(self._worked)
        return await asyncio.shield(task)

    def _worked(self, task: "asyncio.Task[T]") -> None:
        self._working.discard(task)
        task.exception()  # the caller has it too, unless it was cancelled

    # --- while it runs

    async def _watch(self) -> None:
        states = [held.state() for held in self._held.values()]
        for action in plan(states, time.monotonic()):
            await self._act(action)
        if self._ready.is_set():
            self._write_ready()
        if self._credentials is not None:
            self._credentials.renew_when_due(self._note)

    async def _until_changed(self, ending: "asyncio.Future[T]") -> None:
        """Waits until processes are to be looked at again: soon while any of them changes, at once when one does."""
        brisk = not self._ready.is_set() or time.monotonic() - self._changed_at < DEV_BRISK_SECONDS
        changed = asyncio.ensure_future(self._changed.wait())
        seconds = DEV_POLL_SECONDS if brisk else DEV_CALM_SECONDS
        await asyncio.wait((ending, changed), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        changed.cancel()
        self._changed.clear()

    async def _act(self, action: Action) -> None:
        held = self._held[action.name]
        if action.verb == Verb.FORGIVE:
            held.crashes = 0
        elif action.verb == Verb.NOTE_END:
            held.ended_at = time.monotonic()
            held.crashes += 1
            self._note(f"{action.name} ended by itself; its log is {held.process.log_path}")
            if not self._ready.is_set() and (held.kind == ProcessKind.CLUSTER or held.crashes >= DEV_STARTS_MAX):
                raise Unavailable(f"{action.name} does not stay up: {held.process.last_words()}")
        elif action.verb == Verb.RESTART:
            async with held.lock:
                held.begun()
                held.restarts += 1
                await self._beside(held.process.start)
            self.look()
            self._note(f"{action.name} was started again (process {held.process.pid})")

    async def _handle(self, verb: str, name: str) -> Answer:
        if verb == "status":
            status = await asyncio.to_thread(
                status_document, self._held, self._layout, self._files, self._ready.is_set()
            )
            return {"status": status.to_json()}
        if verb == "ready":
            return {"ready": await self._when_ready(), "pid": os.getpid()}
        if verb == "down":
            self._ending.set()
            return {"said": "the mesh is stopping"}
        if verb == "roll":
            return {"said": await self._roll(name, roster.find(self._held, name))}
        if verb in verbs.DESIRED:
            return {"said": await self._apply_to_all(verb, roster.find(self._held, name))}
        raise Invalid(f"there is no verb {verb!r}")

    async def _when_ready(self) -> str:
        await self._ready.wait()
        if self._failure is not None:
            raise self._failure
        return self._document().to_json()

    async def _apply_to_all(self, verb: str, found: Sequence[Supervised]) -> str:
        """A verb on one process, or on all brokers of a cluster that are not there already: a line for each.

        Raises:
            Refused: none of them is in a state for it.
        """
        steps: list[Awaitable[str | None]] = [self._apply(verb, held) for held in found]
        if verb == "stop":
            steps.append(self._beside(partial(end_stragglers, roster.kafka_brokers(found))))
        results = await asyncio.gather(*steps, return_exceptions=True)
        said = [each for each in results if isinstance(each, str)]
        for failure in results:
            if isinstance(failure, BaseException) and not (said and isinstance(failure, Refused)):
                raise failure
        return "\n".join(said)

    async def _roll(self, name: str, found: Sequence[Supervised]) -> str:
        """Restarts a cluster's brokers in order, one after the other, each once all copies are in sync.

        Raises:
            Refused: the cluster has one broker, one of them does not run, or the mesh is ending.
            Unavailable: a broker does not come back, or stays behind.
        """
        verbs.check_rollable(name, [held.process for held in found])
        begun = time.monotonic()
        await self._until_in_sync(name, found)
        for held in found:
            for verb in ("stop", "start"):
                if self._ending.is_set():
                    raise Refused(f"{name} is not rolled on: the mesh is stopping")
                await self._apply(verb, held)
            await self._until_in_sync(name, found)
        return f"{name} was rolled in {time.monotonic() - begun:.1f} s: {len(found)} brokers, all copies in sync"

    async def _until_in_sync(self, name: str, found: Sequence[Supervised]) -> None:
        await self._beside(partial(wait_in_sync, name, roster.kafka_brokers(found)))

    async def _apply(self, verb: str, held: Supervised) -> str:
        async with held.lock:
            before, held.desired = held.desired, verbs.DESIRED[verb]
            try:
                said = await self._beside(lambda: verbs.apply(verb, held.process))
            except BraidError:
                held.desired = before
                raise
            held.crashes = 0
            held.ended_at = None
            if verb == "start":
                held.begun()
        self.look()
        self._note(said)
        return said

    # --- what it says and writes

    def _names(self) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
        kinds = (ProcessKind.CLUSTER, ProcessKind.SERVICE, ProcessKind.STORE)
        clusters, services, store = (roster.named(self._held, kind) for kind in kinds)
        return clusters, [*services, *roster.named(self._held, ProcessKind.CONSOLE)], store

    def _document(self) -> Ready:
        return ready_document(self._held, self._layout, self._files)

    def _write_ready(self) -> None:
        """Writes the ready files when what they say has changed."""
        document = self._document()
        if document == self._written:
            return
        self._written = document
        for path in self._ready_files():
            write_whole(path, document.to_json())

    def _remove_ready(self) -> None:
        for path in self._ready_files():
            remove(path)

    def _ready_files(self) -> list[Path]:
        asked = self._config.ready_file
        return [self._files.ready, *([asked] if asked is not None else [])]

    def _note(self, text: str) -> None:
        self._say(f"{time.monotonic() - self._begun:6.1f} s  {text}")


async def _all(steps: Iterable[Awaitable[object]]) -> None:
    """Runs steps side by side, and waits for all even when one fails, so that none goes on unseen."""
    results = await asyncio.gather(*steps, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


def supervise(config: MeshConfig, *, foreground: bool = True) -> None:
    """Runs a mesh in this process, the start log on stdout, until it is told to end: SIGINT, SIGTERM, SIGHUP or `down`.

    Args:
        config: What is asked for.
        foreground: Whether somebody can end it with Ctrl-C, and is told so.

    Raises:
        BraidError: it could not be started; nothing is left running.
    """
    with preloaded(python_modules(console=config.console is not None)):
        asyncio.run(_supervise(config, foreground))


async def _supervise(config: MeshConfig, foreground: bool) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(DEV_THREADS_MAX))
    supervisor = Supervisor(config, _print, foreground=foreground)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, supervisor.end)
    asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, supervisor.look)
    try:
        await supervisor.run()
    except OSError as error:
        raise Unavailable(f"the mesh in {config.directory} cannot go on: {error}") from error


def _print(line: str) -> None:
    with contextlib.suppress(OSError):  # nobody reads any more: a closed terminal, a pipe into `head`
        print(line, flush=True)
