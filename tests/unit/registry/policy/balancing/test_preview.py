"""Previews without a cluster that takes no part: one that is cordoned, is DOWN or was never measured."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from services.registry.policy.balancing.preview import Preview, preview
from tests.unit.registry.histories import cluster, down
from tests.unit.registry.policy.balancing.town import Town, town

RATES = {"a": 6, "b": 3, "c": 1}
HOMES = {"a": "west", "b": "west", "c": "east"}


def measured() -> Town:
    """Two streams on west and one on east, measured for a minute while nothing may move."""
    made = town(RATES, HOMES)
    made.rules = replace(made.rules, moves_at_once=0)
    return made.run(60)


def without(made: Town, *names: str) -> Preview:
    """A preview that imagines some clusters away."""
    return preview(made.world, made.memory, made.rules, names, ())


def rates(found: Preview) -> dict[str, float]:
    """Bytes a second of each cluster after all moves."""
    return {each.name: each.then[0] for each in found.clusters}


def cordoned(made: Town) -> None:
    """An operator closed west."""
    made.clusters["west"] = cluster("west", cordoned=True)


def unmeasured(made: Town) -> None:
    """The leader has not read west's load yet."""
    made.unmeasured.add("west")


@pytest.mark.parametrize("happens", [cordoned, unmeasured])
def test_streams_leave_a_cluster_that_takes_no_part(happens: Callable[[Town], None]) -> None:
    made = measured()
    open_still = without(made, "west")
    happens(made)
    found = without(made, "west")
    assert found.moves == open_still.moves != []
    assert rates(found) == pytest.approx(rates(open_still))
    (row,) = (each for each in found.clusters if each.name == "west")
    assert row.left_out


def test_streams_of_a_down_cluster_are_left_to_the_failover() -> None:
    made = measured()
    made.clusters["west"] = down("west")
    found = without(made, "west")
    assert not found.balanced
    assert not found.moves
    assert any("stream a has no other place: is left to other decisions" in each for each in found.problems)
