"""`bench.against`: two checkouts play in turns, and their costs are compared round by round."""

import sys
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

import pytest

from bench.against import PLANS, Side, _checkout, play, table
from bench.harness.rounds import Sample

FAKE = """
PEER, AGAIN = "somebody", "somebody again"

class Contest:
    def __init__(self, units):
        self._units = units

    def contestants(self):
        names = [PEER, AGAIN, "aiokafka otherwise", {names}]
        return dict.fromkeys(names, self._work)

    async def _work(self):
        sum(range(1_000))
        return self._units
"""


def checkout(root: Path, names: str, plays: str = "fake") -> Path:
    """A directory with one benchmark, in which Braid has these contestants."""
    (root / "bench").mkdir(parents=True)
    (root / "bench" / "__init__.py").touch()
    (root / "bench" / f"{plays}.py").write_text(FAKE.format(names=names))
    return root


def test_contestants_that_both_have_play_once_a_round_on_each(tmp_path: Path) -> None:
    roots = {
        "abc": checkout(tmp_path / "then", '"braid send", "braid gone"'),
        "now": checkout(tmp_path / "now", '"braid send", "braid new"'),
    }
    with ExitStack() as stack:
        sides = {
            side: stack.enter_context(Side(root, Path(sys.executable), "fake", [7])) for side, root in roots.items()
        }
        samples = play(sides, 3)
    assert {key: [sample.units for sample in taken] for key, taken in samples.items()} == {
        "braid send, abc": [7, 7, 7],
        "braid send, now": [7, 7, 7],
    }


def test_a_ratio_is_the_older_cost_over_the_newer() -> None:
    before, after = Sample(100, 2.0, 2.0), Sample(100, 1.6, 1.6)
    found = table("fake", "record", "abc", {"braid send, abc": [before] * 7, "braid send, now": [after] * 7})
    assert [(row.name, row.ratio) for row in found.rows] == [("braid send, abc", 1.0), ("braid send, now", 1.25)]
    assert found.name == "fake-against-abc"


def test_a_process_that_dies_is_told(tmp_path: Path) -> None:
    root = checkout(tmp_path, '"braid send"')
    (root / "bench" / "broken.py").write_text("import bench.nowhere\n")
    with pytest.raises(SystemExit, match="ended with 1"):
        Side(root, Path(sys.executable), "broken", [7])


def test_a_benchmark_that_one_of_them_lacks_is_left_out(tmp_path: Path) -> None:
    roots = {
        "abc": checkout(tmp_path / "then", '"braid send"', "other"),
        "now": checkout(tmp_path / "now", '"braid send"'),
    }
    with ExitStack() as stack:
        sides = {
            side: stack.enter_context(Side(root, Path(sys.executable), "fake", [7])) for side, root in roots.items()
        }
        assert play(sides, 3) == {}


def test_a_commit_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SystemExit, match="no commit"):
        _checkout("nonsense")


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_is_of_a_benchmark_that_can_play_so(name: str) -> None:
    module = import_module(f"bench.{name}")
    assert {"PEER", "AGAIN", "Contest"} <= set(vars(module))
