"""The metrics catalogue keeps its naming rules; logs are structured with and without set-up."""

import json
import logging
import subprocess
import sys

import pytest

from braid.runtime.telemetry import configure_logs, logger, make_metrics


def test_names_have_the_prefix_and_base_units() -> None:
    names = [family.name for family in make_metrics("registry", "registry-0").registry.collect()]
    assert len(names) == len(set(names)) >= 10
    assert all(name.startswith("braid_") for name in names)
    assert not [name for name in names if name.endswith(("_ms", "_millis", "_kb"))]


def test_replicas_do_not_share_instruments() -> None:
    first, second = make_metrics("registry", "a"), make_metrics("registry", "b")
    first.elections.inc()
    assert second.registry.get_sample_value("braid_elections_won_total") == 0.0
    assert first.registry.get_sample_value("braid_elections_won_total") == 1.0


def test_logs_are_json_lines_once_configured(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before = (root.level, root.handlers[:])
    try:
        configure_logs("info")
        logger("registry", "registry-0").info("leading", epoch=7)
        logger("registry").debug("not heard")
        logging.getLogger("braid.host").error("task %s died", "x", exc_info=ValueError("why"))
    finally:
        root.handlers[:] = before[1]
        root.setLevel(before[0])
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in lines] == ["leading", "task x died"]
    assert {"epoch": 7, "instance": "registry-0", "level": "info", "logger": "braid.registry"}.items() <= lines[
        0
    ].items()
    assert "ValueError: why" in lines[1]["exception"]


def test_logs_are_heard_without_any_set_up(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        logger("registry").info("leading", epoch=7)
    assert len(caplog.records) == 1


def test_a_service_imports_nothing_heavy_that_it_does_not_use() -> None:
    """Each import is paid by every process of a mesh. What is left out can be imported afterwards all the same."""
    code = (
        "import sys\n"
        "for name in ('registry', 'assigner', 'lagmon', 'dlq'):\n"
        "    __import__(f'services.{name}.__main__')\n"
        "print({'rich', 'pygments', 'pyarrow', 'typer', 'opentelemetry.sdk', 'psutil'} & sys.modules.keys())\n"
        "import rich.console\n"
        "print(rich.console.Console.__name__)\n"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == ["set()", "Console"]
