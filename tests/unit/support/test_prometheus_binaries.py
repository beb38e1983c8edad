"""Finding prometheus and promtool, downloading them, or building them."""

import hashlib
from pathlib import Path
from typing import Final

import pytest

from braid.kernel.errors import Unavailable
from testbed.prometheus import binaries
from tests.support.fake_tools import GO_BUILD, only_on_path, write_tool

VERSION: Final = "print('{name}, version {version}.0 (branch: HEAD)', file=sys.{stream})"
# Stand-ins: `apt-get` leaves a package, `dpkg-deb` unpacks it, `go` writes a file where a binary shall be.
DOWNLOAD: Final = """
import pathlib
if "download" in sys.argv:
    pathlib.Path("prometheus_amd64.deb").write_text("a package")
"""
UNPACK: Final = """
import pathlib
where = pathlib.Path(sys.argv[3]) / "usr" / "bin"
where.mkdir(parents=True)
(where / "prometheus").write_text("of Debian")
(where / "promtool").write_text("of Debian")
"""
BUILD: Final = GO_BUILD.format(written="go.mod")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without a cache and without tools, on a machine whose package is pinned."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    only_on_path(monkeypatch, tmp_path / "bin")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setitem(binaries.DEBIAN_SHA256, "x86_64", hashlib.sha256(b"a package").hexdigest())
    return tmp_path


def put_debian(home: Path) -> None:
    """Puts Debian's tools on PATH."""
    write_tool(home / "bin", "apt-get", DOWNLOAD)
    write_tool(home / "bin", "dpkg-deb", UNPACK)


def put_prometheus(home: Path, version: str) -> None:
    """Puts both binaries on PATH, one of which writes its version to stderr, as versions before 2.46 do."""
    for name, stream in (("prometheus", "stderr"), ("promtool", "stdout")):
        write_tool(home / "bin", name, VERSION.format(name=name, version=version, stream=stream))


def test_usable_binaries_on_path_are_taken(home: Path) -> None:
    put_prometheus(home, "2.42")
    found = binaries.prometheus_binaries.__wrapped__()
    assert found == (home / "bin" / "prometheus", home / "bin" / "promtool")


def test_old_binaries_on_path_are_passed_over(home: Path) -> None:
    put_prometheus(home, "2.41")
    put_debian(home)
    found = binaries.prometheus_binaries.__wrapped__()
    assert [path.read_text() for path in found] == ["of Debian", "of Debian"]


def test_a_second_run_downloads_nothing(home: Path) -> None:
    put_debian(home)
    first = binaries.obtain()
    (home / "bin" / "apt-get").unlink()
    assert binaries.obtain() == first


def test_a_package_with_another_checksum_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_debian(home)
    monkeypatch.setitem(binaries.DEBIAN_SHA256, "x86_64", "00")
    with pytest.raises(Unavailable, match="00 is committed"):
        binaries.obtain()
    assert [path.suffix for path in (home / "cache" / "braid").iterdir()] == [".lock"]


def test_stale_package_lists_are_refreshed(home: Path) -> None:
    stale = "\nif 'download' in sys.argv and '-o' not in sys.argv: sys.exit('404')"
    write_tool(home / "bin", "apt-get", stale + DOWNLOAD)
    write_tool(home / "bin", "dpkg-deb", UNPACK)
    assert binaries.obtain().promtool.read_text() == "of Debian"


def test_a_gone_package_is_replaced_by_a_build(home: Path) -> None:
    write_tool(home / "bin", "apt-get", "sys.exit('no such version')")
    write_tool(home / "bin", "dpkg-deb", UNPACK)
    write_tool(home / "bin", "go", BUILD)
    found = binaries.obtain()
    assert f"github.com/prometheus/prometheus {binaries.MODULE_VERSION}" in found.prometheus.read_text()


def test_a_failed_build_says_why_debian_failed_too(home: Path) -> None:
    write_tool(home / "bin", "apt-get", "sys.exit('no such version')")
    write_tool(home / "bin", "dpkg-deb", UNPACK)
    write_tool(home / "bin", "go", "sys.exit('no such module')")
    with pytest.raises(Unavailable, match=r"(?s)no such module.*no such version"):
        binaries.obtain()


def test_without_any_source_the_remedy_is_named(home: Path) -> None:
    with pytest.raises(Unavailable) as raised:
        binaries.obtain()
    assert "prometheus and promtool of 2.42 or newer" in raised.value.message
    assert "install" in raised.value.remedy
