"""Events of real files, as the kernel tells of them."""

import os
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from braid.host.inotify import Inotify


@pytest.fixture
def inotify() -> Iterator[Inotify]:
    made = Inotify()
    yield made
    made.close()


@pytest.fixture
def watched(inotify: Inotify, tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"1")
    inotify.watch(path)
    return path


def _tells(inotify: Inotify) -> bool:
    return bool(select.select([inotify], [], [], 0)[0])


def test_a_touched_file_is_told_of_once(inotify: Inotify, watched: Path) -> None:
    assert not _tells(inotify)
    for time_ns in range(3):
        os.utime(watched, ns=(time_ns, time_ns))
    assert _tells(inotify)
    inotify.drain()
    assert not _tells(inotify)
    inotify.drain()  # waits for nothing


def test_a_written_file_is_not_told_of(inotify: Inotify, watched: Path) -> None:
    with watched.open("r+b") as file:
        file.write(b"2")
    assert not _tells(inotify)


@pytest.mark.parametrize("change", ["removed", "moved", "replaced"])
def test_a_file_that_loses_its_name_is_told_of(inotify: Inotify, watched: Path, change: str) -> None:
    if change == "removed":
        watched.unlink()
    elif change == "moved":
        watched.rename(watched.with_name("elsewhere"))
    else:
        other = watched.with_name("other")
        other.write_bytes(b"2")
        other.replace(watched)
    assert _tells(inotify)


def test_a_file_watched_twice_is_told_of_once(inotify: Inotify, watched: Path) -> None:
    inotify.watch(watched)
    os.utime(watched)
    assert len(os.read(inotify.fileno(), 4096)) == 16, "one event without a name (inotify(7))"


def test_a_file_that_is_not_there_cannot_be_watched(inotify: Inotify, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        inotify.watch(tmp_path / "nothing")
