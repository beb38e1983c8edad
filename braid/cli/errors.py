"""How a failed run ends: its text on stderr, and its exit code. No I/O."""

import difflib
from collections.abc import Collection
from typing import Final

from braid.kernel.errors import BraidError, Code, Unsupported

EXIT_DIFFERENT: Final = 1
EXIT_USAGE: Final = 2
EXIT_UNREACHABLE: Final = 3
EXIT_REFUSED: Final = 4
EXIT_INTERRUPTED: Final = 130  # as shells report Ctrl-C

_EXIT_CODES: Final = {
    Code.INVALID_ARGUMENT: EXIT_USAGE,
    Code.UNAVAILABLE: EXIT_UNREACHABLE,
    Code.DEADLINE_EXCEEDED: EXIT_UNREACHABLE,
}
_NEXT_STEPS: Final = {
    Code.NOT_FOUND: "list what there is: braid get streams, clusters, channels, groups",
    Code.ALREADY_EXISTS: "look at it: braid describe TYPE NAME; change it: braid apply -f FILE",
    Code.DEADLINE_EXCEEDED: "see what is slow: braid doctor",
    Code.ABORTED: "it changed meanwhile: look at it again, then repeat the command",
    Code.UNAVAILABLE: "see what answers: braid doctor",
    Code.RESOURCE_EXHAUSTED: "ask for less at once, or wait",
    Code.DATA_LOSS: "do not restart anything; look at the service's log",
    Code.INTERNAL: "look at the service's log; the request id names the call",
}


def exit_code(error: BraidError) -> int:
    """The exit code of an error: 2 wrong usage, 3 not reachable, 4 refused by the mesh."""
    return _EXIT_CODES.get(error.code, EXIT_REFUSED)


def error_text(error: BraidError) -> str:
    """The printed form of an error: the reason, and on a second line the next thing to try."""
    where = f"{error.field}: " if error.field and error.field not in error.message else ""
    lines = [f"braid: {where}{error.message}"]
    step = error.remedy or _NEXT_STEPS.get(error.code, "")
    return "\n".join([*lines, f"  try: {step}"] if step else lines)


def nearest(word: str, known: Collection[str]) -> str:
    """The known word closest to a mistyped one; '' if none is close."""
    return next(iter(difflib.get_close_matches(word.lower(), known, n=1)), "")


def not_built(what: str) -> Unsupported:
    """The error for a feature that this release does not have yet."""
    return Unsupported(f"{what} is not built yet", remedy="`braid --help` lists what is there")
