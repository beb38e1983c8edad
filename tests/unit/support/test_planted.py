"""Secrets that tests plant are found wherever a run printed or kept them, and nowhere else."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from testbed.authority import Authority
from tests.support.exposure import EXIT_EXPOSED
from tests.support.planted import (
    CREDENTIAL_MARK,
    checked,
    credential,
    exposed_below,
    exposed_in,
    planted_record,
)
from tests.support.token_issuer import TokenIssuer

ROOT: Final = Path(__file__).resolve().parents[3]
RUN_SECONDS: Final = 60.0


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A directory outside of what this very run keeps: what is planted there is not this run's."""
    with TemporaryDirectory() as directory:
        yield Path(directory)


def kinds(text: str | bytes, *, records: bool = True) -> list[str]:
    data = text.encode() if isinstance(text, str) else text
    return [each.kind for each in exposed_in(data, "here", records=records)]


def test_each_kind_of_secret_is_found_in_a_text() -> None:
    key = Authority.make().issue()[1].decode()
    assert kinds(f"the password {credential('app')} is wrong") == ["a planted credential"]
    assert kinds(b"could not handle " + planted_record("7")) == ["a planted record"]
    assert kinds(f"it read {key}") == ["a private key", "the body of a private key"]
    assert kinds(f"it read {key.encode()!r}") == ["a private key", "the body of a private key"]
    assert kinds(key.splitlines()[1]) == ["the body of a private key"]
    assert kinds(f"Authorization: Bearer {TokenIssuer().token()}") == ["a signed token"]
    assert kinds('welcome { resume_secret: "\\206abc" }') == ["a member's secret"]
    assert kinds("Welcome(resume_secret=b'\\x86abc')") == ["a member's secret"]
    assert kinds('{"resumeSecret": "hqFi"}') == ["a member's secret"]


def test_what_only_speaks_of_secrets_is_left_alone() -> None:
    harmless = (
        "it begins with -----BEGIN PRIVATE KEY-----",
        "password_file: /tmp/password cannot be read",
        'resume_secret: ""',
        "a token is three parts: eyJ….eyJ….signature",
        Authority.make().pem.decode(),
    )
    assert [kinds(each) for each in harmless] == [[]] * len(harmless)


def test_a_finding_does_not_repeat_the_secret() -> None:
    (found,) = exposed_in(f"login failed for {credential('app')}".encode(), "broker.log")
    assert str(found) == "a planted credential in broker.log, after 'login failed for '"


def test_a_command_that_prints_a_credential_fails_its_test() -> None:
    well = subprocess.CompletedProcess(["braid"], 0, planted_record("7").decode(), "")
    assert checked(well, "braid consume") is well
    with pytest.raises(AssertionError, match=r"a planted credential in braid dev status, after .*PLANTED_SECRET="):
        checked(subprocess.CompletedProcess(["braid"], 0, "", f"PLANTED_SECRET={credential('x')}"), "braid dev status")


def test_records_may_lie_in_stores_and_nowhere_in_logs(elsewhere: Path) -> None:
    for name in ("dlq-index.db", "registry.log"):
        (elsewhere / name).write_bytes(b"\0" + planted_record("7"))
    assert [each.where for each in exposed_below(elsewhere).exposed] == ["registry.log"]


def test_files_that_hold_secrets_are_left_out(elsewhere: Path) -> None:
    inner = elsewhere / "test_a_password_is_changed0"
    (inner / "data").mkdir(parents=True)
    (inner / "east").mkdir()
    for name in (
        "east/meta.properties",
        "east/00000000000000000000.log",
        "key.pem",
        "app.toml",
        "password",
        "data/0.log",
        "events.db",
        "mesh.log",
    ):
        (inner / name).write_text(credential("app"))
    (inner / "gone.log").symlink_to(inner / "nowhere")
    (inner / "empty.log").touch()
    search = exposed_below(elsewhere)
    assert [each.where for each in search.exposed] == [f"{inner.name}/events.db", f"{inner.name}/mesh.log"]
    assert (search.files, search.unread) == (3, 0)


def test_a_search_without_time_says_what_it_left_out(elsewhere: Path) -> None:
    for number in range(3):
        (elsewhere / f"{number}.log").write_text("nothing")
    search = exposed_below(elsewhere, seconds=-1.0)
    assert (search.files, search.unread) == (0, 3)


# --- whole runs of pytest

LEAKS: Final = f"""
import os, subprocess

def test_that_prints() -> None:
    print('{credential("p")}')

def test_that_logs(tmp_path) -> None:
    (tmp_path / 'mesh.log').write_text('{credential("l")}')

def test_that_fails() -> None:
    raise ValueError('{credential("e")}')

def test_that_dumps_its_environment(tmp_path) -> None:
    (tmp_path / 'crash.txt').write_bytes(subprocess.check_output(['env']))
"""
WELL: Final = """
def test_it(tmp_path) -> None:
    (tmp_path / 'mesh.log').write_text('well')
"""


def run(directory: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A run of pytest over one file."""
    (directory / "test_it.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.exposure", "-p", "no:cacheprovider"]
    where = ["--rootdir", str(directory), "--basetemp", str(directory / "kept"), "-c", os.devnull]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return subprocess.run(
        [*command, *where, *arguments, str(directory / "test_it.py")],
        capture_output=True,
        text=True,
        cwd=directory,
        env=environment | {"PYTHONPATH": str(ROOT)},
        timeout=RUN_SECONDS,
    )


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [[], ["-n", "2"]], ids=["alone", "workers"])
def test_a_run_that_shows_secrets_fails_and_names_the_places(arguments: list[str], elsewhere: Path) -> None:
    done = run(elsewhere, LEAKS, *arguments)
    assert done.returncode == EXIT_EXPOSED, done.stderr
    shown = done.stdout.partition("SECRETS ARE SHOWN")[2].partition("short test summary")[0]
    places = ("test_that_prints", "mesh.log", "the error of", "crash.txt")
    assert [place for place in places if f"{place}, after" in shown or f"{place} " in shown] == list(places)
    assert CREDENTIAL_MARK not in shown


@pytest.mark.slow
def test_a_run_that_shows_none_passes_and_says_what_it_read(elsewhere: Path) -> None:
    done = run(elsewhere, WELL)
    assert done.returncode == 0, done.stdout
    assert "secrets were looked for in 1 files" in done.stdout
