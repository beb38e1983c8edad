"""Unique names of groups for contests."""

import os
from itertools import count
from typing import Final

_NUMBERS: Final = count(1)


def new_group() -> str:
    """The name of a group that has read nothing yet, unlike those of parallel or earlier runs: they would miss
    records."""
    return f"bench-{os.getpid()}-{next(_NUMBERS)}"
