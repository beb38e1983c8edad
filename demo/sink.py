"""Where a member notes what it processed: a file of lines, synced before the record counts as done."""

import asyncio
import os
from pathlib import Path
from types import TracebackType
from typing import Self


class Sink:
    """Appends lines; `write` returns once its line is on disk. Lines that come during a sync share the next one.

    Use it as an asynchronous context.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._lines: list[bytes] = []
        self._synced: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._wake = asyncio.Event()
        self._task = asyncio.ensure_future(self._run())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        os.close(self._descriptor)

    async def write(self, line: str) -> None:
        """Notes a line. Raises what the disk raised."""
        self._lines.append(line.encode() + b"\n")
        self._wake.set()
        await asyncio.shield(self._synced)

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            lines, self._lines = self._lines, []
            synced, self._synced = self._synced, asyncio.get_running_loop().create_future()
            try:
                await asyncio.to_thread(self._sync, b"".join(lines))
            except OSError as error:
                synced.set_exception(error)
            else:
                synced.set_result(None)

    def _sync(self, text: bytes) -> None:
        while text:
            text = text[os.write(self._descriptor, text) :]
        os.fdatasync(self._descriptor)
