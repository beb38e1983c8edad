"""Which tests of real processes stay in one worker when several run them, and which of them begin first.

Files of one ground stay together. A worker that has left a ground never comes back: `tests.support.grounds` ends
it. A second worker would start it a second time, which takes eight seconds of a core. Some files take minutes while
other workers have nothing left; they stand apart. pytest-xdist's own groups do nothing under pytest 9.2, so files are
grouped by what their tests ask for.

pytest-xdist begins with whatever has most tests. A file of two tests may take minutes, though, and if it came last, one
worker would play it while the others had nothing left: the longest are named here.
"""

import ast
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from tests.support.grounds import GROUNDS

LONGEST: Final = (  # grounds, or files of their own; what takes longest comes first
    "tests/e2e/test_docs.py",
    "tests/integration/pipelines/test_event_store.py",
    "two_clusters",
    "tests/e2e/test_demo.py",
    "tests/e2e/test_secure_mesh.py",
    "tests/e2e/test_dev.py",
    "tests/e2e/test_compose.py",
    "tests/integration/kafka/test_versions.py",
    "tests/integration/test_least_privilege.py",
    "tests/e2e/console/test_access.py",
    "tests/e2e/console/test_pictures.py",
    "tests/e2e/test_drill.py",
    "one_cluster",
    "whole_mesh",
)

# Each begins at once, and so does its ground: in another worker, which has not ended that ground by then.
APART: Final = ("tests/integration/pipelines/test_event_store.py",)  # from others of their ground
_ROOT: Final = Path(__file__).resolve().parents[2]
_FUNCTION: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


class LoadGroundScheduling(LoadFileScheduling):
    """Gives all files of one ground to one worker, one after another; the longest first."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(_ROOT, nodeid.partition("::")[0])

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(first_of(self.workqueue), last=False)
        super()._assign_work_unit(node)


def first_of(scopes: Iterable[str]) -> str:
    """The scope to begin with: the longest that is named, else the first of them."""
    return min(scopes, key=lambda scope: LONGEST.index(scope) if scope in LONGEST else len(LONGEST))


@cache
def scope_of(root: Path, file: str) -> str:
    """The ground that a file's tests stand on, by a fixture of theirs or of the conftest beside it; else the file."""
    grounds = [] if file in APART else grounds_of(root, file)
    return grounds[0] if grounds else file


def grounds_of(root: Path, file: str) -> list[str]:
    """All grounds that a file's tests stand on.

    Tests that run several at a time need one a file. One worker may have ended the second ground before the file.
    """
    own, beside = _fixtures(root / file), _fixtures((root / file).parent / "conftest.py")
    needed = {argument for arguments in own.values() for argument in arguments}
    needed |= {argument for name in needed for argument in beside.get(name, ())}
    return [ground for ground in GROUNDS if ground in needed - own.keys()]


def _fixtures(path: Path) -> Mapping[str, Sequence[str]]:
    """Returns the fixtures that each test and fixture of a file asks for, by name; none where there is no file."""
    if not path.exists():
        return {}
    functions = [each for each in ast.parse(path.read_bytes()).body if isinstance(each, _FUNCTION)]
    return {
        each.name: [argument.arg for argument in each.args.args]
        for each in functions
        if each.name.startswith("test_") or any("fixture" in ast.unparse(mark) for mark in each.decorator_list)
    }
