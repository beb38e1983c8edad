"""Files of lines that are synced before anybody relies on them: the ledger and the sinks. Independent of Braid's
code."""

import asyncio
import os
from pathlib import Path
from types import TracebackType
from typing import Self


class Journal:
    """Appends lines; `write` returns once its line is synced. Lines that arrive during a sync share the next one.

    Use it as an asynchronous context manager.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._wake = asyncio.Event()
        self._syncing = asyncio.ensure_future(self._run())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._syncing.cancel()
        await asyncio.wait([self._syncing])
        os.close(self._descriptor)

    async def write(self, line: str) -> None:
        """Appends a line. Raises the disk's error."""
        synced: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((line.encode("ascii") + b"\n", synced))
        self._wake.set()
        await synced

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            written, self._waiting = self._waiting, []
            failure: OSError | None = None
            try:
                await asyncio.to_thread(self._sync, b"".join(line for line, _ in written))
            except OSError as error:
                failure = error
            for _, synced in written:
                if synced.done():
                    continue
                if failure is None:
                    synced.set_result(None)
                else:
                    synced.set_exception(failure)

    def _sync(self, text: bytes) -> None:
        while text:
            text = text[os.write(self._descriptor, text) :]
        os.fdatasync(self._descriptor)


class Follower:
    """Reads a file to which another process appends lines: only complete lines, each once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._position = 0

    def lines(self) -> list[str]:
        """New lines since the last call; an incomplete line waits for the next. The file may not exist yet."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._position)
                whole, newline, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            return []
        self._position += len(whole) + len(newline)
        return whole.decode("ascii").split("\n") if whole else []
