"""How tiers are run: what beside what; and the second look, only at a few tests of real processes, never in silence."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from testbed.patience import Deadline
from tools import suite
from tools.idly import NICE, can_idle

REAL = "tests/e2e/test_demo.py::test_the_story_ends_well"
PURE = "tests/unit/kernel/progress/test_ranges.py::test_x"
ALL_CORES = ("--numprocesses=auto", "--dist=worksteal", "--durations=20")
CALM = "untimed or not real"
FIRST = (*ALL_CORES, *(f"--ignore={room}" for room in suite.CALM_ROOMS))
AT_ONCE = (f"--numprocesses={suite.UNTIMED_AT_ONCE}", "--dist=loadfile", "-m", CALM, "--durations=20")
PATIENT = ("-m", f"patient and not ({CALM})", "--durations=20")
ALONE = ("-m", f"not (patient or {CALM})", "--durations=20")

PHASES = (AT_ONCE, PATIENT, ALONE)


@pytest.fixture(autouse=True)
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that gives all of its time."""
    monkeypatch.setattr(Deadline, "share", 1.0)


@pytest.fixture
def never_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a process of idle priority may not run for minutes."""
    monkeypatch.setattr(suite, "_IDLY", ("env",))


class Played:
    """A runner with exit codes from a list, then 0.

    Attributes:
        asked: What it was asked to run, and when what ran beside was waited for.
        can_idle: Whether there is an idle priority.
    """

    def __init__(
        self, root: Path, codes: Iterable[int] = (), *, beside: dict[str, int] | None = None, can_idle: bool = True
    ) -> None:
        """`codes` are of what others wait for; `beside` has those of "preparation", "checks" and "pytest"."""
        self.root = root
        self.can_idle = can_idle
        self.asked: list[tuple[str, ...]] = []
        self._codes = iter(codes)
        self._beside = beside or {}

    def run(self, *arguments: str) -> int:
        self.asked.append(arguments)
        return next(self._codes, 0)

    def check(self) -> int:
        return self.run("checks")

    def prepare_beside(self) -> suite.Beside:
        return self._start("preparation")

    def check_beside(self) -> suite.Beside:
        return self._start("checks")

    def pytest_beside(self, *arguments: str) -> suite.Beside:
        return self._start("pytest", *arguments)

    def _start(self, what: str, *arguments: str) -> suite.Beside:
        self.asked.append((f"{what} beside", *arguments))
        return Ended(what, self._beside.get(what, 0), self.asked)


class Ended(NamedTuple):
    """A parallel run that is over when it is waited for."""

    what: str
    code: int
    asked: list[tuple[str, ...]]

    def ended(self) -> int:
        self.asked.append((f"{self.what} ended",))
        return self.code


def note(root: Path, failed: Sequence[str], cache: str = suite.CACHE) -> None:
    noted = root / cache / "v" / "cache" / "lastfailed"
    noted.parent.mkdir(parents=True, exist_ok=True)
    noted.write_text(json.dumps(dict.fromkeys(failed, True)))


def test_a_real_test_that_passes_alone_is_named_flaky(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note(tmp_path, [REAL])
    played = Played(tmp_path, [1, 0, 0])
    assert suite.main(["tests/e2e"], played) == 0
    assert played.asked == [*((*which, "tests/e2e") for which in PHASES), (REAL,)]
    assert "FLAKY" in capsys.readouterr().out
    assert json.loads((tmp_path / "build" / "flaky.json").read_text()) == [REAL]


def test_tests_that_judge_times_run_alone_after_all_others(tmp_path: Path) -> None:
    played = Played(tmp_path)
    tiers = ["tests/unit", "tests/integration", "tests/simulation", "tests/e2e"]
    assert suite.main(["--check", *tiers], played) == 0
    assert played.asked == [
        (*FIRST, "tests/unit"),
        ("checks beside",),
        ("pytest beside", *ALL_CORES, "tests/simulation", *suite.CALM_ROOMS),
        (*AT_ONCE, "tests/integration", "tests/e2e"),
        (*PATIENT, "tests/integration", "tests/e2e"),
        ("checks ended",),
        ("pytest ended",),
        (*ALONE, "tests/integration", "tests/e2e"),
    ]


def test_unit_tests_that_play_beside_others_are_there() -> None:
    assert [room for room in suite.CALM_ROOMS if not [*(suite.ROOT / room).rglob("test_*.py")]] == []


@pytest.mark.parametrize(
    "tiers", [["tests/unit"], ["tests/unit/assigner", "tests/e2e"], ["tests/contract", "tests/e2e"]]
)
def test_in_smaller_runs_unit_tests_come_first(tmp_path: Path, tiers: list[str]) -> None:
    played = Played(tmp_path)
    suite.main(tiers, played)
    assert played.asked[0] == (*ALL_CORES, tiers[0])


def test_each_phase_says_what_it_took_of_the_cores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite.main(["tests/unit", "tests/simulation", "tests/e2e"], Played(tmp_path))
    said = [
        line for line in capsys.readouterr().out.splitlines() if re.search(r": \d+ s($|; it took \d+% of the)", line)
    ]
    *first, alone = suite.REAL_PHASES
    phases = ["unit and contract tests", *first, "what ran beside, after those", alone]
    assert [line.removeprefix("suite: ").partition(":")[0] for line in said] == phases


def test_without_idle_priority_checks_and_simulation_come_first(tmp_path: Path) -> None:
    played = Played(tmp_path, can_idle=False)
    assert suite.main(["--check", "tests/unit", "tests/simulation", "tests/e2e"], played) == 0
    assert played.asked == [
        ("checks",),
        (*ALL_CORES, "tests/unit"),
        (*ALL_CORES, "tests/simulation"),
        *((*which, "tests/e2e") for which in PHASES),
    ]


def test_real_processes_get_what_is_prepared_beside_unit_tests(tmp_path: Path) -> None:
    played = Played(tmp_path)
    assert suite.main(["--prepare", "tests/unit", "tests/e2e"], played) == 0
    assert played.asked[:3] == [("preparation beside",), (*FIRST, "tests/unit"), ("preparation ended",)]
    assert [each for each in played.asked[3:] if each[-1] == "tests/e2e"] == [(*which, "tests/e2e") for which in PHASES]


def test_a_failed_preparation_ends_the_suite(tmp_path: Path) -> None:
    played = Played(tmp_path, beside={"preparation": 2})
    assert suite.main(["--check", "--prepare", "tests/unit", "tests/e2e"], played) == 2
    assert played.asked[-1] == ("preparation ended",)


def test_without_real_processes_nothing_runs_beside(tmp_path: Path) -> None:
    played = Played(tmp_path)
    assert suite.main(["--check", "tests/unit", "tests/simulation"], played) == 0
    assert played.asked == [("checks",), (*ALL_CORES, "tests/unit"), (*ALL_CORES, "tests/simulation")]


def test_options_reach_every_run_of_pytest(tmp_path: Path) -> None:
    played = Played(tmp_path)
    suite.main(["--check", "--extended", "tests/unit", "tests/simulation", "tests/e2e"], played)
    assert len([each for each in played.asked if "--extended" in each]) == 5
    assert not [each for each in played.asked if "--check" in each]


@pytest.mark.parametrize(
    ("codes", "beside", "expected"),
    [
        ([1], {}, 1),
        ([0, 1], {}, 1),
        ([], {"pytest": 1}, 1),
        ([], {"checks": 2}, 2),
        ([1], {"checks": 2}, 2),
        ([], {"pytest": 2}, 2),
    ],
)
def test_a_failure_in_any_run_fails(
    tmp_path: Path, codes: Sequence[int], beside: dict[str, int], expected: int
) -> None:
    note(tmp_path, [PURE])
    played = Played(tmp_path, codes, beside=beside)
    assert suite.main(["--check", "tests/unit", "tests/simulation", "tests/e2e"], played) == expected


def test_what_failed_beside_gets_no_second_look(tmp_path: Path) -> None:
    note(tmp_path, [REAL])
    note(tmp_path, ["tests/simulation/test_simulation.py::test_x"], suite.CACHE_BESIDE)
    played = Played(tmp_path, [0, 1, 0], beside={"pytest": 1})
    assert suite.main(["tests/unit", "tests/simulation", "tests/e2e"], played) == 1
    assert (REAL,) not in played.asked


def test_a_failed_check_fails_though_tests_pass_alone(tmp_path: Path) -> None:
    note(tmp_path, [REAL])
    assert suite.main(["--check", "tests/e2e"], Played(tmp_path, [1, 0, 0, 0], beside={"checks": 2})) == 2


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
    assert len(played.asked) == len(PHASES)


def test_a_starved_machine_gets_more_looks_at_more_tests(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = [f"{REAL}[{number}]" for number in range(suite.SECOND_LOOKS_MAX + 1)]

    class Starved(Played):
        def run(self, *arguments: str) -> int:
            code = super().run(*arguments)
            note(tmp_path, many if len(self.asked) <= len(PHASES) else many[:1])
            return code

    monkeypatch.setattr(Deadline, "share", 0.4)
    played = Starved(tmp_path, [1, 0, 0, 1, 0])
    assert suite.main(["tests/e2e"], played) == 0
    assert played.asked[len(PHASES) :] == [tuple(many), (many[0],)]
    assert "gave 40% of the time" in capsys.readouterr().out
    assert json.loads((tmp_path / "build" / "flaky.json").read_text()) == many
    assert not suite.deserve_second_look([*many] * 6, 0.4)
    assert not suite.deserve_second_look([PURE], 0.4)


def test_a_phase_without_tests_fails_only_if_all_are_empty(tmp_path: Path) -> None:
    for found, expected in ([5, 0, 5], 0), ([0, 5, 5], 0), ([5, 5, 5], 5), ([5, 2, 5], 2):
        assert suite.main(["tests/e2e"], Played(tmp_path, found)) == expected


def test_what_fails_twice_has_failed(tmp_path: Path) -> None:
    note(tmp_path, [REAL])
    assert suite.main(["tests/e2e"], Played(tmp_path, [1] * 4)) == 1
    assert not (tmp_path / "build").exists()


@pytest.mark.usefixtures("never_idle")
def test_each_run_of_pytest_notes_what_failed_for_itself(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("first", "second"):
        (tmp_path / f"test_{name}.py").write_text(f"def test_{name}():\n    assert False\n")
    (tmp_path / "tools").symlink_to(suite.ROOT / "tools")
    note(tmp_path, ["of an earlier suite"])
    runner = suite.Processes(tmp_path)
    beside = [runner.pytest_beside("-q", "test_second.py")] if runner.can_idle else []
    assert runner.run("-q", "test_first.py") == 1
    assert [each.ended() for each in beside] == [1] * len(beside)
    names = ("first", "second")[: 1 + len(beside)]
    assert suite.failures(tmp_path) == [f"test_{name}.py::test_{name}" for name in names]
    printed = capfd.readouterr().out
    assert all(f"def test_{name}" in printed for name in names)


@pytest.mark.usefixtures("never_idle")
@pytest.mark.parametrize(("line", "expected"), [("exit 0", 0), ("echo a fault; exit 1", 2)])
def test_checks_run_beside_and_say_what_is_wrong(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], line: str, expected: int
) -> None:
    (tmp_path / "Makefile").write_text(f"checks:\n\t@{line}\n")
    (tmp_path / "tools").symlink_to(suite.ROOT / "tools")
    runner = suite.Processes(tmp_path)
    assert runner.check() == expected
    if runner.can_idle:
        capfd.readouterr()
        assert runner.check_beside().ended() == expected
    assert ("a fault" in capfd.readouterr().out) == (expected > 0)


def test_checks_beside_tests_look_at_no_tools() -> None:
    """At idle priority a tool does not answer in time, and the checkout is set up already."""
    assert "\nchecks:\n" in (suite.ROOT / "Makefile").read_text()


def test_what_runs_idly_has_that_priority_and_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "told.py").write_text("import os, sys\nprint(os.sched_getscheduler(0), os.nice(0), sys.argv[1:])\n")
    command = [sys.executable, "-m", "tools.idly", sys.executable, "-m", "told", "a", "--b"]
    environment = {**os.environ, "PYTHONPATH": f"{suite.ROOT}:{tmp_path}"}
    told = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert told.stdout == (f"{os.SCHED_IDLE} {NICE} ['a', '--b']\n" if can_idle() else "")
    assert (told.returncode == 0) == can_idle()
