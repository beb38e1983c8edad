"""Finding Alertmanager, or downloading it."""

import hashlib
from pathlib import Path
from typing import Final

import pytest

from braid.kernel.errors import Unavailable
from testbed.prometheus import alertmanager
from tests.support.fake_tools import only_on_path, write_tool

# Stand-ins: `apt-get` leaves a package, `dpkg-deb` unpacks it.
DOWNLOAD: Final = """
import pathlib
if "download" in sys.argv:
    pathlib.Path("prometheus-alertmanager_amd64.deb").write_text("a package")
"""
UNPACK: Final = """
import pathlib
there = pathlib.Path(sys.argv[3]) / "usr"
templates = there / "share" / "prometheus" / "alertmanager"
for directory in (there / "bin", templates):
    directory.mkdir(parents=True)
(there / "bin" / "prometheus-alertmanager").write_text("reads /usr/share/prometheus/alertmanager/default.tmpl")
(templates / "default.tmpl").write_text("a template")
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where tools of a user without a cache lie, on a machine whose package is pinned."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setitem(alertmanager.DEBIAN_SHA256, "x86_64", hashlib.sha256(b"a package").hexdigest())
    only_on_path(monkeypatch, tmp_path / "bin")
    return tmp_path / "bin"


def test_the_package_is_unpacked_with_its_templates_beside_it(tools: Path) -> None:
    write_tool(tools, "apt-get", DOWNLOAD)
    write_tool(tools, "dpkg-deb", UNPACK)
    binary = alertmanager.obtain()
    assert (binary.parent / "default.tmpl").read_text() == "a template"
    assert binary.read_text() == "reads ." + "/" * 33 + "/default.tmpl"
    assert alertmanager.obtain() == binary


def test_another_package_is_refused(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tool(tools, "apt-get", DOWNLOAD)
    write_tool(tools, "dpkg-deb", UNPACK)
    monkeypatch.setitem(alertmanager.DEBIAN_SHA256, "x86_64", "0" * 64)
    with pytest.raises(Unavailable, match="is committed"):
        alertmanager.obtain()


def test_a_machine_without_the_package_needs_it_on_path(tools: Path) -> None:
    with pytest.raises(Unavailable, match="on PATH") as caught:
        alertmanager.obtain()
    assert "install Alertmanager" in caught.value.remedy
