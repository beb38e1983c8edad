"""Runs the test tiers; real-process tests that fail are looked at again, alone, and said to be flaky if they pass.

`python -m tools.suite tests/unit …`. Tiers without real processes take every core. Tests of real processes that are
marked `untimed` run two at a time: much of what they do is wait. All others measure times, so they run alone, one
after the other. `--extended` adds the tests that run for long. Only tests of
real processes get a second look, and only a few of them: a machine that stalls for a second fails them without any
fault of ours. Where the machine's host withheld its cores (`testbed.patience`), more of them do, and a third.
It is never silent: the share of its time that the machine gave is printed, what passed later is printed last and kept
in `build/flaky.json`, and is a bug to be mended. A unit, contract or simulation test that fails has failed.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from testbed.patience import Deadline

ROOT: Final = Path(__file__).resolve().parent.parent
REAL: Final = ("tests/integration", "tests/e2e")
SECOND_LOOKS_MAX: Final = 3  # more failures at once are no accident
STARVED_LOOKS_MAX: Final = 20  # unless the machine stood still for much of the time
STARVED_SHARE: Final = 0.9  # given less of its time than this, a machine is starved
SLOWEST_SHOWN: Final = 20
UNTIMED_AT_ONCE: Final = 2  # a mesh has five to ten processes

_FAILED: Final = 1  # pytest's exit codes: tests ran and some failed; there was none to run
_NOTHING: Final = 5


def run_pytest(*arguments: str) -> int:
    """Runs pytest in the checkout; returns its exit code."""
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=ROOT, check=False).returncode


def main(arguments: Sequence[str], run: Callable[..., int] = run_pytest, root: Path = ROOT) -> int:
    """Returns pytest's exit code; 0 when all that failed passed at a later look.

    Args:
        arguments: Tiers and options, see `phases`.
        run: Runs pytest with some arguments.
        root: Where pytest notes what failed, and `build` lies.
    """
    codes, share = [], 1.0
    for phase in phases(arguments):
        given = Deadline(0)
        codes.append(run(*phase))
        share = min(share, given.share)
    print(f"suite: the machine gave {share:.0%} of the time that tests wanted", flush=True)
    code = max((code for code in codes if code != _NOTHING), default=_NOTHING)
    failed = failures(root) if code == _FAILED else []
    doubted = failed
    for look in ("second", "third") if share < STARVED_SHARE else ("second",):
        if not deserve_second_look(failed, share):
            return code
        print(f"\nsuite: a {look} look at {len(failed)} failed tests of real processes, alone", flush=True)
        code = run(*failed)
        if code == 0:
            _tell(doubted, root)
            return 0
        failed = failures(root)
    return code


def phases(arguments: Sequence[str]) -> list[list[str]]:
    """The pytest runs, one after the other: pure code on all cores, real processes two at a time, then those alone.

    Arguments are tiers, and options (`--extended`), which each run gets.
    """
    options = [argument for argument in arguments if argument.startswith("--")]
    tiers = [argument for argument in arguments if not argument.startswith("--")]
    real = [tier for tier in tiers if tier.startswith(REAL)]
    pure = [tier for tier in tiers if tier not in real]
    runs = [["--numprocesses=auto", "--dist=worksteal", *options, *pure]] if pure else []
    slowest = f"--durations={SLOWEST_SHOWN}"
    at_once = [f"--numprocesses={UNTIMED_AT_ONCE}", "--dist=loadfile", "-m", "untimed"]
    runs += [[*at_once, slowest, *options, *real], ["-m", "not untimed", slowest, *options, *real]] if real else []
    return [["--cache-clear", *run] if run is runs[0] else run for run in runs]


def failures(root: Path) -> list[str]:
    """What failed in the last run, as pytest noted it."""
    noted = root / ".pytest_cache" / "v" / "cache" / "lastfailed"
    return sorted(json.loads(noted.read_text(encoding="utf-8"))) if noted.exists() else []


def deserve_second_look(failed: Sequence[str], share: float) -> bool:
    """Whether all of them are tests of real processes, and few for what the machine gave of its time."""
    most = SECOND_LOOKS_MAX if share >= STARVED_SHARE else STARVED_LOOKS_MAX
    return 0 < len(failed) <= most and all(test.startswith(REAL) and "::" in test for test in failed)


def _tell(failed: Sequence[str], root: Path) -> None:
    report = root / "build" / "flaky.json"
    report.parent.mkdir(exist_ok=True)
    report.write_text(json.dumps(list(failed), indent=1) + "\n", encoding="utf-8")
    print("\nsuite: FLAKY, to be mended; failed in the whole run and passed alone:", *failed, sep="\n  ")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
