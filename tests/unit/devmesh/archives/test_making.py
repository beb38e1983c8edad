"""The class archive: made once, for one JVM and its jars; whole or absent; never a reason not to start."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

import pytest

from devmesh.archives.making import ensure_archive
from devmesh.toolchain.cache import cache_directory
from devmesh.toolchain.class_archive import FAILED, PREFIX, archive_entry, archive_options, find_archive
from devmesh.toolchain.java import java_banner
from devmesh.toolchain.jvm import BROKER_CLASS, KafkaJvm
from testbed.patience import wait
from tests.support.fake_java import ARCHIVE, BANNER, calls, fake_java, go_wrong

_MAKE: Final = (
    "import sys; from devmesh.archives.making import ensure_archive; from devmesh.toolchain.jvm import KafkaJvm\n"
    "ensure_archive(KafkaJvm(*sys.argv[1:]), print)"
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without a cache, and one jar."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "kafka.jar").write_bytes(b"classes")
    java_banner.cache_clear()
    return tmp_path


def new_jvm(home: Path, said: str = BANNER, mode: str = "") -> KafkaJvm:
    """A JVM that runs the stand-in for Java."""
    java_banner.cache_clear()
    return KafkaJvm(str(fake_java(home, said, mode)), str(home / "kafka.jar"))


def brokers_run(home: Path) -> int:
    """How many were thrown away."""
    return calls(home).count(BROKER_CLASS)


def test_it_is_made_once_and_then_used(home: Path) -> None:
    jvm, said = new_jvm(home), list[str]()
    assert archive_options(jvm) == []
    archive = ensure_archive(jvm, said.append)
    assert archive is not None
    assert archive.read_bytes() == ARCHIVE
    assert len(said) == 1, "one line that it takes time"
    assert ensure_archive(jvm, said.append) == archive
    assert (len(said), brokers_run(home)) == (1, 1)
    options = archive_options(jvm)
    assert options == [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:cds*=off"]
    assert jvm.command("Main", options=options)[-3:] == ["-cp", jvm.classpath, "Main"]


def test_makers_at_once_make_it_once(home: Path) -> None:
    jvm, found = new_jvm(home), list[Path | None]()
    threads = [threading.Thread(target=lambda: found.append(ensure_archive(jvm, print))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert found[0] is not None
    assert brokers_run(home) == 1


def test_another_jvm_and_other_jars_have_another_one(home: Path) -> None:
    jvm = new_jvm(home)
    entries = {archive_entry(jvm)}
    entries.add(archive_entry(new_jvm(home, 'openjdk version "17.0.15" 2025-04-15\nTemurin-17.0.15+6')))
    jvm = new_jvm(home)
    os.utime(home / "kafka.jar", ns=(1, 1))
    entries.add(archive_entry(jvm))
    (home / "kafka.jar").write_bytes(b"more classes")
    entries.add(archive_entry(jvm))
    entries.add(archive_entry(jvm._replace(classpath=f"{jvm.classpath}{os.pathsep}{home}/none.jar")))
    assert len(entries) == 5
    assert archive_entry(jvm) == archive_entry(jvm._replace(heap_mb=1024, tiered_stop_at_level=None))


def test_one_that_was_cut_short_is_not_used_but_made_anew(home: Path) -> None:
    jvm = new_jvm(home)
    archive = ensure_archive(jvm, print)
    assert archive is not None
    with archive.open("ab") as file:
        file.truncate(100)
    assert archive_options(jvm) == []
    assert ensure_archive(jvm, print) == archive
    assert archive.read_bytes() == ARCHIVE


def test_a_jvm_that_writes_none_is_told_of_once(home: Path) -> None:
    jvm, said = new_jvm(home, mode="no archive"), list[str]()
    assert ensure_archive(jvm, said.append) is None
    assert len(said) == 2
    assert "archiving is not for this JVM" in said[1]
    assert "\n" not in said[1]
    assert ensure_archive(jvm, said.append) is None
    assert (len(said), brokers_run(home)) == (2, 1)
    assert archive_options(jvm) == []
    go_wrong(home, "")
    assert ensure_archive(jvm, said.append, again=True) is not None, "asked for, it is tried again"
    assert not (archive_entry(jvm) / FAILED).exists()


def test_a_broker_that_cannot_start_is_no_error(home: Path) -> None:
    said = list[str]()
    assert ensure_archive(new_jvm(home, mode="no format"), said.append) is None
    assert "made of cheese" in said[-1]


def test_a_cache_that_cannot_be_written_is_no_error(home: Path) -> None:
    jvm, said = new_jvm(home), list[str]()
    (cache_directory() / f"{archive_entry(jvm).name}.lock").mkdir()
    assert ensure_archive(jvm, said.append) is None
    assert "could not be archived" in said[-1]


def test_a_maker_that_is_killed_leaves_nothing_that_is_used(home: Path) -> None:
    jvm = new_jvm(home, mode="hangs")
    with subprocess.Popen([sys.executable, "-c", _MAKE, jvm.java, jvm.classpath], stdout=subprocess.DEVNULL) as maker:
        try:
            wait(lambda: list(cache_directory().glob(".*/classes.jsa")), "the archive is being written", 60.0)
        finally:
            maker.send_signal(signal.SIGKILL)
    assert find_archive(archive_entry(jvm)) is None
    go_wrong(home, "")
    assert ensure_archive(jvm, print) is not None
    assert list(cache_directory().glob(".*")) == [], "what the killed one left is gone"


def test_archives_of_jvms_long_gone_are_removed(home: Path) -> None:
    for age in range(5):
        old = cache_directory() / f"{PREFIX}{age}"
        old.mkdir()
        os.utime(old, (1_000 - age, 1_000 - age))
    archive = ensure_archive(new_jvm(home), print)
    assert archive is not None
    kept = {path.name.removeprefix(PREFIX) for path in cache_directory().glob(f"{PREFIX}*") if path.is_dir()}
    assert kept == {"0", "1", archive.parent.name.removeprefix(PREFIX)}
