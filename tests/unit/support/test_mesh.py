"""The search for what a mesh left behind finds it."""

import subprocess
from pathlib import Path

import pytest

from tests.support import mesh


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
            with pytest.raises(AssertionError, match="left running"):
                mesh.wait_gone(tmp_path)
        finally:
            left.kill()
    mesh.wait_gone(tmp_path)
