"""A member's sink: `write` returns only when its line is on disk."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from demo.sink import Sink


async def test_lines_are_there_when_write_returns(tmp_path: Path) -> None:
    path = tmp_path / "sink"
    async with Sink(path) as sink:
        await asyncio.gather(*(sink.write(f"line {number}") for number in range(500)))
        assert sorted(path.read_text().splitlines()) == sorted(f"line {number}" for number in range(500))
        await sink.write("last")
        assert path.read_text().endswith("\nlast\n")


async def test_write_waits_for_the_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_sync, syncing, loop = threading.Event(), asyncio.Event(), asyncio.get_running_loop()

    def slow(descriptor: int) -> None:
        loop.call_soon_threadsafe(syncing.set)
        may_sync.wait(10)

    monkeypatch.setattr(os, "fdatasync", slow)
    async with Sink(tmp_path / "sink") as sink:
        first = asyncio.ensure_future(sink.write("first"))
        await syncing.wait()
        assert (tmp_path / "sink").read_bytes() == b"first\n"
        second = asyncio.ensure_future(sink.write("second"))
        await asyncio.sleep(0)
        assert not first.done()
        may_sync.set()
        await asyncio.gather(first, second)


async def test_what_the_disk_refuses_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdatasync", full)
    async with Sink(tmp_path / "sink") as sink:
        with pytest.raises(OSError, match="No space left"):
            await sink.write("line")
