"""Checks the form of a commit message: `area: verb …`, an empty line, the reason.

`python -m tools.commit_form FILE`; git runs it as a `commit-msg` hook (`make hooks`).
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

FIRST_LINE_MAX: Final = 88
_FIRST: Final = re.compile(r"(?:[a-z0-9_.-]+(?:, )?)+: [a-z].*[^.]")
_MADE_BY_GIT: Final = ("Merge ", "Revert ", "fixup! ", "squash! ", "amend! ")


def findings(message: str) -> Iterator[str]:
    """The faults of a message, a sentence each; none for messages that git itself writes."""
    lines = [line for line in message.split("\n# ------------------------ >8", 1)[0].splitlines() if line[:1] != "#"]
    first, *rest = lines or [""]
    if first.startswith(_MADE_BY_GIT):
        return
    if not _FIRST.fullmatch(first):
        yield f"first line {first!r}: write `area: verb …`, for example `client: send sealed records elsewhere`"
    if len(first) > FIRST_LINE_MAX:
        yield f"first line has {len(first)} letters, more than {FIRST_LINE_MAX}: say the rest below"
    if rest and rest[0]:
        yield "second line: leave it empty"


def main() -> int:
    """Returns 1 if the message in the named file has another form."""
    found = list(findings(Path(sys.argv[1]).read_text(encoding="utf-8")))
    print(*found, sep="\n", end="\n" if found else "", file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
