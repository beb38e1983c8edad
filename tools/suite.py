"""Runs the test tiers; real-process tests that fail are looked at again, alone, and said to be flaky if they pass.

`python -m tools.suite tests/unit …`. Unit and contract tests come first, and take every core; with `--prepare`, what
real processes need besides packages is obtained meanwhile (`make prepared`): much of that is waiting for the network.
Then come tests of real processes that are marked `untimed`, three at a time, because they wait much of their time;
beside them, tests of their tiers that start no process. Those marked `patient` come next, one after the other. Beside
both the simulation plays, and with `--check` all checks run (`make checks`): they measure no time, and run at idle
priority, where they take no time from other processes. So do unit tests of some rooms, which play on virtual time or
compute (`CALM_ROOMS`). All other tests measure times, so they run last, alone: work of idle priority shares the cores'
caches, which two of them showed. Where the system has no such priority, what runs beside comes first.

What runs beside prints into `build/beside`; the suite shows it once it has ended. All unit tests beside real
processes, at a usual priority, saved nothing: both took longer, and some of the latter missed their time.

After each phase it prints how long it took, and the share of the cores' time that went to it and to what ran beside.

`--extended` adds the tests that run for long. Only tests of real processes get a second look, and only a few of them: a
machine that stalls for a second fails them without any fault of ours. Where the machine's host withheld its cores
(`testbed.patience`), more of them do, and a third. It is never silent: the share of its time that the machine gave is
printed, what passed later is printed last and kept in `build/flaky.json`, and is a bug to be mended. A unit, contract
or simulation test that fails has failed.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from testbed.patience import Deadline
from tools.core_use import Meter
from tools.idly import can_idle

ROOT: Final = Path(__file__).resolve().parent.parent
REAL: Final = ("tests/integration", "tests/e2e")
VIRTUAL: Final = ("tests/simulation",)
UNIT: Final = "tests/unit"
CALM_ROOMS: Final = tuple(  # no deadline of theirs is by the wall
    f"{UNIT}/{room}" for room in ("assigner", "client", "dlq", "lagmon", "registry")
)
CHECK: Final = "--check"
PREPARE: Final = "--prepare"
REAL_PHASES: Final = tuple(f"tests of real processes, {how}" for how in ("some at a time", "one at a time", "alone"))
SECOND_LOOKS_MAX: Final = 3  # more failures at once are no accident
STARVED_LOOKS_MAX: Final = 20  # unless the machine stood still for much of the time
STARVED_SHARE: Final = 0.9  # given less of its time than this, a machine is starved
SLOWEST_SHOWN: Final = 20
UNTIMED_AT_ONCE: Final = 3  # four on two cores make Spark and browsers miss deadlines of a minute
_AT_ONCE: Final = "untimed or not real"  # what starts no processes measures none
CACHE: Final = ".pytest_cache"
CACHE_BESIDE: Final = f"{CACHE}/beside"  # runs of pytest at the same time must not write one file
CACHES: Final = (CACHE, CACHE_BESIDE)

_FAILED: Final = 1  # pytest's exit codes: tests ran and some failed; there was none to run
_NOTHING: Final = 5
_CHECK_FAILED: Final = 2  # as make says it: no later look at tests can mend that


class Beside(Protocol):
    """A run that others do not wait for."""

    def ended(self) -> int:
        """Waits for its end, shows what it printed, and returns its exit code."""
        ...


class Runner(Protocol):
    """Runs pytest and the checks in a checkout."""

    @property
    def root(self) -> Path:
        """The checkout."""
        ...

    @property
    def can_idle(self) -> bool:
        """Whether the system has a priority at which nobody is kept from running."""
        ...

    def run(self, *arguments: str) -> int:
        """Runs pytest with these arguments, and returns its exit code."""
        ...

    def prepare_beside(self) -> Beside:
        """Starts to obtain what tests of real processes need."""
        ...

    def check(self) -> int:
        """Runs all checks, and returns their exit code."""
        ...

    def check_beside(self) -> Beside:
        """Starts all checks at idle priority."""
        ...

    def pytest_beside(self, *arguments: str) -> Beside:
        """Starts pytest at idle priority, with a cache of its own."""
        ...


def main(arguments: Sequence[str], runner: Runner) -> int:
    """Returns pytest's exit code, 2 when a check or the preparation failed; 0 when all that failed passed later."""
    plan = phases([argument for argument in arguments if argument not in (CHECK, PREPARE)], can_idle=runner.can_idle)
    preparation = runner.prepare_beside() if PREPARE in arguments else None
    codes = _run_first(plan, runner, checks=CHECK in arguments)
    if preparation is not None and (failed := preparation.ended()):
        return failed
    idle = _start_beside(plan, runner, checks=CHECK in arguments) if _is_idle(plan, runner) else []
    share = 1.0
    for what, phase in zip(REAL_PHASES, plan.real, strict=False):
        if phase is plan.real[-1]:
            with _measured("what ran beside, after those"):
                codes += [each.ended() for each in idle]
        given = Deadline(0)
        with _measured(what):
            codes.append(runner.run(*phase))
        share = min(share, given.share)
    print(f"suite: the machine gave {share:.0%} of the time that tests wanted", flush=True)
    code = max((code for code in codes if code != _NOTHING), default=_NOTHING)
    return _look_again(runner, share) if code == _FAILED else code


def _is_idle(plan: "Phases", runner: Runner) -> bool:
    """Whether checks and simulation run beside tests of real processes, and not before them."""
    return bool(plan.real) and runner.can_idle


def _run_first(plan: "Phases", runner: Runner, *, checks: bool) -> list[int]:
    """Runs what comes before tests of real processes, and returns the exit codes."""
    idle = _is_idle(plan, runner)
    codes = [runner.check()] if checks and not idle else []
    with _measured("unit and contract tests"):
        codes += [runner.run(*plan.pure)] if plan.pure else []
    return [*codes, runner.run(*plan.virtual)] if plan.virtual and not idle else codes


def _start_beside(plan: "Phases", runner: Runner, *, checks: bool) -> list[Beside]:
    """Starts what runs at idle priority."""
    beside = [runner.check_beside()] if checks else []
    return [*beside, runner.pytest_beside(*plan.virtual)] if plan.virtual else beside


@contextmanager
def _measured(what: str) -> Iterator[None]:
    """Prints afterwards what it took of the machine: a phase that leaves cores free waits, any other one costs."""
    meter = Meter()
    yield
    print(f"suite: {what}: {meter.read()}", flush=True)


def _look_again(runner: Runner, share: float) -> int:
    """Runs failed tests of real processes once more, alone. Returns 0 when they pass."""
    doubted = failed = failures(runner.root)
    for look in ("second", "third") if share < STARVED_SHARE else ("second",):
        if not deserve_second_look(failed, share):
            return _FAILED
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
        virtual: Of the simulation, and of unit tests that play with it beside all of `real` but the last; empty where
            none is asked for.
        real: Of each run of real processes, one after the other: some tests at a time, then one at a time, then alone.
    """

    pure: Sequence[str]
    virtual: Sequence[str]
    real: Sequence[Sequence[str]]


def phases(arguments: Sequence[str], *, can_idle: bool) -> Phases:
    """The runs for these arguments: tiers, and options (`--extended`) which each run gets.

    Without an idle priority (`can_idle`), no unit test waits for others.
    """
    options = [argument for argument in arguments if argument.startswith("--")]
    tiers = [argument for argument in arguments if not argument.startswith("--")]
    real = [tier for tier in tiers if tier.startswith(REAL)]
    virtual = [tier for tier in tiers if tier.startswith(VIRTUAL)]
    pure = [tier for tier in tiers if tier not in real and tier not in virtual]
    slowest = f"--durations={SLOWEST_SHOWN}"
    all_cores = ["--numprocesses=auto", "--dist=worksteal", slowest, *options]
    calm = CALM_ROOMS if can_idle and real and UNIT in pure else ()
    at_once = [f"--numprocesses={UNTIMED_AT_ONCE}", "--dist=loadfile", "-m", _AT_ONCE]
    patient, alone = ["-m", f"patient and not ({_AT_ONCE})"], ["-m", f"not (patient or {_AT_ONCE})"]
    return Phases(
        [*all_cores, *(f"--ignore={room}" for room in calm), *pure] if pure else [],
        [*all_cores, *virtual, *calm] if virtual or calm else [],
        [[*which, slowest, *options, *real] for which in (at_once, patient, alone)] if real else [],
    )


def failures(root: Path) -> list[str]:
    """The tests that failed in the last runs, as pytest noted them."""
    noted = [root / cache / "v" / "cache" / "lastfailed" for cache in CACHES]
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


class Processes:
    """Runs pytest and the checks in processes of their own, and forgets what failed in earlier suites."""

    can_idle = can_idle()

    def __init__(self, root: Path) -> None:
        self.root = root
        for cache in CACHES:
            (root / cache / "v" / "cache" / "lastfailed").unlink(missing_ok=True)

    def run(self, *arguments: str) -> int:
        """Runs pytest with these arguments, and returns its exit code."""
        return subprocess.run([*_pytest(), *arguments], cwd=self.root, check=False).returncode

    def prepare_beside(self) -> Beside:
        """Starts to obtain what tests of real processes need."""
        return ProcessBeside(self.root, "preparation", _MAKE_PREPARED, "unit tests", failed=_CHECK_FAILED)

    def check(self) -> int:
        """Runs all checks, and returns their exit code."""
        return _CHECK_FAILED if subprocess.run(_MAKE_CHECK, cwd=self.root, check=False).returncode else 0

    def check_beside(self) -> Beside:
        """Starts all checks at idle priority."""
        return ProcessBeside(self.root, "checks", [*_IDLY, *_MAKE_CHECK], failed=_CHECK_FAILED)

    def pytest_beside(self, *arguments: str) -> Beside:
        """Starts pytest at idle priority, with a cache of its own."""
        return ProcessBeside(self.root, "simulation", [*_IDLY, *_pytest(CACHE_BESIDE), *arguments])


class ProcessBeside:
    """A process that writes into a file until its end."""

    def __init__(
        self,
        root: Path,
        what: str,
        command: Sequence[str],
        others: str = "tests of real processes",
        failed: int | None = None,
    ) -> None:
        """Starts it beside others; `failed` is the exit code to return for every one but 0."""
        self._what = what
        self._failed = failed
        self._printed = root / "build" / "beside" / f"{what.replace(' ', '-')}.log"
        self._printed.parent.mkdir(parents=True, exist_ok=True)
        print(f"suite: {what} runs beside {others}, into {self._printed.relative_to(root)}", flush=True)
        with self._printed.open("w") as file:
            self._process = subprocess.Popen(command, cwd=root, stdout=file, stderr=subprocess.STDOUT)

    def ended(self) -> int:
        """Waits for its end, shows what it printed, and returns its exit code."""
        code = self._process.wait()
        print(f"\nsuite: {self._what}, beside:", self._printed.read_text(), sep="\n", flush=True)
        return code if self._failed is None or not code else self._failed


_MAKE_CHECK: Final = ("make", "--no-print-directory", "checks")
_MAKE_PREPARED: Final = ("make", "--no-print-directory", "prepared")
_IDLY: Final = (sys.executable, "-m", "tools.idly")


def _pytest(cache: str = CACHE) -> Sequence[str]:
    return (sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Processes(ROOT)))
