"""Files are read again once they changed; what cannot be used leaves what was read before."""

import threading
from pathlib import Path

import pytest

from braid.host.reread_files import RereadFiles
from braid.kernel.errors import Invalid

RELOAD_SECONDS = 10.0


class Watched:
    """Two files of numbers, and what was told of them."""

    def __init__(self, directory: Path) -> None:
        self.paths = [directory / "a", directory / "b"]
        self.seconds = 0.0
        self.reads = 0
        self.told: list[str] = []
        self.write("1", "2")
        self.files = RereadFiles(
            self.paths,
            self.read,
            RELOAD_SECONDS,
            on_read=lambda value: self.told.append(f"read {value}"),
            on_unusable=lambda error: self.told.append(f"unusable: {error.field}"),
            elapsed=lambda: self.seconds,
        )

    def read(self) -> list[int]:
        self.reads += 1
        try:
            return [int(path.read_text()) for path in self.paths]
        except (OSError, ValueError):
            raise Invalid("is no number", field="a") from None

    def write(self, *texts: str) -> None:
        """Replaces both files."""
        for path, text in zip(self.paths, texts, strict=True):
            part = path.with_suffix(".new")
            part.write_text(text)
            part.replace(path)

    def later(self) -> list[int]:
        """Returns their content once they are looked at again."""
        self.seconds += RELOAD_SECONDS
        return self.files.current()


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_files_that_stay_the_same_are_read_once(watched: Watched) -> None:
    first = watched.files.current()
    assert watched.later() is first
    assert (first, watched.reads, watched.told) == ([1, 2], 1, [])


def test_changed_files_are_read_when_their_time_has_come(watched: Watched) -> None:
    watched.write("1", "3")
    watched.seconds = RELOAD_SECONDS - 0.1
    assert watched.files.current() == [1, 2]
    assert watched.later() == [1, 3]
    assert (watched.reads, watched.told) == (2, ["read [1, 3]"])


def test_unusable_files_are_told_once_and_change_nothing(watched: Watched) -> None:
    watched.write("x", "3")
    assert [watched.later(), watched.later()] == [[1, 2], [1, 2]]
    assert (watched.reads, watched.told) == (2, ["unusable: a"])
    watched.write("4", "3")
    assert watched.later() == [4, 3]


def test_a_file_that_goes_and_comes_back_is_read_again(watched: Watched) -> None:
    watched.paths[0].unlink()
    assert watched.later() == [1, 2]
    watched.write("5", "2")
    assert watched.later() == [5, 2]


def test_files_that_are_unusable_at_first_are_an_error(watched: Watched) -> None:
    watched.write("x", "y")
    with pytest.raises(Invalid, match="is no number"):
        RereadFiles(watched.paths, watched.read, 1.0, on_read=print, on_unusable=print)


def test_a_change_while_they_are_read_first_is_not_missed(tmp_path: Path) -> None:
    path, clock = tmp_path / "a", [0.0]
    path.write_text("1")

    def read() -> str:
        text = path.read_text()
        path.write_text(f"{text} and more")
        return text

    files = RereadFiles([path], read, 1.0, on_read=print, on_unusable=print, elapsed=lambda: clock[0])
    clock[0] = 1.0
    assert files.current() == "1 and more"


def test_one_thread_looks_and_the_others_do_not_wait(watched: Watched) -> None:
    looking, go_on = threading.Event(), threading.Event()
    original = watched.read

    def slowly() -> list[int]:
        looking.set()
        assert go_on.wait(30.0)
        return original()

    slow = RereadFiles(
        watched.paths,
        lambda: slowly() if watched.seconds else original(),
        RELOAD_SECONDS,
        on_read=lambda _: None,
        on_unusable=lambda _: None,
        elapsed=lambda: watched.seconds,
    )
    watched.write("7", "8")
    watched.seconds = RELOAD_SECONDS
    thread = threading.Thread(target=slow.current)
    thread.start()
    assert looking.wait(30.0)
    assert slow.current() == [1, 2]
    go_on.set()
    thread.join(30.0)
    assert slow.current() == [7, 8]
