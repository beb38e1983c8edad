"""The rules of alerts, as Prometheus' own tool judges and plays them."""

import subprocess
from pathlib import Path

import pytest

from testbed.prometheus.binaries import prometheus_binaries
from tools.alert_rules import FILE

pytestmark = [pytest.mark.real, pytest.mark.untimed]

SECONDS = 120.0


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "rules", "--lint=all", "--lint-fatal", str(FILE)],
        ["test", "rules", str(Path(__file__).with_name("prometheus") / "alerts_test.yaml")],
    ],
    ids=["check", "test"],
)
def test_promtool_finds_nothing_wrong_with_the_rules(arguments: list[str]) -> None:
    command = [str(prometheus_binaries().promtool), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout
