"""Which tests of real processes stay in one worker when two workers run them: those of one ground, or of one module.

A worker that has left a ground never comes back to it (`tests.support.grounds` ends it), and a second worker would
start it a second time. The groups of pytest-xdist do nothing under pytest 9.2, so files are grouped by the grounds that
they name.
"""

import re
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadFileScheduling

from tests.support.grounds import GROUNDS

_ROOT = Path(__file__).resolve().parents[2]


class LoadGroundScheduling(LoadFileScheduling):
    """Gives all files of one ground to one worker, one after another."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(_ROOT, nodeid.partition("::")[0])


@cache
def scope_of(root: Path, file: str) -> str:
    """The ground that a file or the conftest beside it names as a fixture; the file itself where there is none."""
    path = root / file
    for source in (path, path.parent / "conftest.py"):
        text = source.read_text(encoding="utf-8") if source.exists() else ""
        for ground in GROUNDS:
            if re.search(rf"\(.*\b{ground}: ", text) and f"def {ground}(" not in text:
                return ground
    return file
