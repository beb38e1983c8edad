"""Directories that readers see as a whole, whatever interrupts their replacement."""

import threading
from pathlib import Path

import pytest

from braid.certs import generations
from braid.certs.generations import make_private_directory, replace_directory


def test_a_replaced_directory_holds_the_new_files_alone(tmp_path: Path) -> None:
    link = tmp_path / "leaf"
    replace_directory(link, {"a": b"1", "b": b"1"})
    replace_directory(link, {"a": b"2"})
    assert {each.name: each.read_bytes() for each in link.iterdir()} == {"a": b"2"}
    assert len(list(tmp_path.iterdir())) == 3  # the link, its generation and the one before
    replace_directory(link, {"a": b"3"})
    assert len(list(tmp_path.iterdir())) == 3


def test_who_followed_the_link_before_a_swap_finds_its_file(tmp_path: Path) -> None:
    """The kernel follows a link first, and looks for the file in what it found then."""
    link = tmp_path / "leaf"
    replace_directory(link, {"a": b"1"})
    followed = link.resolve()
    replace_directory(link, {"a": b"2"})
    assert (followed / "a").read_bytes() == b"1"


def test_files_and_directories_are_for_their_owner_alone(tmp_path: Path) -> None:
    directory = tmp_path / "private"
    make_private_directory(directory)
    replace_directory(directory / "leaf", {"key.pem": b"secret"})
    assert directory.stat().st_mode & 0o777 == 0o700
    assert (directory / "leaf").stat().st_mode & 0o777 == 0o700
    assert (directory / "leaf" / "key.pem").stat().st_mode & 0o777 == 0o600


def test_a_run_that_ends_before_the_swap_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = tmp_path / "leaf"
    replace_directory(link, {"a": b"1"})
    with monkeypatch.context() as patched:
        patched.setattr(generations, "_swap", _die)
        with pytest.raises(KeyboardInterrupt):
            replace_directory(link, {"a": b"2"})
    assert (link / "a").read_bytes() == b"1"
    replace_directory(link, {"a": b"3"})
    assert (link / "a").read_bytes() == b"3"
    assert len(list(tmp_path.iterdir())) == 3  # what the interrupted run left is gone


def test_a_neighbour_with_a_longer_name_stays(tmp_path: Path) -> None:
    for name in ("a", "a.b", "a.0123abcd"):
        replace_directory(tmp_path / name, {"f": name.encode()})
    replace_directory(tmp_path / "a", {"f": b"a"})
    assert [(tmp_path / name / "f").read_bytes() for name in ("a", "a.b", "a.0123abcd")] == [
        b"a",
        b"a.b",
        b"a.0123abcd",
    ]


def test_a_reader_never_misses_a_file_during_swaps(tmp_path: Path) -> None:
    link = tmp_path / "leaf"
    replace_directory(link, {"a": b"0"})
    missed: list[OSError] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            try:
                (link / "a").stat()
            except OSError as error:
                missed.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(50):
        replace_directory(link, {"a": str(number).encode()})
    done.set()
    reader.join()
    assert missed == []


def _die(link: Path, target: str) -> None:
    raise KeyboardInterrupt
