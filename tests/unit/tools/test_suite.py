"""How tiers are run: what beside what; and the second look, only at a few tests of real processes, never in silence."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from testbed.patience import Deadline
from tools import suite
from tools.idly import can_idle

REAL = "tests/e2e/test_demo.py::test_the_story_ends_well"
PURE = "tests/unit/kernel/progress/test_ranges.py::test_x"
ALL_CORES = ("--numprocesses=auto", "--dist=worksteal")
AT_ONCE = (f"--numprocesses={suite.UNTIMED_AT_ONCE}", "--dist=loadfile", "-m", "untimed", "--durations=20")
ALONE = ("-m", "not untimed", "--durations=20")


@pytest.fixture(autouse=True)
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that gives all of its time."""
    monkeypatch.setattr(Deadline, "share", 1.0)


class Played:
    """A runner of pytest with exit codes from a list, then 0.

    Attributes:
        asked: What it was asked to run, and when what ran beside was waited for.
    """

    def __init__(self, root: Path, codes: Iterable[int] = (), *, beside: int | None = 0) -> None:
        """`beside` is the exit code of what runs beside; None where nothing can."""
        self.root = root
        self.asked: list[tuple[str, ...]] = []
        self._codes = iter(codes)
        self._beside = beside

    def run(self, *arguments: str) -> int:
        self.asked.append(arguments)
        return next(self._codes, 0)

    def beside(self, *arguments: str) -> suite.Beside | None:
        if self._beside is None:
            return None
        self.asked.append(("beside", *arguments))
        return self

    def ended(self) -> int:
        assert self._beside is not None
        self.asked.append(("waited for",))
        return self._beside


def note(root: Path, failed: Sequence[str], cache: str = suite.CACHE) -> None:
    noted = root / cache / "v" / "cache" / "lastfailed"
    noted.parent.mkdir(parents=True, exist_ok=True)
    noted.write_text(json.dumps(dict.fromkeys(failed, True)))


def test_a_real_test_that_passes_alone_is_named_flaky(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note(tmp_path, [REAL])
    played = Played(tmp_path, [1, 0])
    assert suite.main(["tests/e2e"], played) == 0
    assert played.asked == [(*AT_ONCE, "tests/e2e"), (*ALONE, "tests/e2e"), (REAL,)]
    assert "FLAKY" in capsys.readouterr().out
    assert json.loads((tmp_path / "build" / "flaky.json").read_text()) == [REAL]


def test_the_simulation_plays_beside_real_processes_and_everything_else_in_turn(tmp_path: Path) -> None:
    played = Played(tmp_path)
    assert suite.main(["tests/unit", "tests/integration", "tests/simulation", "tests/e2e"], played) == 0
    assert played.asked == [
        (*ALL_CORES, "tests/unit"),
        ("beside", *ALL_CORES, "tests/simulation"),
        (*AT_ONCE, "tests/integration", "tests/e2e"),
        (*ALONE, "tests/integration", "tests/e2e"),
        ("waited for",),
    ]


@pytest.mark.parametrize("tiers", [["tests/simulation", "tests/e2e"], ["tests/simulation"]])
def test_where_nothing_can_run_beside_the_simulation_plays_first(tmp_path: Path, tiers: Sequence[str]) -> None:
    played = Played(tmp_path, beside=None)
    assert suite.main(tiers, played) == 0
    assert played.asked[0] == (*ALL_CORES, "tests/simulation")
    assert len(played.asked) == 1 + 2 * ("tests/e2e" in tiers)


def test_options_reach_every_run(tmp_path: Path) -> None:
    played = Played(tmp_path)
    suite.main(["--extended", "tests/unit", "tests/simulation", "tests/e2e"], played)
    assert [each for each in played.asked if "--extended" not in each] == [("waited for",)]


@pytest.mark.parametrize(("codes", "beside"), [([1], 0), ([0, 1], 0), ([0, 0, 1], 0), ([], 1), ([], 2)])
def test_a_failure_in_any_run_fails(tmp_path: Path, codes: Sequence[int], beside: int) -> None:
    note(tmp_path, [PURE])
    played = Played(tmp_path, codes, beside=beside)
    assert suite.main(["tests/unit", "tests/simulation", "tests/e2e"], played) == max(1, beside)


def test_what_failed_beside_gets_no_second_look(tmp_path: Path) -> None:
    note(tmp_path, [REAL])
    note(tmp_path, ["tests/simulation/test_simulation.py::test_x"], suite.CACHE_BESIDE)
    played = Played(tmp_path, [1, 0], beside=1)
    assert suite.main(["tests/simulation", "tests/e2e"], played) == 1
    assert (REAL,) not in played.asked


@pytest.mark.parametrize(
    "failed",
    [
        [],
        [PURE],
        [REAL, "tests/simulation/test_simulation.py::test_x"],
        ["tests/e2e/test_demo.py"],
        [f"{REAL}[{number}]" for number in range(suite.SECOND_LOOKS_MAX + 1)],
    ],
    ids=["nothing noted", "unit", "one of simulation", "a file that cannot be imported", "too many"],
)
def test_no_second_look_at_anything_else(tmp_path: Path, failed: list[str]) -> None:
    note(tmp_path, failed)
    played = Played(tmp_path, [1, 0])
    assert suite.main(["tests/e2e"], played) == 1
    assert len(played.asked) == 2


def test_a_starved_machine_gets_more_looks_at_more_tests(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = [f"{REAL}[{number}]" for number in range(suite.SECOND_LOOKS_MAX + 1)]

    class Starved(Played):
        def run(self, *arguments: str) -> int:
            code = super().run(*arguments)
            note(tmp_path, many if len(self.asked) <= 2 else many[:1])
            return code

    monkeypatch.setattr(Deadline, "share", 0.4)
    played = Starved(tmp_path, [1, 0, 1, 0])
    assert suite.main(["tests/e2e"], played) == 0
    assert played.asked[2:] == [tuple(many), (many[0],)]
    assert "gave 40% of the time" in capsys.readouterr().out
    assert json.loads((tmp_path / "build" / "flaky.json").read_text()) == many
    assert not suite.deserve_second_look([*many] * 6, 0.4)
    assert not suite.deserve_second_look([PURE], 0.4)


def test_a_phase_without_tests_is_no_failure_unless_every_phase_is(tmp_path: Path) -> None:
    for found, expected in ([5, 0], 0), ([0, 5], 0), ([5, 5], 5), ([5, 2], 2):
        assert suite.main(["tests/e2e"], Played(tmp_path, found)) == expected


def test_what_fails_twice_has_failed(tmp_path: Path) -> None:
    note(tmp_path, [REAL])
    assert suite.main(["tests/e2e"], Played(tmp_path, [1] * 3)) == 1
    assert not (tmp_path / "build").exists()


def test_each_run_of_pytest_notes_what_failed_for_itself(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("first", "second"):
        (tmp_path / f"test_{name}.py").write_text(f"def test_{name}():\n    assert False\n")
    (tmp_path / "tools").symlink_to(suite.ROOT / "tools")
    note(tmp_path, ["of an earlier suite"])
    runner = suite.Pytest(tmp_path)
    beside = runner.beside("-q", "test_second.py")
    assert runner.run("-q", "test_first.py") == 1
    if beside is None:
        assert runner.run("-q", "test_second.py") == 1
    else:
        assert beside.ended() == 1
    assert suite.failures(tmp_path) == ["test_first.py::test_first", "test_second.py::test_second"]
    assert "test_second" in capfd.readouterr().out


def test_what_runs_idly_has_that_priority_and_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "told.py").write_text("import os, sys\nprint(os.sched_getscheduler(0), sys.argv[1:])\n")
    command = [sys.executable, "-m", "tools.idly", "told", "a", "--b"]
    environment = {**os.environ, "PYTHONPATH": f"{suite.ROOT}:{tmp_path}"}
    told = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert told.stdout == (f"{os.SCHED_IDLE} ['a', '--b']\n" if can_idle() else "")
    assert (told.returncode == 0) == can_idle()
