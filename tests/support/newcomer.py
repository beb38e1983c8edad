"""Commands of a new user who stands in a directory, as tests of whole meshes type them."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

HANG_SECONDS: Final = 600.0  # by the wall: it ends what hangs, and judges nothing
_COMMAND: Final = Path(sys.executable).with_name("braid")


def braid(directory: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """One command, run to its end with further variables in its environment."""
    return subprocess.run(
        [_COMMAND, *arguments],
        cwd=directory,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )


def findings(directory: Path) -> Sequence[Mapping[str, str]]:
    """Returns the findings of `braid doctor`."""
    told: Sequence[Mapping[str, str]] = json.loads(braid(directory, "doctor", "-o", "json").stdout)["findings"]
    return told
