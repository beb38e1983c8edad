"""Prometheus itself reads the files in deploy/prometheus."""

import subprocess
from pathlib import Path
from typing import Final

import pytest

from testbed.prometheus.binaries import prometheus_binaries

DEPLOY: Final = Path(__file__).resolve().parents[4] / "deploy" / "prometheus"


@pytest.mark.real
@pytest.mark.parametrize("name", ["prometheus.yml", "insecure.yml"])
def test_prometheus_takes_its_configuration(name: str) -> None:
    """Its rules, too; files that only a container has are not looked for."""
    command = (prometheus_binaries().promtool, "check", "config", "--syntax-only", DEPLOY / name)
    answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.real
def test_prometheus_takes_the_recording_rules() -> None:
    command = (prometheus_binaries().promtool, "check", "rules", DEPLOY / "recording.yml")
    answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "9 rules found" in answer.stdout
