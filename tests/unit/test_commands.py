"""The commands a newcomer meets: `make` lists what exists, and continuous integration runs what the README names."""

import re
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]

PROMISED: Final = ("demo", "test", "setup", "check", "quick", "protos", "sim", "bench", "up", "down", "clean", "help")


def test_make_prints_every_promised_target() -> None:
    printed = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert set(PROMISED) <= set(re.findall(r"^make (\S+)", printed, re.MULTILINE))
    assert max(len(line) for line in printed.splitlines()) <= 110


def test_every_target_is_phony() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    checks = re.search(r"^CHECKS := (.*)$", makefile, re.MULTILINE)
    assert checks is not None
    assert targets == {*phony[1].replace("$(CHECKS)", checks[1]).split()}


def test_continuous_integration_runs_make_test() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert script.read_text().rstrip().endswith("exec make test")
