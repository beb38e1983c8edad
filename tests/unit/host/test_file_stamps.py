"""The signs that a file changed: its content, its length, its place, its permissions."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from braid.host.file_stamps import file_stamp

OLD_NS = 1_000_000_000


def written_in_place(path: Path) -> None:
    path.write_bytes(b"same")


def longer_at_the_same_time(path: Path) -> None:
    path.write_bytes(b"longer")
    os.utime(path, ns=(OLD_NS, OLD_NS))


def replaced_by_one_alike(path: Path) -> None:
    other = path.with_suffix(".new")
    other.write_bytes(b"same")
    os.utime(other, ns=(OLD_NS, OLD_NS))
    other.replace(path)


def opened_to_others(path: Path) -> None:
    path.chmod(0o644)


def gone(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize(
    "change", [written_in_place, longer_at_the_same_time, replaced_by_one_alike, opened_to_others, gone]
)
def test_a_file_changes_and_its_stamp_does_too(tmp_path: Path, change: Callable[[Path], None]) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"same")
    path.chmod(0o600)
    os.utime(path, ns=(OLD_NS, OLD_NS))
    before = file_stamp(path)
    assert before == file_stamp(path), "nothing changed"
    change(path)
    assert file_stamp(path) != before


def test_a_link_is_pointed_elsewhere_and_the_stamp_changes(tmp_path: Path) -> None:
    link = tmp_path / "link"
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"same")
        os.utime(tmp_path / name, ns=(OLD_NS, OLD_NS))
    link.symlink_to("a")
    before = file_stamp(link)
    link.unlink()
    link.symlink_to("b")
    assert file_stamp(link) != before


def test_a_path_leads_nowhere_and_has_no_stamp(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert file_stamp(tmp_path / "absent") is None
    assert file_stamp(tmp_path / "file" / "below") is None
