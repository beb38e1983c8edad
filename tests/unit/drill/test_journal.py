"""A line is on disk before `write` returns; followers read whole lines, each once."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from braid.drill.journal import Follower, Journal


def test_lines_are_there_when_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "a.lines"

    async def scene() -> None:
        async with Journal(path) as journal:
            await journal.write("first")
            assert path.read_text() == "first\n"
            await asyncio.gather(*(journal.write(str(each)) for each in range(50)))
            assert len(path.read_text().splitlines()) == 51

    asyncio.run(scene())


async def test_write_waits_for_the_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_sync, syncing, loop = threading.Event(), asyncio.Event(), asyncio.get_running_loop()

    def slow(descriptor: int) -> None:
        loop.call_soon_threadsafe(syncing.set)
        may_sync.wait(10)

    monkeypatch.setattr(os, "fdatasync", slow)
    async with Journal(tmp_path / "a.lines") as journal:
        first = asyncio.ensure_future(journal.write("first"))
        await syncing.wait()
        assert (tmp_path / "a.lines").read_bytes() == b"first\n"
        second = asyncio.ensure_future(journal.write("second"))
        await asyncio.sleep(0)
        assert not first.done()
        may_sync.set()
        await asyncio.gather(first, second)


def test_what_the_disk_refuses_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        async with Journal(tmp_path / "a.lines") as journal:
            monkeypatch.setattr("os.fdatasync", _refuse)
            with pytest.raises(OSError, match="full"):
                await journal.write("first")

    asyncio.run(scene())


def _refuse(descriptor: int) -> None:
    raise OSError("full")


def test_a_follower_takes_whole_lines_once(tmp_path: Path) -> None:
    path = tmp_path / "a.lines"
    follower = Follower(path)
    assert follower.lines() == []
    path.write_text("one\ntwo\nth")
    assert follower.lines() == ["one", "two"]
    assert follower.lines() == []
    with path.open("a") as file:
        file.write("ree\n")
    assert follower.lines() == ["three"]
