"""Checkpointed positions: what is planned, what a restart reads back, and what another query's checkpoint gets."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.client.planning.planned_lease import Offer
from braid.kernel.errors import BraidError
from braid.kernel.ids import LeaseId
from braid.spark.positions import LeaseBatch, Positions

EAST = LeaseId.parse("logs/live/1/0")
WEST = LeaseId.parse("logs/live/2/0")
EMPTY = Positions("logs", "events")


def read_back(positions: Positions) -> Positions:
    """Through a checkpoint."""
    return Positions.parse(json.loads(json.dumps(positions.to_json())), "logs", "events")


def test_a_lease_begins_where_the_group_stands() -> None:
    assert EMPTY.advance({EAST: Offer(5, 9)}, None).batches == {EAST: LeaseBatch(5, 9)}


def test_nothing_new_is_the_same_position() -> None:
    at = EMPTY.advance({EAST: Offer(0, 9)}, None)
    assert at.advance({EAST: Offer(9, 9)}, None) is at
    assert at.advance({}, None) is at


def test_a_new_channel_appears_and_the_old_one_keeps_its_place() -> None:
    at = EMPTY.advance({EAST: Offer(0, 9)}, None).advance({WEST: Offer(0, 4)}, None)
    assert at.batches == {EAST: LeaseBatch(9, 9), WEST: LeaseBatch(0, 4)}


def test_the_checkpoint_wins_over_progress_that_lags_behind() -> None:
    at = EMPTY.advance({EAST: Offer(0, 9)}, None)
    assert at.advance({EAST: Offer(3, 12)}, None).batches == {EAST: LeaseBatch(9, 12)}


def test_what_another_member_did_meanwhile_is_passed_over() -> None:
    at = EMPTY.advance({EAST: Offer(0, 9)}, None)
    assert at.advance({EAST: Offer(20, 30)}, None).batches == {EAST: LeaseBatch(20, 30)}


def test_done_ranges_are_kept_with_the_batch_and_cut_to_it() -> None:
    at = EMPTY.advance({EAST: Offer(0, 100, (10, 20, 90, 120))}, None)
    assert at.batches[EAST] == LeaseBatch(0, 100, (10, 20, 90, 100))
    assert read_back(at) == at


def test_too_many_done_ranges_are_repeated_instead() -> None:
    many = tuple(edge for start in range(0, 1_000, 4) for edge in (start, start + 2))
    assert EMPTY.advance({EAST: Offer(0, 1_000, many)}, None).batches[EAST].skip == ()


def test_a_run_that_ends_passes_no_end_and_takes_no_later_lease() -> None:
    at = EMPTY.advance({EAST: Offer(0, 100), WEST: Offer(0, 50)}, None, {EAST: 60})
    assert at.batches == {EAST: LeaseBatch(0, 60)}
    assert at.advance({EAST: Offer(60, 100), WEST: Offer(0, 50)}, None, {EAST: 60}) is at


def test_lost_channels_are_forgotten_without_an_empty_batch() -> None:
    at = EMPTY.advance({EAST: Offer(0, 9), WEST: Offer(0, 4)}, None)
    left = at.without({EAST.channel})
    assert left.advance({WEST: Offer(4, 4)}, None).nothing_since(at)
    grown = left.advance({WEST: Offer(4, 6)}, None)
    assert not grown.nothing_since(at)
    assert grown.batches == {WEST: LeaseBatch(4, 6)}


@given(
    st.lists(
        st.tuples(st.dictionaries(st.integers(0, 5), st.integers(1, 50), max_size=4), st.integers(1, 60)), max_size=20
    )
)
def test_batches_follow_one_another_without_gap_or_overlap(steps: list[tuple[dict[int, int], int]]) -> None:
    at, ends = EMPTY, dict.fromkeys(range(6), 0)
    seen: dict[int, list[int]] = {partition: [] for partition in ends}
    for grown, rows_max in steps:
        ends.update({partition: ends[partition] + more for partition, more in grown.items()})
        offers = {LeaseId(EAST.channel, partition): Offer(0, ends[partition]) for partition in grown}
        end = at.advance(offers, rows_max)
        if end is not at:
            for lease, batch in read_back(end).batches.items():
                seen[lease.partition] += range(batch.start, batch.end)
        at = end
    assert all(offsets == list(range(len(offsets))) for offsets in seen.values())


def test_the_text_is_sorted() -> None:
    offers = {WEST: Offer(0, 1), EAST: Offer(0, 1)}
    text = json.dumps(EMPTY.advance(offers, None).to_json())
    assert text == json.dumps(json.loads(text), sort_keys=True)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"stream": "other"}, "belongs to stream other, not logs"),
        ({"group": "other"}, "belongs to group other, not events"),
        ({"format": 2}, "format 2 is not known"),
        ({"leases": []}, "another source"),
        ({"leases": {"nonsense": {"from": 0, "to": 1}}}, "damaged"),
        ({"leases": {str(EAST): {"from": 5, "to": 1}}}, "damaged"),
        ({"leases": {str(EAST): {"to": 1}}}, "damaged"),
        ({"leases": {str(EAST): {"from": 0, "to": 9, "skip": "5,3"}}}, "damaged"),
        ({"leases": {str(EAST): 7}}, "damaged"),
    ],
)
def test_another_checkpoint_is_refused(change: Mapping[str, Any], says: str) -> None:
    with pytest.raises(BraidError, match=says) as raised:
        Positions.parse({**EMPTY.to_json(), **change}, "logs", "events")
    assert raised.value.field == "checkpointLocation"


def test_kafkas_own_offsets_are_refused() -> None:
    with pytest.raises(BraidError, match="another source"):
        Positions.parse({"logs": {"0": 23}}, "logs", "events")
