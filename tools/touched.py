"""Runs the tests of changed files: `python -m tools.touched [PATH …]`, by default those that differ from HEAD.

Tests mirror the tree. A file's tests are in the folder of `tests/unit` and `tests/contract` with the path of its own
folder, or of the nearest parent that has any; a test file's test is itself. Tests of real processes are left out.
"""

import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
TIERS: Final = ("unit", "contract")
ROOMS: Final = ("braid", "services")  # their names stand in no path of a test


def tests_of(path: str, root: Path) -> set[str]:
    """The test files and folders that belong to a file or folder."""
    parts = PurePosixPath(path).parts
    folder = (root / path).is_dir()
    if parts[0] == "tests":
        return {path} if folder or (parts[-1].startswith("test_") and (root / path).exists()) else set()
    own = [part for part in parts[: None if folder else -1] if part not in ROOMS]
    found: set[str] = set()
    for tier in TIERS:
        for length in range(len(own), 0, -1):
            tests = "/".join(("tests", tier, *own[:length]))
            if (root / tests).is_dir():
                found.add(tests)
                break
    return found


def changed(root: Path) -> list[str]:
    """Files that differ from HEAD, or are new."""
    git = ["git", "-C", str(root)]
    commands = ([*git, "diff", "--name-only", "HEAD"], [*git, "ls-files", "--others", "--exclude-standard"])
    return [
        line
        for command in commands
        for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    ]


def outermost(tests: Iterable[str]) -> list[str]:
    """Paths that lie inside no other of these, sorted."""
    found = sorted(tests)
    return [each for each in found if not any(each.startswith(f"{other}/") for other in found)]


def main(arguments: Sequence[str]) -> int:
    """Returns pytest's exit code; 0 if there is nothing to run."""
    paths = list(arguments) or changed(ROOT)
    if missing := [path for path in paths if arguments and not (ROOT / path).exists()]:
        print(f"there is no {', '.join(missing)}: give paths from the top of the checkout", file=sys.stderr)
        return 2
    tests = outermost(test for path in paths for test in tests_of(path, ROOT))
    if not tests:
        print("no unit or contract test stands for what changed")
        return 0
    print("tests of what changed:", *tests, sep="\n  ", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", "--numprocesses=auto", "--dist=worksteal", "-m", "not real"]
    return subprocess.run([*command, *tests], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
