"""Logs of application processes, whose lines are synced before anything follows from them, and their reader.

A line is one JSON object with a kind, the wall clock in milliseconds, and the fields of its kind.
"""

import asyncio
import json
import os
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

SYNC_SECONDS: Final = 0.004  # lines of so long are synced at once


class SyncedLog:
    """Writes lines; `note` returns once its line is synced. Use it as an asynchronous context manager."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._lines: list[str] = []
        self._synced: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._some = asyncio.Event()
        self._closing = False
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closing = True
        self._some.set()
        if self._task is not None:
            await self._task
        os.close(self._descriptor)

    async def note(self, kind: str, **fields: str | int) -> None:
        """Appends a line and waits for its sync."""
        self._lines.append(json.dumps({"kind": kind, "ms": int(time.time() * 1000), **fields}) + "\n")
        self._some.set()
        await asyncio.shield(self._synced)

    async def _run(self) -> None:
        while not self._closing:
            await self._some.wait()
            await asyncio.sleep(SYNC_SECONDS)
            await self._write()

    async def _write(self) -> None:
        lines, self._lines = self._lines, []
        done, self._synced = self._synced, asyncio.get_running_loop().create_future()
        self._some.clear()
        await asyncio.to_thread(self._sync, "".join(lines).encode())
        done.set_result(None)

    def _sync(self, text: bytes) -> None:
        os.write(self._descriptor, text)
        os.fsync(self._descriptor)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a process's log."""

    process: str
    kind: str
    ms: int
    value: bytes = b""
    cluster: str = ""
    topic: str = ""
    partition: int = 0
    offset: int = 0
    epoch: int = 0
    text: str = ""

    @property
    def log(self) -> tuple[str, str, int]:
        """Cluster, topic and partition of the line's record."""
        return self.cluster, self.topic, self.partition


@dataclass
class Journals:
    """All logs in a directory, read as they grow. A file is one life: `member-1.3.jsonl` is the third of member-1.

    Attributes:
        directory: Directory of the logs.
        lines: All complete lines read so far.
        counts: Number of lines by kind.
    """

    directory: Path
    lines: list[Line] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    _read: dict[Path, int] = field(default_factory=dict)

    def poll(self) -> list[Line]:
        """Reads and returns the new lines."""
        fresh = [line for path in sorted(self.directory.glob("*.jsonl")) for line in self._follow(path)]
        self.lines += fresh
        self.counts.update(line.kind for line in fresh)
        return fresh

    def recent(self, kind: str, since_ms: int) -> list[Line]:
        """Lines of a kind since this time, newest first."""
        found = []
        for line in reversed(self.lines):
            if line.ms < since_ms - 10_000:  # files are read one after the other: order is only rough
                break
            if line.kind == kind and line.ms >= since_ms:
                found.append(line)
        return found

    def _follow(self, path: Path) -> list[Line]:
        begin = self._read.get(path, 0)
        if path.stat().st_size == begin:  # the dead write no more, and there are many
            return []
        with path.open("rb") as file:
            file.seek(begin)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._read[path] = begin + len(whole + newline)
        return [_parse(path.name.split(".")[0], text) for text in whole.splitlines()]


def _parse(process: str, text: bytes) -> Line:
    fields = json.loads(text)
    value = fields.pop("value", "").encode()
    return Line(process=process, value=value, **fields)
