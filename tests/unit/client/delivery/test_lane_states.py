"""One value says what keeps a lane from going on; it goes on once nothing does."""

import pytest

from braid.client.delivery.lane_states import Hold, LaneStates
from braid.client.delivery.ready_queue import ReadyQueue


@pytest.fixture
def lanes() -> tuple[LaneStates, ReadyQueue]:
    ready = ReadyQueue({})
    ready.open("live")
    return LaneStates(ready), ready


def test_a_lane_goes_on_with_the_last_reason_that_goes(lanes: tuple[LaneStates, ReadyQueue]) -> None:
    states, ready = lanes
    states.hold("live", Hold.APPLICATION)
    states.hold("live", Hold.DEAD_LETTERS, "too many")
    assert states.of("live").paused and states.stopped() == {"live": "too many"}
    states.release("live", Hold.APPLICATION)
    assert ready.is_paused("live")
    states.release("live", Hold.DEAD_LETTERS)
    assert not ready.is_paused("live") and states.of("live").reasons == {} and states.stopped() == {}


def test_an_open_circuit_tries_one_record_unless_it_is_held(
    lanes: tuple[LaneStates, ReadyQueue],
) -> None:
    states, ready = lanes
    states.hold("live", Hold.CIRCUIT, "its database is away")
    assert ready.is_paused("live")
    states.admit_one("live")
    assert not ready.is_paused("live") and states.of("live").stopped == "its database is away"
    states.hold("live", Hold.APPLICATION)
    assert ready.is_paused("live")
    states.release("live", Hold.APPLICATION)
    assert not ready.is_paused("live")
    states.admit_none("live")
    assert ready.is_paused("live")
    states.admit_one("live")
    states.release("live", Hold.CIRCUIT)
    states.hold("live", Hold.CIRCUIT, "again")
    assert ready.is_paused("live"), "what was tried before is over"


def test_too_many_held_records_pause_fetching_and_nothing_else(lanes: tuple[LaneStates, ReadyQueue]) -> None:
    states, ready = lanes
    states.hold("live", Hold.COPYING, "7 wait to be copied")
    states.hold("live", Hold.PARKED, "9 are parked")
    assert states.of("live").fetching_paused == "9 are parked; 7 wait to be copied"
    assert not ready.is_paused("live") and states.of("live").stopped == "" and states.fetching_paused() == 1
    states.release("live", Hold.PARKED)
    states.release("live", Hold.COPYING)
    assert states.fetching_paused() == 0 and not states.holds("live", *Hold)


def test_what_is_told_first_is_what_somebody_must_mend(lanes: tuple[LaneStates, ReadyQueue]) -> None:
    states, _ = lanes
    states.hold("live", Hold.CIRCUIT, "its database is away")
    states.hold("live", Hold.DEAD_LETTERS, "a bad deploy")
    assert states.stopped() == {"live": "a bad deploy"}
