"""Finding an etcd of a sound version, or building one."""

from pathlib import Path
from typing import Final

import pytest

from braid.kernel.errors import Unavailable
from devmesh.toolchain.etcd_binary import etcd_binary, etcd_version, is_sound
from tests.support.fake_tools import only_on_path, write_tool

# What the stand-in for `go` does: writes a file where the binary shall be.
BUILD: Final = """
import pathlib
output = pathlib.Path(sys.argv[sys.argv.index("-o") + 1])
output.parent.mkdir(parents=True)
output.write_text(pathlib.Path("go.mod").read_text())
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without a cache and without tools."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    only_on_path(monkeypatch, tmp_path / "bin")
    return tmp_path


def fake_etcd(home: Path, version: str) -> Path:
    """Puts an `etcd` on PATH that reports a version."""
    return write_tool(home / "bin", "etcd", f"print('etcd Version: {version}\\nGit SHA: 1234')")


@pytest.mark.parametrize(
    ("version", "sound"),
    [
        (None, False),
        ((3, 4, 40), False),
        ((3, 5, 1), False),
        ((3, 5, 32), False),
        ((3, 5, 33), True),
        ((3, 6, 13), False),
        ((3, 6, 14), True),
        ((3, 7, 0), False),
        ((3, 7, 1), True),
        ((3, 8, 0), True),
        ((4, 0, 0), True),
    ],
)
def test_versions_with_known_holes_are_refused(version: tuple[int, int, int] | None, sound: bool) -> None:
    assert is_sound(version) is sound


def test_the_version_is_read(home: Path) -> None:
    assert etcd_version(fake_etcd(home, "3.5.28")) == (3, 5, 28)
    assert etcd_version(home / "nothing") is None


def test_a_sound_one_on_path_is_taken(home: Path) -> None:
    mine = fake_etcd(home, "3.6.14")
    assert etcd_binary.__wrapped__() == mine


def test_an_old_one_on_path_is_passed_over_for_a_build(home: Path) -> None:
    fake_etcd(home, "3.4.23")
    write_tool(home / "bin", "go", BUILD)
    built = etcd_binary.__wrapped__()
    assert built == home / "cache" / "braid" / "etcd-3.7.3" / "etcd"
    assert "go.etcd.io/etcd/server/v3 v3.7.3" in built.read_text()


def test_a_second_run_builds_nothing(home: Path) -> None:
    go = write_tool(home / "bin", "go", BUILD)
    first = etcd_binary.__wrapped__()
    go.unlink()
    assert etcd_binary.__wrapped__() == first


def test_a_failed_build_is_quoted_and_leaves_nothing(home: Path) -> None:
    write_tool(home / "bin", "go", "sys.exit('no such module')")
    with pytest.raises(Unavailable, match="no such module"):
        etcd_binary.__wrapped__()
    assert [path.name for path in (home / "cache" / "braid").iterdir()] == ["etcd-3.7.3.lock"]


def test_without_etcd_and_go_both_are_named(home: Path) -> None:
    with pytest.raises(Unavailable) as raised:
        etcd_binary.__wrapped__()
    assert "3.5.33, 3.6.14, 3.7.1" in raised.value.message
    assert "install" in raised.value.remedy
