"""The search for what a mesh left behind finds it; logs are shown as text and within bounds."""

import subprocess
from pathlib import Path

import pytest

from testbed import mesh
from testbed.patience import wait


@pytest.mark.parametrize("by_environment", [False, True])
def test_a_process_left_behind_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_environment: bool) -> None:
    monkeypatch.setattr(mesh, "GONE_SECONDS", 0.2)
    mesh.wait_gone(tmp_path)
    here = str(tmp_path / "file")
    command = ["sleep", "60"] if by_environment else ["sh", "-c", "echo; read line", here]
    environment = {"BRAID_STORE": here} if by_environment else {}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env={"PATH": "/usr/bin:/bin", **environment}
    ) as left:
        try:
            # A process that has just begun has no environment for an instant (execve(2)).
            wait(lambda: mesh.processes_of(tmp_path), "it is found", 5.0)
            with pytest.raises(AssertionError, match="left running"):
                mesh.wait_gone(tmp_path)
        finally:
            left.kill()
    mesh.wait_gone(tmp_path)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def test_only_text_logs_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write(tmp_path / "clusters/east/broker.log", b"first\nsecond\n\x1b[31mred\x07 \xff\n")
    _write(tmp_path / "clusters/east/data/braid.logs-0/00000000000000000000.log", b"\x00\x01segment\n")
    _write(tmp_path / "store/etcd/data/member/wal/0.log", b"wal\n")
    mesh.show_logs(tmp_path, lines=2)
    assert capsys.readouterr().out == "--- clusters/east/broker.log\nsecond\n[31mred \N{REPLACEMENT CHARACTER}\n"


def test_what_is_shown_is_bounded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(30):
        _write(
            tmp_path / f"services/s-{number:02}/service.log",
            b"x" * 100_000 + b"\n" + b"".join(b"%d\n" % n for n in range(99)),
        )
    mesh.show_logs(tmp_path, lines=50)
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) <= mesh.LOG_LINES_MAX
    assert shown[0] == "--- services/s-00/service.log"
    assert sum(line.startswith("---") for line in shown) == 30, "no log is left out for another"
    assert shown[1:6] == ["94", "95", "96", "97", "98"]
    _write(tmp_path / "services/s-00/service.log", b"y" * 100_000)
    assert mesh.log_tail(tmp_path / "services/s-00/service.log", 5) == ["y" * mesh.LOG_LINE_CHARACTERS]
