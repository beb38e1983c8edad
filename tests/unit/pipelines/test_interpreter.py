"""Spark's Python processes import what is compiled."""

import os
import subprocess
import sys
from pathlib import Path

from pipelines.interpreter import local_python

SHOW = "import os, sys; print(os.environ['PYTHONPATH']); print(sys.prefix); print(*sys.argv[1:], sep='|')"


def shown(path: str, *arguments: str) -> list[str]:
    """The environment that a process started this way sees."""
    environment = {**os.environ, "PYTHONPATH": path}
    command = [local_python(), "-c", SHOW, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


def test_sparks_archives_are_left_out_and_all_else_is_passed_on(tmp_path: Path) -> None:
    ours = str(tmp_path / "a b*")
    path = os.pathsep.join(["/spark/lib/pyspark.zip", "/spark/lib/py4j-0.10.9.9-src.zip", ours, "/else/job.zip"])
    assert shown(path, "one", "two three") == [f"{ours}:/else/job.zip", sys.prefix, "one|two three"]


def test_nothing_but_archives_leaves_no_path() -> None:
    assert shown("/spark/lib/pyspark.zip") == ["", sys.prefix, ""]
