"""The command line as its users meet it: real processes, a real mesh, pipes, signals, exit codes."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from devmesh.mesh import DevMesh
from tests.support.mesh import running_mesh

BRAID: Final = (sys.executable, "-c", "from braid.cli import main; main()")
COMMAND_SECONDS: Final = 60.0

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory in which a mesh runs, and a stream `logs`; commands run there find it by themselves."""
    directory = tmp_path_factory.mktemp("cli")
    with running_mesh(directory / ".braid"):
        made = braid(directory, "create stream logs --lane live=4 --lane bulk=4")
        assert (made.returncode, made.stderr) == (0, "")
        yield directory


def braid(directory: Path, line: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Runs a command line to its end."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BRAID_")}
    environment["XDG_CONFIG_HOME"] = str(directory)
    return subprocess.run(
        [*BRAID, *line.split()],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=directory,
        env=environment,
        timeout=COMMAND_SECONDS,
    )


def printed(directory: Path, line: str, stdin: str = "") -> str:
    """What a command that succeeds prints."""
    done = braid(directory, line, stdin)
    assert (done.returncode, done.stderr) == (0, ""), f"braid {line}: {done}"
    return done.stdout


def test_a_newcomers_first_commands(where: Path) -> None:
    told = printed(where, "produce logs --key-delimiter :", "host-1:hello\nhost-2:world\n")
    assert told.startswith("stream/logs 2 records acknowledged in ")
    assert sorted(printed(where, "consume logs --from earliest --max 2").split()) == ["hello", "world"]
    assert "logs  bulk=4,live=4" in printed(where, "get streams")
    assert printed(where, "get clusters -o name") == "cluster/east\ncluster/west\n"
    assert printed(where, "doctor").splitlines()[0].split() == ["NAME", "RESULT", "DETAIL"]


def test_a_group_works_through_the_command_line(where: Path) -> None:
    lines = "".join(f"{number}\n" for number in range(5_000))
    assert " 5000 records acknowledged" in printed(where, "produce logs --lane bulk", lines)
    first = printed(where, "consume logs --lane bulk --group indexer --max 2000").split()
    rest = printed(where, "consume logs --lane bulk --group indexer --max 3000").split()
    assert sorted(map(int, first + rest)) == list(range(5_000))
    assert json.loads(printed(where, "get group indexer -o json"))["status"]["members"] == 0
    assert "Granted to" in printed(where, "why lease logs/bulk/1/0")


def test_a_move_and_back(where: Path) -> None:
    carrying = json.loads(printed(where, "get channels logs/live -o json"))["items"]
    here = next(each["cluster"] for each in carrying if each["state"] == "active")
    there = {"east": "west", "west": "east"}[here]
    assert printed(where, f"move stream logs --to {there} --lane live").startswith("stream/logs moved\n  live: ")
    told = printed(where, "produce logs", "after the move\n")
    assert f"live on {there} 1" in told
    assert "after the move" in printed(where, "consume logs --lane live --timeout 5")
    assert "TrafficMoved" in printed(where, "events --for stream/logs")


def test_manifests(where: Path, tmp_path: Path) -> None:
    assert printed(where, "apply -f -", printed(where, "get stream logs -o yaml")) == "stream/logs unchanged\n"
    text = printed(where, "get stream logs -o yaml").replace("failover: automatic", "failover: propose")
    (tmp_path / "logs.yaml").write_text(text)
    different = braid(where, f"diff -f {tmp_path / 'logs.yaml'}")
    assert (different.returncode, different.stderr) == (1, "")
    assert "+failover: propose" in different.stdout


def test_refusals_have_their_exit_codes(where: Path) -> None:
    codes = [
        braid(where, line).returncode
        for line in (
            "get streams --endpoint 127.0.0.1:1",
            "get stream lgos",
            "create stream logs --lane live=1",
            "create stream x",
            "delete stream logs",
            "get alerts",
            "nonsense",
        )
    ]
    assert codes == [3, 4, 4, 2, 2, 4, 2]


def test_pipes_and_signals(where: Path) -> None:
    with subprocess.Popen([*BRAID, "produce", "logs"], stdin=subprocess.PIPE, cwd=where) as producing:
        assert producing.stdin is not None
        producing.stdin.write(b"interrupted\n")
        producing.stdin.flush()
        with subprocess.Popen(
            [*BRAID, "consume", "logs", "--lane", "live"], stdout=subprocess.PIPE, cwd=where, text=True
        ) as consuming:
            assert consuming.stdout is not None
            assert any("interrupted" in line for line in consuming.stdout)
            consuming.send_signal(signal.SIGINT)
            assert consuming.wait(COMMAND_SECONDS) == 0
        producing.send_signal(signal.SIGINT)
        assert producing.wait(COMMAND_SECONDS) == 130
    closed = subprocess.run(
        f"{sys.executable} -c 'from braid.cli import main; main()' consume logs | head -1",
        shell=True,
        cwd=where,
        capture_output=True,
        timeout=COMMAND_SECONDS,
    )
    assert (closed.returncode, closed.stderr, len(closed.stdout.splitlines())) == (0, b"", 1)


def test_doctor_finds_a_dead_cluster(where: Path) -> None:
    """Last: it breaks the mesh."""
    mesh = DevMesh(where / ".braid")
    run_verb(mesh, "kill", "east")
    try:
        told = braid(where, "doctor -o json")
        assert told.returncode == 4
        failed = {each["name"] for each in json.loads(told.stdout)["findings"] if each["level"] == "fail"}
        assert "cluster/east" in failed
    finally:
        run_verb(mesh, "start", "east")


def run_verb(mesh: DevMesh, verb: str, name: str) -> None:
    """Runs a fault verb."""
    print(asyncio.run(mesh.verb(verb, name)))
