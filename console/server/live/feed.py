"""One live page: read once for all its viewers, and sent as a snapshot followed by changes."""

import asyncio
import time
from collections.abc import Mapping
from math import ceil
from typing import Final

from braid.kernel.errors import BraidError
from braid.kernel.ports import Host, Task
from braid.rpc.documents import Document, Value
from console.server.limits import FAST_POLL_SECONDS, POLL_SHARE
from console.server.live.parts import EMPTY_TABLE, NOTHING, Content, Part
from console.server.live.ring import Ring
from console.server.live.sse import sse_event
from console.server.problems import problem_of
from console.server.reads.reader import Reader
from console.server.reads.view import Params, Read, View

_ROUNDING: Final = 1e-6  # of a slot: sums of seconds are not exact


class Feed:
    """A page that is read again and again, and sent to all browsers that show it.

    Args:
        host: Of this process.
        view: Which page.
        params: Of what.
        reader: Reads from services with the rights of those who look.
    """

    def __init__(self, host: Host, view: View, params: Params, reader: Reader) -> None:
        self._host = host
        self._view = view
        self._params = params
        self._reader = reader
        self._incarnation = host.ids.ulid().lower()
        self._ring = Ring()
        self._parts = {name: Part(EMPTY_TABLE if table else NOTHING) for name, table in view.parts.items()}
        self._unread = len(view.reads)
        self._begun = 0.0  # when it was started (`Clock.elapsed`)
        self._changed = asyncio.Event()
        self._tasks: list[Task] = []
        self._snapshot: tuple[int, bytes] = (-1, b"")
        self.watchers = 0
        self.left_at = 0.0  # when the last watcher left (`Clock.elapsed`)
        self.ended = False

    @property
    def id(self) -> str:
        """Names the state: the id of the newest event."""
        return self._id(self._ring.newest)

    @property
    def parts(self) -> Mapping[str, Part]:
        """All parts as they are."""
        return self._parts

    def start(self) -> None:
        """Starts reading."""
        self._begun = self._host.clock.elapsed()
        for read in self._view.reads:
            self._tasks.append(self._host.tasks.spawn(self._repeat(read), f"read {self._view.name}"))

    def end(self) -> None:
        """Stops reading, and ends the streams of all watchers."""
        self.ended = True
        for task in self._tasks:
            task.cancel()
        self._wake()

    async def first(self, seconds: float) -> None:
        """Waits until every read was tried once, at most for a time."""
        deadline = self._host.clock.elapsed() + seconds
        while self._unread and not self.ended and (left := deadline - self._host.clock.elapsed()) > 0:
            await self.changed(left)

    async def changed(self, seconds: float) -> None:
        """Waits for the next event, at most for a time."""
        waiting = self._changed
        try:
            async with asyncio.timeout(seconds):
                await waiting.wait()
        except TimeoutError:
            return

    def after(self, id: str) -> tuple[list[bytes], str] | None:
        """The events after the one of an id, and the id of the last; None where they are not kept."""
        incarnation, _, number = id.partition(".")
        if incarnation != self._incarnation or not number.isascii() or not number.isdecimal():
            return None
        events = self._ring.after(int(number[:18]))
        return None if events is None else (list(events), self.id)

    def document(self) -> Document:
        """The whole page as JSON has it."""
        parts: dict[str, Value] = {name: part.document() for name, part in self._parts.items()}
        return {
            "view": self._view.name,
            "params": dict(self._params),
            "now_ms": self._host.clock.now_ms(),
            "id": self.id,
            "parts": parts,
        }

    def snapshot(self) -> bytes:
        """The event that replaces everything a browser shows. Made once for each state of the page."""
        number, made = self._snapshot
        if number != self._ring.newest:
            made = sse_event("snapshot", self.document(), self.id)
            self._snapshot = (self._ring.newest, made)
        return made

    def forget_snapshot(self) -> None:
        """Frees the memory of the last snapshot."""
        self._snapshot = (-1, b"")

    async def _repeat(self, read: Read) -> None:
        due, first = self._begun, True
        while True:
            begun = time.perf_counter()
            changes = await self._take(read)
            if first:
                first, self._unread = False, self._unread - 1
            self._tell(changes)
            if read.once and not any(each.stale for each in changes.values()):
                return
            took = time.perf_counter() - begun
            now = self._host.clock.elapsed()
            due = self._slot(max(due + read.seconds, now + took * POLL_SHARE))
            await self._host.clock.sleep(max(0.0, due - now))

    def _slot(self, earliest: float) -> float:
        """The next moment at which reads of this page begin: together, so that each service gets one call for all."""
        slots = ceil((earliest - self._begun) / FAST_POLL_SECONDS - _ROUNDING)
        return self._begun + slots * FAST_POLL_SECONDS

    async def _take(self, read: Read) -> dict[str, Part]:
        """The states of a read's parts after it was tried once more."""
        try:
            found: Mapping[str, Content] = await read.take(self._reader, self._params)
        except BraidError as error:
            problem, now_ms = problem_of(error), self._host.clock.now_ms()
            return {name: self._parts[name].failed(problem, now_ms) for name in read.parts}
        now_ms = self._host.clock.now_ms()
        return {name: self._parts[name].answered(found[name], now_ms) for name in read.parts}

    def _tell(self, parts: Mapping[str, Part]) -> None:
        after = {**self._parts, **parts}
        after |= self._view.derived(after)
        changes: dict[str, Value] = {}
        for name, part in after.items():
            change = part.change_from(self._parts[name])
            if change is not None:
                changes[name] = change
        self._parts = after
        if changes:
            data: Document = {"now_ms": self._host.clock.now_ms(), "parts": changes}
            self._ring.append(sse_event("delta", data, self._id(self._ring.newest + 1)))
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _id(self, number: int) -> str:
        return f"{self._incarnation}.{number}"
