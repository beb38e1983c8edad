"""Wakes tasks when any process commits to a SQLite store. An idle store wakes nothing.

A writer touches the store's file after each commit that others wait for. The kernel reports the touch to every process
that watches the file. Watching the write-ahead log instead would be too early, because its last write comes before the
commit can be read. It would also report each renewed session.

Each process also reads the store every `SQLITE_LOOK_SECONDS`. So it finds commits without a touch: of a process that
was killed in between, or of an earlier release. Where the kernel refuses, the file's stamp is polled.
"""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from braid.host.file_stamps import file_stamp
from braid.host.inotify import Inotify
from braid.kernel.errors import BraidError
from braid.kernel.limits.store import SQLITE_LOOK_SECONDS, SQLITE_LOOKS_AT_ONCE, SQLITE_POLL_SECONDS
from braid.kernel.ports import Host, Task
from braid.stores.signal import Signal

_log: Final = logging.getLogger("braid.sqlite")


def touch(path: Path) -> None:
    """Announces a commit to every process that watches the store. Never raises: they also read it unasked."""
    now = time.time_ns()  # the kernel's own time stands still for milliseconds
    with suppress(OSError):
        os.utime(path, ns=(now, now))


class News:
    """Counts the commits that the processes of a machine announced.

    Ask for `count`, read the store, then wait for news `after` that count: no commit in between is missed.
    """

    def __init__(self, path: Path, host: Host, read: Callable[[], Awaitable[object]]) -> None:
        """`read` returns another value after each commit that others wait for, or raises a `BraidError`."""
        self._path = path
        self._host = host
        self._read = read
        self._signal = Signal()
        self._count = 0
        self._inotify: Inotify | None = None
        self._watched = False  # also while there is no file yet
        self._next_told = float("-inf")  # when the next of many touches in a row may wake, on the loop's time
        self._timer: asyncio.TimerHandle | None = None
        self._looking: Task | None = None
        self._polling: Task | None = None
        self._closed = False

    def count(self) -> int:
        """Returns how much news there was. Each later commit adds to it."""
        if not self._closed and self._polling is None:
            self._watch()
        if not self._closed and self._looking is None:
            self._looking = self._host.tasks.spawn(self._look(), "sqlite looks")
        return self._count

    async def after(self, count: int, seconds: float | None = None) -> None:
        """Waits until there is more news than `count`, for at most `seconds`."""
        if not self._watched:
            seconds = SQLITE_POLL_SECONDS  # there was no file yet
        if self._count == count:
            await self._signal.wait(seconds)

    def tell(self) -> None:
        """Adds news, and wakes every waiting task."""
        self._count += 1
        self._signal.notify()

    def close(self) -> None:
        """Stops watching the file, and wakes every waiting task."""
        self._closed = True
        self._end_watch()
        if self._timer is not None:
            self._timer.cancel()
        for task in filter(None, (self._looking, self._polling)):
            task.cancel()
        self.tell()

    async def _look(self) -> None:
        """Finds commits that were not announced. Failing reads are news, too: waiting tasks then get the error."""
        seen: object = None
        while True:
            try:
                found = await self._read()
            except BraidError as error:
                found = type(error)
            if found != seen:
                seen = found
                self.tell()
            await self._host.clock.sleep(SQLITE_LOOK_SECONDS)

    # --- by the kernel

    def _watch(self) -> None:
        """Watches the file that has the store's name now: another may have taken its place."""
        try:
            if self._inotify is None:
                self._inotify = Inotify()
                asyncio.get_running_loop().add_reader(self._inotify.fileno(), self._touched)
            self._inotify.watch(self._path)
        except OSError as error:
            self._watched = False
            if self._inotify is None or file_stamp(self._path) is not None:
                self._refused(error)
        else:
            self._watched = True

    def _touched(self) -> None:
        """Wakes at once, but only once in `SQLITE_POLL_SECONDS` while touches follow each other."""
        if self._inotify is not None:
            self._inotify.drain()
        if self._timer is None:
            loop = asyncio.get_running_loop()
            now, burst = loop.time(), (SQLITE_LOOKS_AT_ONCE - 1) * SQLITE_POLL_SECONDS
            self._next_told = max(self._next_told, now - burst)
            self._timer = loop.call_at(max(self._next_told, now), self._tell_touched)
            self._next_told += SQLITE_POLL_SECONDS

    def _tell_touched(self) -> None:
        self._timer = None
        self.tell()

    def _end_watch(self) -> None:
        if self._inotify is not None:
            asyncio.get_running_loop().remove_reader(self._inotify.fileno())
            self._inotify.close()
            self._inotify = None

    # --- without it

    def _refused(self, error: OSError) -> None:
        _log.warning("%s cannot be watched for commits, so it is polled: %s", self._path, error)
        self._end_watch()
        self._watched = True
        self._polling = self._host.tasks.spawn(self._poll(), "sqlite poll")

    async def _poll(self) -> None:
        seen = file_stamp(self._path)
        self.tell()
        while True:
            await self._host.clock.sleep(SQLITE_POLL_SECONDS)
            if (stamp := file_stamp(self._path)) != seen:
                seen = stamp
                self.tell()
