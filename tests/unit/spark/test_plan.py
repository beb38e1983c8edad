"""Ranges and limits: parts of a range are the range, shares of a limit are the limit."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.ids import ChannelId, LeaseId
from braid.spark.plan import LogRange, beside, gather, share_limit, split

CHANNEL = ChannelId("logs", "live", 1)
WHOLE = LogRange(LeaseId(CHANNEL, 0), "east", "127.0.0.1:9092", "", "braid.logs.live.1", 0, 0)


def log_range(partition: int, start: int, length: int) -> LogRange:
    return replace(WHOLE, lease=LeaseId(CHANNEL, partition), start=start, end=start + length)


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 1_000)), max_size=8), st.integers(0, 40))
def test_parts_cover_their_ranges_without_overlap(spans: list[tuple[int, int]], min_partitions: int) -> None:
    ranges = [log_range(number, start, length) for number, (start, length) in enumerate(spans)]
    parts = split(ranges, min_partitions)
    assert all(part.start < part.end for part in parts)
    for each in ranges:
        covered = [offset for part in parts if part.lease == each.lease for offset in range(part.start, part.end)]
        assert covered == list(range(each.start, each.end))
    total = sum(length for _, length in spans)
    assert len(parts) >= min(min_partitions, total)


def test_a_long_range_is_divided_more() -> None:
    parts = split([log_range(0, 0, 900), log_range(1, 0, 100)], 10)
    assert [part.lease.partition for part in parts].count(0) == 9


@given(st.dictionaries(st.integers(0, 20), st.integers(0, 10_000), max_size=12), st.integers(1, 20_000))
def test_shares_of_a_limit_add_up_and_exceed_no_backlog(backlogs: dict[int, int], rows_max: int) -> None:
    named = {LeaseId(CHANNEL, partition): backlog for partition, backlog in backlogs.items()}
    shares = share_limit(named, rows_max)
    assert sum(shares.values()) == min(rows_max, sum(backlogs.values()))
    assert all(0 < share <= named[lease] for lease, share in shares.items())


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=12))
def test_nobody_with_a_backlog_starves_while_the_limit_allows(backlogs: list[int]) -> None:
    named = {LeaseId(CHANNEL, partition): backlog for partition, backlog in enumerate(backlogs)}
    assert share_limit(named, 2 * len(named)).keys() == named.keys()


@given(st.lists(st.tuples(st.sampled_from(["east", "west"]), st.integers(1, 3_000)), max_size=12))
def test_small_ranges_share_a_task_and_clusters_stay_apart(lengths: list[tuple[str, int]]) -> None:
    ranges = [
        replace(log_range(number, 0, length), cluster=cluster) for number, (cluster, length) in enumerate(lengths)
    ]
    tasks = gather(ranges, 1_000)
    assert sorted((each for task in tasks for each in task), key=lambda each: each.lease) == ranges
    for task in tasks:
        assert len({each.cluster for each in task}) == 1
        assert sum(each.end for each in task[:-1]) < 1_000
    assert gather(ranges, 0) == [(each,) for task in gather(ranges, 0) for each in task]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.integers(1, 300)), max_size=12))
def test_small_ranges_of_one_topic_are_read_at_once(ranges: list[tuple[str, int, int]]) -> None:
    logs = [replace(log_range(partition, 0, length), topic=topic) for topic, partition, length in ranges]
    groups = beside(logs, 200)
    assert [each for group in groups for each in group] == logs
    for group in groups:
        assert len({each.topic for each in group}) == 1
        assert len({each.lease for each in group}) == len(group)
        assert len(group) == 1 or all(each.end <= 200 for each in group)
    for one, other in pairwise(groups):
        joined = (*one, other[0])
        assert (
            len({each.topic for each in joined}) > 1
            or len({each.lease for each in joined}) < len(joined)
            or any(each.end > 200 for each in joined)
        )
