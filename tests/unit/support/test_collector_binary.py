"""Building the collector once, and again when another one is wanted."""

from pathlib import Path
from typing import Final

import pytest

from braid.kernel.errors import Unavailable
from testbed.collector import binary
from tests.support.fake_tools import GO_BUILD, only_on_path, write_tool

BUILD: Final = GO_BUILD.format(written="main.go")


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where tools of a user without a cache lie."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    only_on_path(monkeypatch, tmp_path / "bin")
    return tmp_path / "bin"


def test_a_collector_is_built_once(tools: Path) -> None:
    write_tool(tools, "go", BUILD)
    built = binary.obtain()
    assert "prometheusexporter" in built.read_text()
    (tools / "go").unlink()
    assert binary.obtain() == built


def test_other_components_are_another_collector(tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tool(tools, "go", BUILD)
    built = binary.obtain()
    for name in ("go.mod", "go.sum"):
        (tmp_path / name).write_bytes((Path(binary.__file__).parent / name).read_bytes())
    (tmp_path / "main.go").write_text("other components")
    monkeypatch.setattr(binary, "MODULE", tmp_path)
    assert binary.obtain() != built
    assert binary.obtain().read_text() == "other components"


def test_a_failed_build_leaves_nothing_and_says_why(tools: Path, tmp_path: Path) -> None:
    write_tool(tools, "go", "sys.exit('no such module')")
    with pytest.raises(Unavailable, match="no such module"):
        binary.obtain()
    assert [path.suffix for path in (tmp_path / "cache" / "braid").iterdir()] == [".lock"]


def test_without_go_the_remedy_is_to_install_it(tools: Path) -> None:
    with pytest.raises(Unavailable, match="there is no Go") as raised:
        binary.obtain()
    assert "go" in raised.value.remedy
