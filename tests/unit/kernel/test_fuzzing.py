"""A few seconds of fuzzing of all that reads others' bytes; and the fuzzer finds what is planted."""

import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = 3
ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.slow


def fuzz(target: str, corpus: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.support.fuzzing", target]
    options = ["--seconds", f"{SECONDS}", "--corpus", f"{corpus}"]
    out = subprocess.PIPE
    return subprocess.run([*command, *options], cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, text=True, timeout=120)


@pytest.mark.parametrize("target", ["metadata", "envelope", "spill", "records", "commits"])
def test_any_bytes_are_read_or_refused(target: str, tmp_path: Path) -> None:
    ended = fuzz(target, tmp_path / target)
    assert ended.returncode == 0, ended.stdout[-4_000:]
    assert "Done " in ended.stdout
    assert len(list((tmp_path / target).iterdir())) > 5, "nothing new was met"


def test_what_is_planted_is_found(tmp_path: Path) -> None:
    ended = fuzz("planted", tmp_path / "planted")
    assert ended.returncode != 0
    assert "AssertionError: found" in ended.stdout
    assert list(tmp_path.glob("planted-broken-*"))
