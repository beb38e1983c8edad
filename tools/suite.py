"""Runs the test tiers; real-process tests that fail are looked at again, alone, and said to be flaky if they pass.

`python -m tools.suite tests/unit …`. Unit and contract tests take every core. Then come tests of real processes: those
that are marked `untimed` run three at a time, for much of what they do is wait; all others measure times, so they run
alone, one after the other. Beside both, on what they leave of the cores, the simulation plays: its clock is virtual,
and it runs at idle priority, where it keeps nobody from running. Where the system has no such priority it plays before
them.

`--extended` adds the tests that run for long. Only tests of real processes get a second look, and only a few of them: a
machine that stalls for a second fails them without any fault of ours. Where the machine's host withheld its cores
(`testbed.patience`), more of them do, and a third. It is never silent: the share of its time that the machine gave is
printed, what passed later is printed last and kept in `build/flaky.json`, and is a bug to be mended. A unit, contract
or simulation test that fails has failed.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from testbed.patience import Deadline
from tools.idly import can_idle

ROOT: Final = Path(__file__).resolve().parent.parent
REAL: Final = ("tests/integration", "tests/e2e")
VIRTUAL: Final = ("tests/simulation",)
SECOND_LOOKS_MAX: Final = 3  # more failures at once are no accident
STARVED_LOOKS_MAX: Final = 20  # unless the machine stood still for much of the time
STARVED_SHARE: Final = 0.9  # given less of its time than this, a machine is starved
SLOWEST_SHOWN: Final = 20
UNTIMED_AT_ONCE: Final = 3  # a mesh has five to ten processes, which wait for each other most of the time
CACHE: Final = ".pytest_cache"
CACHE_BESIDE: Final = ".pytest_cache/beside"  # two runs of pytest must not write one file

_FAILED: Final = 1  # pytest's exit codes: tests ran and some failed; there was none to run
_NOTHING: Final = 5


class Beside(Protocol):
    """A run of pytest that others do not wait for."""

    def ended(self) -> int:
        """Waits for its end, shows what it printed, and returns its exit code."""
        ...


class Runner(Protocol):
    """Runs pytest in a checkout."""

    @property
    def root(self) -> Path:
        """The checkout."""
        ...

    def run(self, *arguments: str) -> int:
        """Runs it with these arguments, and returns its exit code."""
        ...

    def beside(self, *arguments: str) -> Beside | None:
        """Starts it at idle priority, with a cache of its own; None where the system has no such priority."""
        ...


def main(arguments: Sequence[str], runner: Runner) -> int:
    """Returns pytest's exit code; 0 when all that failed passed at a later look."""
    codes, share = [], 1.0
    pure, virtual, real = phases(arguments)
    if pure:
        codes.append(runner.run(*pure))
    beside = runner.beside(*virtual) if virtual and real else None
    for phase in real if beside or not virtual else [virtual, *real]:
        given = Deadline(0)
        codes.append(runner.run(*phase))
        share = min(share, given.share)
    if beside:
        codes.append(beside.ended())
    print(f"suite: the machine gave {share:.0%} of the time that tests wanted", flush=True)
    code = max((code for code in codes if code != _NOTHING), default=_NOTHING)
    failed = failures(runner.root) if code == _FAILED else []
    doubted = failed
    for look in ("second", "third") if share < STARVED_SHARE else ("second",):
        if not deserve_second_look(failed, share):
            return code
        print(f"\nsuite: a {look} look at {len(failed)} failed tests of real processes, alone", flush=True)
        code = runner.run(*failed)
        if code == 0:
            _tell(runner.root, doubted)
            return 0
        failed = failures(runner.root)
    return code


class Phases(NamedTuple):
    """Arguments of the runs of pytest.

    Attributes:
        pure: Of unit and contract tests, which take all cores; empty where none is asked for.
        virtual: Of the simulation, which plays beside those of real processes; empty where it is not asked for.
        real: Of each run of real processes, one after the other: some tests at a time, then one at a time.
    """

    pure: Sequence[str]
    virtual: Sequence[str]
    real: Sequence[Sequence[str]]


def phases(arguments: Sequence[str]) -> Phases:
    """The runs for these arguments: tiers, and options (`--extended`) which each run gets."""
    options = [argument for argument in arguments if argument.startswith("--")]
    tiers = [argument for argument in arguments if not argument.startswith("--")]
    real = [tier for tier in tiers if tier.startswith(REAL)]
    virtual = [tier for tier in tiers if tier.startswith(VIRTUAL)]
    pure = [tier for tier in tiers if tier not in real and tier not in virtual]
    all_cores = ["--numprocesses=auto", "--dist=worksteal", *options]
    slowest = f"--durations={SLOWEST_SHOWN}"
    at_once = [f"--numprocesses={UNTIMED_AT_ONCE}", "--dist=loadfile", "-m", "untimed"]
    one_by_one = ["-m", "not untimed"]
    return Phases(
        [*all_cores, *pure] if pure else [],
        [*all_cores, *virtual] if virtual else [],
        [[*which, slowest, *options, *real] for which in (at_once, one_by_one)] if real else [],
    )


def failures(root: Path) -> list[str]:
    """What failed in the last runs, as pytest noted it."""
    noted = [root / cache / "v" / "cache" / "lastfailed" for cache in (CACHE, CACHE_BESIDE)]
    return sorted({test for each in noted if each.exists() for test in json.loads(each.read_text(encoding="utf-8"))})


def deserve_second_look(failed: Sequence[str], share: float) -> bool:
    """Whether all of them are tests of real processes, and few for what the machine gave of its time."""
    most = SECOND_LOOKS_MAX if share >= STARVED_SHARE else STARVED_LOOKS_MAX
    return 0 < len(failed) <= most and all(test.startswith(REAL) and "::" in test for test in failed)


def _tell(root: Path, failed: Sequence[str]) -> None:
    report = root / "build" / "flaky.json"
    report.parent.mkdir(exist_ok=True)
    report.write_text(json.dumps(list(failed), indent=1) + "\n", encoding="utf-8")
    print("\nsuite: FLAKY, to be mended; failed in the whole run and passed alone:", *failed, sep="\n  ")


class Pytest:
    """Runs pytest in processes of its own, and forgets what failed in earlier suites."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for cache in (CACHE, CACHE_BESIDE):
            (root / cache / "v" / "cache" / "lastfailed").unlink(missing_ok=True)

    def run(self, *arguments: str) -> int:
        """Runs it with these arguments, and returns its exit code."""
        return subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=self.root, check=False).returncode

    def beside(self, *arguments: str) -> "PytestBeside | None":
        """Starts it at idle priority, with a cache of its own; None where the system has no such priority."""
        if not can_idle():
            return None
        print("suite: the simulation plays beside tests of real processes; what it prints follows theirs", flush=True)
        return PytestBeside(self.root, arguments)


class PytestBeside:
    """Pytest at idle priority, which writes into a file until its end."""

    def __init__(self, root: Path, arguments: Sequence[str]) -> None:
        self._printed = root / "build" / "beside.log"
        self._printed.parent.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "tools.idly", "pytest", "-o", f"cache_dir={CACHE_BESIDE}", *arguments]
        with self._printed.open("w") as file:
            self._process = subprocess.Popen(command, cwd=root, stdout=file, stderr=subprocess.STDOUT)

    def ended(self) -> int:
        """Waits for its end, shows what it printed, and returns its exit code."""
        code = self._process.wait()
        print(self._printed.read_text(), flush=True)
        return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Pytest(ROOT)))
