"""Asks PyPI's data for known vulnerabilities of every locked package, with pip-audit: `make audit`.

Exits with 0 where none is known, 1 with those that are, and 3 where the data could not be had: then nobody knows.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tools.sbom import ROOT, pins

_SECONDS_MAX: Final = 900.0  # a few hundred questions, one after the other
_COMMAND: Final = (
    *(sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip", "--progress-spinner", "off"),
    *("--format", "json", "--requirement"),
)
Package = tuple[str, str]


class Answer(NamedTuple):
    """The findings of an audit."""

    vulnerable: Sequence[str]
    unchecked: Sequence[str]


def main() -> int:
    """Audits every lock, for all machines and Python versions at once."""
    locked = {(each.name, each.version) for path in ROOT.glob("requirements/*.txt") for each in pins(path.read_text())}
    found = audit(locked, _ask)
    for line in (*found.vulnerable, *(f"not checked: {each}" for each in found.unchecked)):
        print(f"make audit: {line}", file=sys.stderr)
    if found.unchecked:
        return 3
    if not found.vulnerable:
        print(f"make audit: nothing is known against any of {len(locked)} packages")
    return 1 if found.vulnerable else 0


def audit(packages: Iterable[Package], ask: Callable[[Sequence[Package]], str]) -> Answer:
    """Asks about packages, and sorts what is said of them.

    Args:
        packages: Names and versions.
        ask: Returns pip-audit's report in JSON about packages of different names. Raises `OSError` where there is none.
    """
    vulnerable, unchecked = list[str](), list[str]()
    for some in rounds(packages):
        try:
            told = {each["name"]: each for each in json.loads(ask(some))["dependencies"]}
        except OSError as error:
            unchecked.append(f"{len(some)} packages: {error}")
            continue
        for name, version in some:
            said = told.get(name, {"skip_reason": "pip-audit says nothing of it"})
            if "skip_reason" in said:
                unchecked.append(f"{name} {version}: {said['skip_reason']}")
            for each in said.get("vulns", ()):
                fixed = ", ".join(each["fix_versions"]) or "no version yet"
                vulnerable.append(f"{name} {version}: {each['id']}, fixed in {fixed}")
    return Answer(vulnerable, unchecked)


def rounds(packages: Iterable[Package]) -> list[list[Package]]:
    """Divides packages so that none comes twice in a part: a lock may have several versions for several Pythons."""
    parts: list[dict[str, str]] = []
    for name, version in sorted(packages):
        part = next((each for each in parts if name not in each), None)
        if part is None:
            parts.append(part := {})
        part[name] = version
    return [list(each.items()) for each in parts]


def _ask(packages: Sequence[Package]) -> str:
    """Returns pip-audit's report. Raises `OSError` with its last words where it makes none."""
    with tempfile.TemporaryDirectory() as directory:
        asked = Path(directory) / "requirements.txt"
        asked.write_text("".join(f"{name}=={version}\n" for name, version in packages))
        try:
            answer = subprocess.run([*_COMMAND, str(asked)], capture_output=True, text=True, timeout=_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise OSError(f"pip-audit did not end within {_SECONDS_MAX:g} s") from None
    if not answer.stdout.lstrip().startswith("{"):
        words = answer.stderr.strip().splitlines() or [f"pip-audit ended with {answer.returncode}"]
        raise OSError(words[-1])
    return answer.stdout


if __name__ == "__main__":
    sys.exit(main())
