"""Kafka's jars: resolved once, whole or not at all, and only with their committed checksums."""

import hashlib
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from braid.kernel.errors import Unavailable
from devmesh.toolchain import jars
from devmesh.toolchain.jars import expected_checksums, kafka_classpath, resolve_kafka, verify
from tests.support.fake_tools import only_on_path, write_tool

JARS: Final = {"kafka-clients-4.3.1.jar": b"clients", "slf4j-nop-1.7.36.jar": b"nop"}

# What the stand-in for `mvn` does: notes that it ran, and writes the jars where it is told to.
RESOLVE: Final = """
import pathlib, time
with open({calls!r}, "a") as calls:
    calls.write("called\\n")
target = next(word.partition("=")[2] for word in sys.argv if word.startswith("-DoutputDirectory="))
pathlib.Path(target).mkdir()
for name, content in {jars!r}.items():
    (pathlib.Path(target) / name).write_bytes(content)
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without a cache, without tools, who wants the small set of jars."""
    checksums = tmp_path / "kafka.sha256"
    lines = (f"{hashlib.sha256(content).hexdigest()}  {name}" for name, content in JARS.items())
    checksums.write_text("\n".join(lines))
    monkeypatch.setattr(jars, "_checksum_file", lambda version: checksums)
    monkeypatch.setattr(jars, "ivy_jar", lambda: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    only_on_path(monkeypatch, tmp_path / "bin")
    return tmp_path


def install_maven(home: Path, resolved: Mapping[str, bytes] = JARS) -> Path:
    """Puts a `mvn` on PATH that yields the given jars; returns the file where it notes its calls."""
    calls = home / "calls"
    write_tool(home / "bin", "mvn", RESOLVE.format(calls=str(calls), jars=dict(resolved)))
    return calls


def entries(home: Path) -> list[str]:
    """The entries of the cache."""
    return sorted(path.name for path in (home / "cache" / "braid").iterdir())


def test_the_committed_checksums_are_kafkas_whole_closure() -> None:
    checksums = expected_checksums()
    assert len(checksums) == 46
    assert {"kafka_2.13-4.3.1.jar", "kafka-clients-4.3.1.jar", "slf4j-nop-1.7.36.jar"} <= checksums.keys()
    assert {"HdrHistogram-2.2.2.jar", "snakeyaml-2.5.jar", "snappy-java-1.1.10.7.jar"} <= checksums.keys()


def test_a_second_run_resolves_nothing(home: Path) -> None:
    calls = install_maven(home)
    first = kafka_classpath()
    assert kafka_classpath() == first
    assert resolve_kafka() == home / "cache" / "braid" / "kafka-4.3.1"
    assert calls.read_text() == "called\n"
    assert [Path(part).name for part in first.split(os.pathsep)] == sorted(JARS)


def test_concurrent_resolvers_resolve_once(home: Path) -> None:
    calls = install_maven(home)
    threads = [threading.Thread(target=resolve_kafka) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls.read_text() == "called\n"
    assert entries(home) == ["kafka-4.3.1", "kafka-4.3.1.lock"]


@pytest.mark.parametrize(
    ("resolved", "named"),
    [
        pytest.param(JARS | {"kafka-clients-4.3.1.jar": b"forged"}, "kafka-clients-4.3.1.jar has sha256", id="wrong"),
        pytest.param({"slf4j-nop-1.7.36.jar": b"nop"}, "kafka-clients-4.3.1.jar is missing", id="missing"),
        pytest.param(JARS | {"extra.jar": b""}, "extra.jar is not among", id="unexpected"),
    ],
)
def test_a_jar_that_differs_from_the_lock_is_named_and_not_kept(
    home: Path, resolved: Mapping[str, bytes], named: str
) -> None:
    install_maven(home, resolved)
    with pytest.raises(Unavailable, match=named):
        resolve_kafka()
    assert entries(home) == ["kafka-4.3.1.lock"]


def test_a_jar_damaged_in_the_cache_is_named(home: Path) -> None:
    install_maven(home)
    damaged = resolve_kafka() / "kafka-clients-4.3.1.jar"
    damaged.write_bytes(b"damaged")
    with pytest.raises(Unavailable, match=str(damaged)) as raised:
        resolve_kafka()
    assert str(damaged.parent) in raised.value.remedy


def test_a_resolver_that_fails_is_quoted_and_leaves_nothing(home: Path) -> None:
    write_tool(home / "bin", "mvn", "print('cannot reach the repository'); sys.exit(1)")
    with pytest.raises(Unavailable, match="cannot reach the repository"):
        resolve_kafka()
    assert entries(home) == ["kafka-4.3.1.lock"]


def test_without_any_resolver_both_are_named(home: Path) -> None:
    with pytest.raises(Unavailable) as raised:
        resolve_kafka()
    assert "mvn" in raised.value.message
    assert "PySpark" in raised.value.message
    assert "requirements/spark.txt" in raised.value.remedy


def test_ivy_resolves_where_there_is_no_maven(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = (
        "import pathlib\nassert sys.argv[1:3] == ['-jar', 'ivy.jar'] and 'bundle' in sys.argv\n"
        "target = pathlib.Path(sys.argv[sys.argv.index('-retrieve') + 1]).parent\ntarget.mkdir()\n"
        f"for name, content in {dict(JARS)!r}.items():\n    (target / name).write_bytes(content)\n"
    )
    java = write_tool(home / "elsewhere", "java", body)
    monkeypatch.setattr(jars, "ivy_jar", lambda: Path("ivy.jar"))
    monkeypatch.setattr(jars, "java_binary", lambda: java)
    verify(resolve_kafka(), expected_checksums(), "")


def test_asking_for_the_cache_resolves_nothing(home: Path) -> None:
    assert jars.main(["--cached"]) == 1
    calls = install_maven(home)
    assert jars.main(["--cached"]) == 1
    assert not calls.exists()
    resolve_kafka()
    assert jars.main(["--cached"]) == 0


def test_the_command_says_why_it_failed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert jars.main([]) == 1
    assert "cannot be resolved" in capsys.readouterr().err
