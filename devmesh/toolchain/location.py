"""Modules that find a tool print its location when they are run, or why there is none."""

import sys
from collections.abc import Callable
from pathlib import Path

from braid.kernel.errors import BraidError


def print_location(find: Callable[[], Path | tuple[Path, ...]]) -> int:
    """Prints where a tool's files are, one a line.

    Returns:
        The exit code: 1, with the reason on stderr, when there are none.
    """
    try:
        found = find()
    except BraidError as error:
        print(error, file=sys.stderr)
        return 1
    print(*(found if isinstance(found, tuple) else (found,)), sep="\n")
    return 0
