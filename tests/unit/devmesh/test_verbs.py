"""Each fault verb waits for its effect, says what happened, and is refused where it makes no sense."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from braid.kernel.errors import Refused
from devmesh.verbs import DESIRED, apply, is_paused
from tests.support.sleepers import Sleeper


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Sleeper]:
    """A process that serves."""
    process = Sleeper("east", tmp_path)
    process.start()
    process.wait_ready(10.0)
    yield process
    process.kill()


def test_kill_and_start(running: Sleeper) -> None:
    assert "east is dead" in apply("kill", running)
    assert running.pid is None
    assert "east serves again" in apply("start", running)
    assert running.pid is not None


def test_stop(running: Sleeper) -> None:
    assert "east ended in order" in apply("stop", running)
    assert running.pid is None


def test_pause_and_resume(running: Sleeper) -> None:
    pid = running.pid
    assert pid is not None
    assert "east is paused" in apply("pause", running)
    assert is_paused(pid)
    with pytest.raises(Refused, match="`resume` it"):
        apply("start", running)
    assert "east goes on" in apply("resume", running)
    assert not is_paused(pid)
    with pytest.raises(Refused, match="east is not paused"):
        apply("resume", running)


def test_what_does_not_run_can_only_be_started(running: Sleeper) -> None:
    running.kill()
    for verb in DESIRED.keys() - {"start"}:
        with pytest.raises(Refused, match="east does not run") as refused:
            apply(verb, running)
        assert "braid dev start east" in refused.value.remedy


def test_what_runs_cannot_be_started(running: Sleeper) -> None:
    with pytest.raises(Refused, match="running already"):
        apply("start", running)
