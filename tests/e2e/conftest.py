"""Fixtures that several files share: one chaos run, judged by `test_chaos` and measured by `test_figures`."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from testbed.mesh import preloaded_meshes, processes_of, show_logs
from tests.e2e.chaos.commit import VARIABLE, commit_hash, seed_from
from tests.e2e.chaos.liveness import not_judged
from tests.e2e.chaos.plan import slice_of
from tests.e2e.chaos.run import PROMISED, Report, play
from tests.e2e.chaos.timeline import write_report
from tests.support.judging import TRIES_MAX

BUILD: Final = Path(__file__).resolve().parents[2] / "build" / "chaos"


@pytest.fixture(scope="session", autouse=True)
def _preloaded() -> Iterator[None]:
    """Meshes start from a process that has loaded what they run."""
    with preloaded_meshes():
        yield


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Report]:
    """One run of the slice that the commit's hash chooses, and another where the machine withheld its time.

    `python -m tests.e2e.chaos --slice HASH` plays the same slice again.
    """
    for _ in range(TRIES_MAX):
        found = _played(tmp_path_factory.mktemp("chaos"))
        if not not_judged(PROMISED, found.figures, found.given):
            break
    yield found


def _played(directory: Path) -> Report:
    commit = commit_hash()
    seed = seed_from(commit)
    ground, faults = slice_of(seed)
    print(f"chaos slice {commit} ({VARIABLE}={commit} repeats it) on {ground}: {', '.join(faults)}")
    try:
        found = asyncio.run(play(directory, seed, iter([faults]), ground=ground))
        print(write_report(found, BUILD))
    finally:
        show_logs(directory, lines=5)
    assert not processes_of(directory)
    return found
