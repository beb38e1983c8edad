"""The second look: only at a few tests of real processes, and never in silence."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.patience import Deadline
from tools import suite

REAL = "tests/e2e/test_demo.py::test_the_story_ends_well"
AT_ONCE = ("--numprocesses=2", "--dist=loadfile", "-m", "untimed")
ALONE = ("-m", "not untimed")


@pytest.fixture(autouse=True)
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that gives all of its time."""
    monkeypatch.setattr(Deadline, "share", 1.0)


class FlakyPytest:
    """A pytest that fails where it runs two at once, then passes; keeps what it was asked to run."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, *arguments: str) -> int:
        """Returns an exit code."""
        self.asked.append(arguments)
        return int("--dist=loadfile" in arguments)


def ending(*codes: int) -> Callable[..., int]:
    """A pytest that ends with these codes, one after the other."""
    left = iter(codes)
    return lambda *_: next(left)


def note(root: Path, *failed: str) -> None:
    noted = root / ".pytest_cache" / "v" / "cache" / "lastfailed"
    noted.parent.mkdir(parents=True, exist_ok=True)
    noted.write_text(json.dumps(dict.fromkeys(failed, True)))


def test_a_real_test_that_passes_alone_is_named_flaky(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = FlakyPytest()
    note(tmp_path, REAL)
    assert suite.main(["tests/e2e"], run, tmp_path) == 0
    assert run.asked == [
        ("--cache-clear", *AT_ONCE, "--durations=20", "tests/e2e"),
        (*ALONE, "--durations=20", "tests/e2e"),
        (REAL,),
    ]
    assert "FLAKY" in capsys.readouterr().out
    assert json.loads((tmp_path / "build" / "flaky.json").read_text()) == [REAL]


def test_pure_tests_take_all_cores_untimed_ones_two_and_others_run_alone() -> None:
    tiers = ["tests/unit", "tests/integration", "tests/simulation", "tests/e2e"]
    pure, at_once, alone = suite.phases(tiers)
    assert pure == ["--cache-clear", "--numprocesses=auto", "--dist=worksteal", "tests/unit", "tests/simulation"]
    assert at_once == [*AT_ONCE, "--durations=20", "tests/integration", "tests/e2e"]
    assert alone == [*ALONE, "--durations=20", "tests/integration", "tests/e2e"]
    assert suite.phases(["tests/e2e"])[0] == ["--cache-clear", *AT_ONCE, "--durations=20", "tests/e2e"]


def test_options_reach_every_run() -> None:
    pure, at_once, alone = suite.phases(["--extended", "tests/unit", "tests/e2e"])
    assert pure == ["--cache-clear", "--numprocesses=auto", "--dist=worksteal", "--extended", "tests/unit"]
    assert at_once == [*AT_ONCE, "--durations=20", "--extended", "tests/e2e"]
    assert alone == [*ALONE, "--durations=20", "--extended", "tests/e2e"]


def test_a_failure_in_either_run_fails(tmp_path: Path) -> None:
    note(tmp_path, "tests/unit/kernel/progress/test_ranges.py::test_x")
    assert suite.main(["tests/unit", "tests/e2e"], ending(1, 5, 0), tmp_path) == 1


@pytest.mark.parametrize(
    "failed",
    [
        [],
        ["tests/unit/kernel/progress/test_ranges.py::test_x"],
        [REAL, "tests/simulation/test_simulation.py::test_x"],
        ["tests/e2e/test_demo.py"],
        [f"{REAL}[{number}]" for number in range(suite.SECOND_LOOKS_MAX + 1)],
    ],
    ids=["nothing noted", "unit", "one of simulation", "a file that cannot be imported", "too many"],
)
def test_no_second_look_at_anything_else(tmp_path: Path, failed: list[str]) -> None:
    run = FlakyPytest()
    note(tmp_path, *failed)
    assert suite.main(["tests/e2e"], run, tmp_path) == 1
    assert len(run.asked) == 2


def test_a_starved_machine_gets_more_looks_at_more_tests(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = [f"{REAL}[{number}]" for number in range(suite.SECOND_LOOKS_MAX + 1)]
    codes, asked = iter([1, 0, 1, 0]), []

    def run(*arguments: str) -> int:
        asked.append(arguments)
        note(tmp_path, *(many if len(asked) <= 2 else many[:1]))
        return next(codes)

    monkeypatch.setattr(Deadline, "share", 0.4)
    assert suite.main(["tests/e2e"], run, tmp_path) == 0
    assert asked[2:] == [tuple(many), (many[0],)]
    assert "gave 40% of the time" in capsys.readouterr().out
    assert json.loads((tmp_path / "build" / "flaky.json").read_text()) == many
    assert not suite.deserve_second_look([*many] * 6, 0.4)
    assert not suite.deserve_second_look(["tests/unit/kernel/progress/test_ranges.py::test_x"], 0.4)


def test_a_phase_without_tests_is_no_failure_unless_every_phase_is(tmp_path: Path) -> None:
    for found, expected in ([5, 0], 0), ([0, 5], 0), ([5, 5], 5), ([5, 2], 2):
        assert suite.main(["tests/e2e"], ending(*found), tmp_path) == expected


def test_what_fails_twice_has_failed(tmp_path: Path) -> None:
    note(tmp_path, REAL)
    assert suite.main(["tests/e2e"], lambda *_: 1, tmp_path) == 1
    assert not (tmp_path / "build").exists()
