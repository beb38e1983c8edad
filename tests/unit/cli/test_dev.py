"""`braid dev` on the command line: what is refused before anything starts, and how a status is printed."""

from pathlib import Path

import pytest

from braid.cli import app
from braid.cli.dev import status_table
from devmesh.config import MeshConfig
from devmesh.documents import MeshStatus, ProcessStatus

STATUS = MeshStatus(
    dir="/d",
    pid=7,
    ready=True,
    memory_bytes=200 << 20,
    processes=(
        ProcessStatus("east", "cluster", "running", 41, "127.0.0.1:19192", "a", 0, 150 << 20, 12.3, "/d/broker.log"),
        ProcessStatus("assigner-0", "service", "down", None, "127.0.0.1:7403", "", 3, 0, 0.0, "/d/service.log"),
    ),
    endpoint="127.0.0.1:7401",
)


def test_a_status_as_people_read_it() -> None:
    assert status_table(STATUS).splitlines() == [
        "NAME        STATE    PID  ADDRESS          ZONE  RESTARTS  MEMORY   AGE",
        "east        running  41   127.0.0.1:19192  a     0         150 MiB  12s",
        "assigner-0  down     -    127.0.0.1:7403   -     3         0 MiB    -",
        "/d: ready, endpoint 127.0.0.1:7401, supervisor 7, 200 MiB in all",
    ]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["--store", "redis"], "--store"),
        (["--clusters", "east,,west"], "--clusters"),
        (["--registries", "0"], "--registries"),
        (["--store", "etcd", "--store-members", "2"], "--store-members"),
        (["--port", "1"], "--port"),
    ],
)
def test_nonsense_is_wrong_usage(
    arguments: list[str], field: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.run(["dev", *arguments, "--dir", str(tmp_path / "mesh")]) == 2
    assert capsys.readouterr().err.startswith(f"braid: {field}: ")
    assert not (tmp_path / "mesh").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["status"],
        ["down"],
        ["kill", "east"],
        ["stop", "east"],
        ["start", "east"],
        ["pause", "east"],
        ["resume", "east"],
        ["clock", "registry-0", "-8d"],
    ],
)
def test_verbs_need_a_mesh(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["dev", *arguments, "--dir", str(tmp_path)]) == 3
    assert capsys.readouterr().err.startswith(f"braid: no mesh runs in {tmp_path}")


def test_the_directory_may_stand_before_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["dev", "--dir", str(tmp_path), "status"]) == 3
    assert f"no mesh runs in {tmp_path}" in capsys.readouterr().err


def test_an_unknown_output_is_wrong_usage(tmp_path: Path) -> None:
    assert app.run(["dev", "status", "-o", "xml", "--dir", str(tmp_path)]) == 2


def test_what_is_no_offset_of_a_clock_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["dev", "clock", "registry-0", "tomorrow", "--dir", str(tmp_path)]) == 2
    assert "OFFSET: 'tomorrow' is no offset of a clock" in capsys.readouterr().err


@pytest.mark.parametrize(("flags", "secure"), [([], None), (["--secure"], True), (["--insecure"], False)])
def test_a_mesh_is_made_secure_by_a_flag(
    flags: list[str], secure: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[MeshConfig] = []
    monkeypatch.setattr("devmesh.supervisor.supervise", asked.append)
    assert app.run(["dev", *flags, "--dir", str(tmp_path)]) == 0
    assert [each.secure for each in asked] == [secure]


def test_an_etcd_of_three_members_is_asked_for_by_a_flag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[MeshConfig] = []
    monkeypatch.setattr("devmesh.supervisor.supervise", asked.append)
    assert app.run(["dev", "--store", "etcd", "--store-members", "3", "--dir", str(tmp_path)]) == 0
    assert [(each.store, each.store_members) for each in asked] == [("etcd", 3)]
