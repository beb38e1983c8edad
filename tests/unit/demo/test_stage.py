"""The demo's processes: what they are started with."""

import re
import sys
from pathlib import Path

import pytest

from demo.display import Display
from demo.stage import Stage
from tests.support.snippets import snippets

ROOT = Path(__file__).resolve().parents[3]
SETTINGS = ROOT / "pipelines" / "log4j2.properties"


async def test_spark_processes_start_without_the_usual_warnings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)  # the caller's own would come first
    stage = Stage(tmp_path / "run", Display(sys.stdout, colours=False))
    stage.prepare()
    log = stage.path("job.log")
    stage.start(
        "job", "-c", "import os; print(os.environ['SPARK_SUBMIT_OPTS'], flush=True); import time; time.sleep(60)"
    )
    try:
        told = await stage.until("the job's options", 60.0, lambda: log.read_text().strip() or None, look="job.log")
    finally:
        stage.close()
    assert re.findall(r"-Dlog4j2\.configurationFile=(\S+)", told) == [SETTINGS.as_uri()]


def test_the_spark_guide_shows_the_settings_the_jobs_have() -> None:
    bodies = [each.body for each in snippets(ROOT / "docs" / "guides" / "running-a-spark-job.md")]
    lines = [line for line in SETTINGS.read_text().splitlines(keepends=True) if not line.startswith("#")]
    assert f"cat > log4j2.properties <<'END'\n{''.join(lines)}END\n" in bodies
