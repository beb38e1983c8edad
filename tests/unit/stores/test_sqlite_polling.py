"""The poll that all watches of a file share: one question at a time, however many wait."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from braid.kernel.errors import BraidError, CorruptHistory, StoreUnavailable
from braid.kernel.limits.store import SQLITE_LOOKING_SECONDS, SQLITE_POLL_SECONDS
from braid.stores.sqlite_database import Version
from braid.stores.sqlite_polling import VersionPoll
from tests.support.virtual_time import VirtualProcess, run_virtual, running_loop

FIRST, SECOND, OLDER = Version(1, 1, 1), Version(1, 1, 2), Version(1, 1, 0)


class File:
    """A fake file that counts questions, and a poll of it."""

    def __init__(self) -> None:
        self.version = FIRST
        self.asked = 0
        self.away: type[BraidError] | None = None
        self.poll = VersionPoll(VirtualProcess(running_loop(), "test", 1).host, self.ask)

    async def ask(self, seen: Version | None) -> Version:
        self.asked += 1
        for _ in range(round(SQLITE_LOOKING_SECONDS / SQLITE_POLL_SECONDS)):
            if self.away is not None:
                raise self.away("the file is away")
            if self.version != seen:
                break
            await asyncio.sleep(SQLITE_POLL_SECONDS)
        return self.version

    def waiters(self, count: int) -> list[asyncio.Task[Version]]:
        return [asyncio.create_task(self.poll.other_than(self.version)) for _ in range(count)]


def play(scene: Callable[[File], Awaitable[None]]) -> None:
    async def run() -> None:
        await scene(File())

    run_virtual(run())


def test_one_question_serves_all_who_wait() -> None:
    async def scene(file: File) -> None:
        waiting = file.waiters(3)
        await asyncio.sleep(10 * SQLITE_LOOKING_SECONDS)
        assert file.asked == pytest.approx(10, abs=2)
        file.version = SECOND
        async with asyncio.timeout(2 * SQLITE_POLL_SECONDS):
            assert await asyncio.gather(*waiting) == [SECOND] * 3

    play(scene)


def test_a_watcher_of_an_older_version_is_told_at_once() -> None:
    async def scene(file: File) -> None:
        waiting = file.waiters(1)
        await asyncio.sleep(0.1)
        asked = file.asked
        assert await file.poll.other_than(OLDER) == FIRST
        assert file.asked == asked
        waiting[0].cancel()

    play(scene)


def test_nobody_is_asked_once_nobody_waits() -> None:
    async def scene(file: File) -> None:
        waiting = file.waiters(2)
        await asyncio.sleep(0.1)
        for each in waiting:
            each.cancel()
        await asyncio.sleep(2 * SQLITE_LOOKING_SECONDS)
        asked = file.asked
        await asyncio.sleep(1)
        assert file.asked == asked
        assert await file.poll.other_than(OLDER) == FIRST, "and it begins again"

    play(scene)


@pytest.mark.parametrize("why", [StoreUnavailable, CorruptHistory])
def test_all_hear_why_nobody_can_tell_and_of_the_files_return(why: type[BraidError]) -> None:
    async def scene(file: File) -> None:
        waiting = file.waiters(2)
        await asyncio.sleep(0.1)
        file.away = why
        failed = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(each) for each in failed] == [why] * 2
        with pytest.raises(why):
            await file.poll.other_than(OLDER)
        file.away = None
        assert await file.poll.other_than(OLDER) == FIRST

    play(scene)


def test_who_waits_when_it_is_closed_is_told() -> None:
    async def scene(file: File) -> None:
        waiting = file.waiters(1)
        await asyncio.sleep(0.1)
        file.poll.close()
        with pytest.raises(StoreUnavailable):
            await waiting[0]

    play(scene)
