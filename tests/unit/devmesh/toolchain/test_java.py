"""Finding a Java that runs Kafka."""

from pathlib import Path

import pytest

from braid.kernel.errors import Unavailable
from devmesh.toolchain.java import choose_java, java_binary, java_version
from tests.support.fake_tools import write_tool


def fake_java(directory: Path, version: str) -> Path:
    """A `java` that reports a version the way OpenJDK does."""
    return write_tool(directory, "java", f"""sys.stderr.write('openjdk version "{version}" 2025-04-15\\n')""")


@pytest.mark.parametrize(
    ("reported", "major"), [("17.0.15", 17), ("21", 21), ("1.8.0_402", 8), ("11.0.2", 11), ("25-ea", 25)]
)
def test_the_major_version_is_read(tmp_path: Path, reported: str, major: int) -> None:
    assert java_version(fake_java(tmp_path, reported)) == major


def test_what_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert java_version(tmp_path / "java") is None
    assert java_version(write_tool(tmp_path, "java", "sys.exit(3)")) is None


def test_the_first_supported_one_is_chosen(tmp_path: Path) -> None:
    old, new, newer = (fake_java(tmp_path / version, version) for version in ("11.0.1", "21.0.2", "17.0.1"))
    assert choose_java([old, new, newer]) == new


def test_none_is_a_precise_error(tmp_path: Path) -> None:
    old, broken = fake_java(tmp_path / "old", "11.0.1"), tmp_path / "broken"
    with pytest.raises(Unavailable) as raised:
        choose_java([old, broken])
    assert f"{old} is Java 11" in str(raised.value)
    assert f"{broken} is no working Java" in str(raised.value)
    assert "install" in raised.value.remedy
    assert "JAVA_HOME" in raised.value.remedy


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = fake_java(tmp_path / "bin", "21.0.9")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    java_binary.cache_clear()
    assert java_binary() == mine
    java_binary.cache_clear()
