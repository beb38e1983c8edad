"""Spark's options: with the class archive where one was made, never without the rest."""

from pathlib import Path

import pytest

from braid.kernel.errors import Unavailable
from devmesh.archives import spark as spark_archive
from devmesh.archives.spark import ensure_spark_archive, short_lived_options, spark_jars
from devmesh.toolchain.java import SHORT_LIVED_JVM, java_banner
from tests.support.fake_java import fake_java
from tests.support.fake_tools import write_tool

_SPARK = """
import os, pathlib
archive = os.environ["SPARK_SUBMIT_OPTS"].split("-XX:ArchiveClassesAtExit=")[1].split()[0]
pathlib.Path(archive).write_bytes(b"classes")
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without a cache, whose Java is a stand-in."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    java_banner.cache_clear()
    java = fake_java(tmp_path)
    monkeypatch.setattr(spark_archive, "java_binary", lambda: java)
    return tmp_path


def test_options_name_the_archive_once_it_is_made(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert short_lived_options() == SHORT_LIVED_JVM
    monkeypatch.setattr("sys.executable", str(write_tool(home / "python", "python", _SPARK)))
    archive = ensure_spark_archive(print)
    assert archive is not None
    assert short_lived_options() == f"{SHORT_LIVED_JVM} -XX:SharedArchiveFile={archive} -Xshare:auto -Xlog:cds*=off"


def test_a_session_that_fails_is_told_of_and_no_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = list[str]()
    monkeypatch.setattr("sys.executable", str(write_tool(home / "python", "python", "sys.exit('no room')")))
    assert ensure_spark_archive(said.append) is None
    assert "no room" in said[-1]
    assert short_lived_options() == SHORT_LIVED_JVM


def test_without_java_the_options_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise Unavailable("there is no Java")

    monkeypatch.setattr(spark_archive, "java_binary", none)
    assert short_lived_options() == SHORT_LIVED_JVM


def test_the_jars_are_those_of_the_wheel() -> None:
    jars = spark_jars()
    assert len(jars) > 100
    assert all(jar.endswith(".jar") for jar in jars)
