"""Few seeds are played in `make test`, and never too few to have seen what a test is about."""

import pytest

from tests.simulation.seeds import USUAL, Enough, seeds


@pytest.mark.parametrize(
    ("every", "seed", "seen", "ends"),
    [
        (False, 2, True, False),
        (False, 3, False, False),
        (False, 3, True, True),
        (True, 7, True, False),
    ],
    ids=["too few", "not seen yet", "enough", "every one is played"],
)
def test_a_test_ends_once_it_has_seen_all_in_enough_seeds(every: bool, seed: int, seen: bool, ends: bool) -> None:
    assert Enough(every)(seed, 3, seen) == ends


def test_further_seeds_are_left_to_longer_runs() -> None:
    marks = [{mark.name for mark in each.marks} for each in seeds(USUAL + 1)]
    assert marks[:USUAL] == [{"slow"}] * USUAL
    assert marks[USUAL] == {"slow", "extended"}
