"""`make up` and `make down` say which part of Docker is missing, and run the rest when none is."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.support.compose import ROOT
from tests.support.fake_tools import write_tool

MAKE: Final = shutil.which("make") or "make"


def make(target: str, tools: Path, *variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a target with some programs alone on PATH."""
    tools.mkdir(exist_ok=True)
    return subprocess.run(
        [MAKE, "--no-print-directory", target, *variables],
        cwd=ROOT,
        env={"PATH": str(tools)},
        capture_output=True,
        text=True,
    )


def docker(tools: Path, *failing: str) -> Path:
    """A docker that notes its arguments and fails at verbs that begin so."""
    notes = tools.parent / "notes"
    body = (
        f"said = ' '.join(sys.argv[1:])\nopen({str(notes)!r}, 'a').write(said + chr(10))\n"
        f"sys.exit(any(said.startswith(each) for each in {failing!r}))"
    )
    write_tool(tools, "docker", body)
    return notes


@pytest.mark.parametrize("target", ["up", "down"])
@pytest.mark.parametrize(
    ("failing", "complaint"),
    [
        (None, "docker is missing: https://docs.docker.com/engine/install"),
        ("compose version", "docker has no compose"),
        ("info", "docker does not answer: start its daemon"),
    ],
)
def test_what_is_missing_is_said(target: str, failing: str | None, complaint: str, tmp_path: Path) -> None:
    if failing is not None:
        docker(tmp_path / "bin", failing)
    ended = make(target, tmp_path / "bin")
    assert ended.returncode == 2
    assert f"make {target}: {complaint}" in ended.stderr
    assert "a mesh without Docker: .venv/bin/braid dev" in ended.stderr


def test_with_docker_up_waits_and_down_ends_every_profile(tmp_path: Path) -> None:
    notes = docker(tmp_path / "bin")
    write_tool(tmp_path / "bin", "mkdir", "")
    ended = make("up", tmp_path / "bin")
    assert ended.returncode == 0
    assert ended.stdout.startswith("make up: the endpoint is 127.0.0.1:7401. To use it:\nexport BRAID_ENDPOINT=")
    assert make("down", tmp_path / "bin").returncode == 0
    said = notes.read_text().splitlines()
    up, copied = (
        "compose -f compose.yaml up --build --detach --wait",
        "compose cp certs:/etc/braid/tls/me/. .braid/compose",
    )
    assert said.index(up) < said.index(copied)
    assert "compose --profile spark --profile observability down" in said


def test_an_insecure_up_says_so_and_copies_no_certificate(tmp_path: Path) -> None:
    notes = docker(tmp_path / "bin")
    ended = make("up", tmp_path / "bin", "INSECURE=1")
    said = notes.read_text()
    assert (ended.returncode, "every program that reaches it may do everything" in ended.stdout) == (0, True)
    assert "-f compose.insecure.yaml" in said
    assert "compose cp" not in said


def test_an_up_that_fails_is_not_called_ready(tmp_path: Path) -> None:
    docker(tmp_path / "bin", "compose up")
    ended = make("up", tmp_path / "bin")
    assert (ended.returncode, ended.stdout) == (2, "")
