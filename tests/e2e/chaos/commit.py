"""The commit that a checkout is at, and the seed it stands for: which slice of the catalogue the suite plays.

`BRAID_CHAOS_SLICE` holds another commit's hash: its slice is played again.
"""

import os
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
VARIABLE: Final = "BRAID_CHAOS_SLICE"
DIGITS: Final = 8  # of the hash; fewer stand for another slice
NO_COMMIT: Final = "0" * DIGITS  # of a copy of the project that has no history


def commit_hash() -> str:
    """The first digits of the hash that chooses the slice: of the environment, or else of the commit checked out."""
    if given := os.environ.get(VARIABLE):
        return given[:DIGITS]
    answer = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return answer.stdout.strip()[:DIGITS] or NO_COMMIT


def seed_from(commit: str) -> int:
    """The seed that a hash stands for. Raises `ValueError` when it is not hexadecimal."""
    return int(commit[:DIGITS], 16)
