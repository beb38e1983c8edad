"""The application processes of a chaos run: started, killed, paused, ended. Each life has its own log."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from braid.host.tls.paths import Tls, environment_of
from devmesh.processes.forks.child import Child
from devmesh.processes.guard import spawn_guarded
from testbed.ground.entering import TOLD
from testbed.patience import Deadline

ROOT: Final = Path(__file__).resolve().parents[2]
END_SECONDS: Final = 60.0
TELL_SECONDS: Final = 10.0
POLL_SECONDS: Final = 0.05


@dataclass
class Application:
    """One application, by name, over several lives."""

    name: str
    lives: int = 0
    process: Child | None = None


class Fleet:
    """All applications of a run. They die with this process.

    Args:
        directory: Directory of their logs.
        endpoint: The mesh's endpoint.
        room: The package of their modules, `member` and `producer`.
        tls: What they show to the mesh; None for plain text.
    """

    def __init__(self, directory: Path, endpoint: str, room: str, tls: Tls | None = None) -> None:
        self.directory = directory
        self._tls = tls
        self._endpoint = endpoint
        self._room = room
        self._applications: dict[str, Application] = {}

    def start(self, name: str, *packages: Path, inside: Sequence[str] = ()) -> None:
        """Starts a life of `member-…` or `producer-…`.

        Args:
            name: The application.
            packages: Directories whose packages take precedence over the checkout's.
            inside: A command that runs another one elsewhere and becomes it.
        """
        application = self._applications.setdefault(name, Application(name))
        application.lives += 1
        log = self.directory / f"{name}.{application.lives}.jsonl"
        module = f"{self._room}.{name.partition('-')[0]}"
        command = [*inside, sys.executable, "-m", module, name, self._endpoint, str(log)]
        path = os.pathsep.join(map(str, (*packages, ROOT)))
        environment = {**os.environ, **environment_of(self._tls), "PYTHONPATH": path}
        application.process = spawn_guarded(command, self.directory / f"{name}.out", environment)

    def pid(self, name: str) -> int:
        """The process id of an application's latest life."""
        return self._process(name).pid

    def kill(self, name: str) -> None:
        """Sends SIGKILL; returns once the process is dead."""
        process = self._process(name)
        process.kill()
        process.wait()

    def pause(self, name: str) -> None:
        """Pauses an application by SIGSTOP."""
        self._process(name).send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Resumes an application by SIGCONT."""
        self._process(name).send_signal(signal.SIGCONT)

    def dead(self) -> list[str]:
        """Applications that have ended, for whatever reason."""
        return [name for name, each in self._applications.items() if each.process and each.process.poll() is not None]

    async def ask(self) -> None:
        """Makes every application write its state beside its log; a paused or dead one does not."""
        for name in self._applications:
            self._process(name).send_signal(signal.SIGUSR1)
        deadline = Deadline(TELL_SECONDS)
        while not all(map(self._told, self._applications)):
            if deadline.passed:
                return
            await asyncio.sleep(POLL_SECONDS)

    def _told(self, name: str) -> bool:
        return (self.directory / f"{name}.out").read_text(errors="replace").endswith(TOLD)

    async def end(self, prefix: str) -> None:
        """Sends SIGTERM to all of a kind; returns once they ended, by force after a while. Raises AssertionError
        then."""
        ending = [name for name in self._applications if name.startswith(prefix)]
        for name in ending:
            self._process(name).terminate()
        forced = [name for name in ending if not await self._ended(name)]
        assert not forced, f"{forced} did not end in {END_SECONDS:g} s"

    def close(self) -> None:
        """Kills all applications that still run."""
        for name in self._applications:
            self.kill(name)

    async def _ended(self, name: str) -> bool:
        process, deadline = self._process(name), Deadline(END_SECONDS)
        while process.poll() is None:
            if deadline.passed:
                self.kill(name)
                return False
            await asyncio.sleep(POLL_SECONDS)
        return True

    def _process(self, name: str) -> Child:
        process = self._applications[name].process
        assert process is not None, f"{name} was never started"
        return process
