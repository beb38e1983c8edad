"""Waiting for commits: the kernel reports them, a poll stands in where it refuses, and reads find the others."""

import asyncio
import errno
import logging
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from braid.host.inotify import Inotify
from braid.host.system import system_host
from braid.kernel.errors import StoreUnavailable
from braid.kernel.limits.store import SQLITE_LOOKS_AT_ONCE, SQLITE_POLL_SECONDS
from braid.stores.sqlite_news import News, touch

NEVER_SECONDS = 3600.0
HANGS_SECONDS = 20.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "s.db"
    file.touch()
    return file


@pytest.fixture
async def news(path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[News]:
    """News that no look of one's own brings."""
    monkeypatch.setattr("braid.stores.sqlite_news.SQLITE_LOOK_SECONDS", NEVER_SECONDS)
    made = News(path, system_host(), _same)
    yield made
    made.close()


async def _same() -> int:
    """Nothing is committed."""
    return 1


class NoQueue(Inotify):
    """A kernel that has no queue left for this user."""

    def __init__(self) -> None:
        """Fails."""
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


class NoWatch(Inotify):
    """A kernel that has no watch left for this user."""

    def watch(self, path: Path) -> None:
        """Fails."""
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def _heard(news: News, count: int) -> None:
    async with asyncio.timeout(HANGS_SECONDS):
        await news.after(count)


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def _settled(news: News) -> int:
    """The count once nothing more is told."""
    count = news.count()
    while True:
        await asyncio.sleep(3 * SQLITE_POLL_SECONDS)
        if count == (count := news.count()):
            return count


async def test_a_touch_wakes_all_who_wait(news: News, path: Path) -> None:
    count = await _settled(news)
    waiting = [asyncio.ensure_future(_heard(news, count)) for _ in range(3)]
    await asyncio.sleep(3 * SQLITE_POLL_SECONDS)
    assert not any(each.done() for each in waiting)
    touch(path)
    await asyncio.gather(*waiting)


async def test_a_touch_before_the_wait_ends_it(news: News, path: Path) -> None:
    count = await _settled(news)
    touch(path)
    await asyncio.sleep(SQLITE_POLL_SECONDS)
    await _heard(news, count)


async def test_an_untouched_file_wakes_nothing(news: News, path: Path) -> None:
    count = await _settled(news)
    with path.open("ab") as file:
        file.write(b"a checkpoint")
    await asyncio.sleep(5 * SQLITE_POLL_SECONDS)
    assert news.count() == count


async def test_lasting_news_is_told_fifty_times_a_second(news: News, path: Path) -> None:
    first, begun = await _settled(news), time.monotonic()
    while (lasted := time.monotonic() - begun) < 20 * SQLITE_POLL_SECONDS:
        touch(path)
        await asyncio.sleep(0.001)
    told = news.count() - first
    assert told <= SQLITE_LOOKS_AT_ONCE + lasted / SQLITE_POLL_SECONDS + 1
    count = news.count()
    touch(path)
    await _heard(news, count)


async def test_a_file_in_its_place_is_told_of_and_watched(news: News, path: Path) -> None:
    count = await _settled(news)
    other = path.with_name("other")
    other.touch()
    other.replace(path)
    await _heard(news, count)
    count = await _settled(news)
    touch(path)
    await _heard(news, count)


async def test_a_directory_that_moves_away_and_back_is_watched(news: News, path: Path) -> None:
    await _settled(news)
    away = path.parent.with_name("away")
    path.parent.rename(away)
    count = news.count()
    await _heard(news, count)  # soon: there is no file to wait for
    away.rename(path.parent)
    count = await _settled(news)
    touch(path)
    await _heard(news, count)


@pytest.mark.parametrize(("kernel", "number"), [(NoQueue, errno.EMFILE), (NoWatch, errno.ENOSPC)])
async def test_a_refusing_kernel_is_named_and_the_file_polled(
    news: News,
    path: Path,
    kernel: type[Inotify],
    number: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("braid.stores.sqlite_news.Inotify", kernel)
    with caplog.at_level(logging.WARNING, "braid.sqlite"):
        for _ in range(3):
            count = await _settled(news)
            touch(path)
            await _heard(news, count)
    (line,) = caplog.messages
    assert str(path) in line
    assert os.strerror(number) in line


async def test_a_look_finds_what_no_writer_told_of(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("braid.stores.sqlite_news.SQLITE_LOOK_SECONDS", SQLITE_POLL_SECONDS)
    found: list[int | StoreUnavailable] = [1]

    async def read() -> int:
        if isinstance(last := found[-1], StoreUnavailable):
            raise last
        return last

    news = News(path, system_host(), read)
    for change in (2, StoreUnavailable("the file is away"), 2):
        count = await _settled(news)
        found.append(change)
        await _heard(news, count)
    news.close()


async def test_a_close_wakes_who_waits_and_opens_nothing_more(news: News, path: Path) -> None:
    waiting = asyncio.ensure_future(_heard(news, await _settled(news)))
    await asyncio.sleep(0)
    before = _descriptors()
    news.close()
    await waiting
    news.count()
    assert _descriptors() == before - 1
