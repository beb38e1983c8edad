"""Where the demo plays: its processes, the files they leave, what these prove so far, and waiting with a deadline."""

import asyncio
import os
import shutil
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from demo.display import Display
from demo.proof.evidence import Evidence
from demo.traffic.tails import Tail, newest_line
from devmesh.archives.spark import short_lived_options
from devmesh.processes.forks.child import Child
from devmesh.processes.guard import spawn_guarded

T = TypeVar("T")

POLL_SECONDS: Final = 0.05
_READS_PER_LOOK_MAX: Final = 200
_MARKER: Final = ".braid-demo"
_ROOT: Final = Path(__file__).resolve().parents[1]
_QUIET_START: Final = f"-Dlog4j2.configurationFile={(_ROOT / 'pipelines' / 'log4j2.properties').as_uri()}"


class DemoFailed(Exception):
    """Something did not come; says what was waited for, and which file of the run to look into first ('' for none)."""

    def __init__(self, what: str, look: str = "") -> None:
        super().__init__(what)
        self.look = look


class Bar(NamedTuple):
    """How far a wait has come."""

    done: int
    total: int
    text: str


class Stage:
    """A directory with everything of one run.

    Args:
        directory: Of the run; what an earlier run left there is removed by `prepare`.
        display: Shows how waits go on.

    Attributes:
        environment: Variables of processes that are started from now on.
    """

    def __init__(self, directory: Path, display: Display) -> None:
        self.directory = directory
        self.display = display
        self.evidence = Evidence()
        self.environment: Mapping[str, str] = {}
        self._processes: dict[str, Child] = {}
        self._may_end: set[str] = set()
        self._tails: list[tuple[Tail, Callable[[list[bytes]], None]]] = []

    # --- files

    def prepare(self) -> None:
        """Empties the directory.

        Raises:
            DemoFailed: it holds something that is not an earlier run's.
        """
        marker = self.path(_MARKER)
        if self.directory.exists():
            if any(self.directory.iterdir()) and not marker.exists():
                raise DemoFailed(f"{self.directory} is not empty, and not an earlier run's; choose another --directory")
            shutil.rmtree(self.directory)
        self.directory.mkdir(parents=True)
        marker.touch()

    def path(self, name: str) -> Path:
        """A file of the run."""
        return self.directory / name

    def follow(self, name: str, take: Callable[[list[bytes]], None]) -> None:
        """Gives every line that comes into a file to `take`."""
        self._tails.append((Tail(self.path(name)), take))

    def look(self) -> None:
        """Reads what is new in all files."""
        for tail, take in self._tails:
            for _ in range(_READS_PER_LOOK_MAX):
                lines = [line.text for line in tail.lines()]
                if not lines:
                    break
                take(lines)

    # --- processes

    def start(self, name: str, *command: str) -> None:
        """Starts a process that cannot outlive this one; its output goes to `NAME.log`."""
        short_lived = {"SPARK_SUBMIT_OPTS": f"{short_lived_options()} {_QUIET_START}"}
        own = {"PYTHONUNBUFFERED": "1", "PYTHONPATH": str(_ROOT)}
        environment = {**short_lived, **os.environ, **self.environment, **own}
        self._processes[name] = spawn_guarded((sys.executable, *command), self.path(f"{name}.log"), environment)

    def check(self) -> None:
        """Raises `DemoFailed` when a process ended that should run."""
        statuses = ((name, process.poll()) for name, process in self._processes.items() if name not in self._may_end)
        ended = [(name, status) for name, status in statuses if status is not None]
        for name, status in sorted(ended, key=lambda each: each[1] == 0):  # one that failed may have made others end
            raise self._ended_badly(name, status)

    def kill(self, name: str) -> int:
        """Ends a process by SIGKILL; returns the moment before (monotonic nanoseconds)."""
        self._may_end.add(name)
        at_ns = time.monotonic_ns()
        self._processes[name].kill()
        self._processes[name].wait()
        return at_ns

    def tell(self, name: str, number: signal.Signals) -> None:
        """Sends a process a signal."""
        self._processes[name].send_signal(number)

    def will_end(self, name: str) -> None:
        """A process ends by itself soon."""
        self._may_end.add(name)

    async def end(self, name: str, seconds: float) -> None:
        """Ends a process in order (SIGTERM, unless it `will_end` by itself).

        Raises:
            DemoFailed: it did not end in time, or not well.
        """
        process = self._processes[name]
        if name not in self._may_end:
            self._may_end.add(name)
            process.terminate()
        status = await self.until(f"the end of {name}", seconds, process.poll, look=f"{name}.log")
        if status:
            raise self._ended_badly(name, status)

    def _ended_badly(self, name: str, status: int) -> DemoFailed:
        return DemoFailed(f"{name} ended with status {status}: {newest_line(self.path(f'{name}.log'))}", f"{name}.log")

    def close(self) -> None:
        """Ends every process by force."""
        for name, process in self._processes.items():
            if process.poll() is None:
                self.kill(name)

    # --- waiting

    async def until(
        self,
        what: str,
        seconds: float,
        condition: Callable[[], T | None],
        *,
        look: str,
        bar: Callable[[], Bar] | None = None,
    ) -> T:
        """Waits for a condition to give something, reading files and watching processes meanwhile.

        Args:
            what: Is waited for, as an error would say it.
            seconds: At most.
            condition: None while it does not hold.
            look: The log to look into when it never does.
            bar: How far it has come.

        Raises:
            DemoFailed: the time is over, or a process ended.
        """

        async def asked() -> T | None:
            return condition()

        return await self.until_told(what, seconds, asked, look=look, bar=bar)

    async def until_told(
        self,
        what: str,
        seconds: float,
        condition: Callable[[], Awaitable[T | None]],
        *,
        look: str,
        bar: Callable[[], Bar] | None = None,
    ) -> T:
        """Waits like `until`, for a condition that must be asked for."""
        deadline = time.monotonic() + seconds
        while True:
            self.look()
            self.check()
            if (found := await condition()) is not None:
                return found
            if time.monotonic() > deadline:
                raise DemoFailed(f"waited {seconds:.0f} s for {what}", look)
            if bar is not None:
                self.display.progress(*bar())
            await asyncio.sleep(POLL_SECONDS)
