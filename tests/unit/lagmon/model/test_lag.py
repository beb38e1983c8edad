"""Rows: sums, order, pages, and what changed between two tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.kernel.errors import Invalid
from braid.kernel.limits.names import PAGE_SIZE_MAX
from services.lagmon.codec import LAG_TOKENS, read_detail, read_filter
from services.lagmon.model.lag import Detail, Filter, LagRow, RowKey, Source, after, changes, summed
from services.lagmon.policy import Commit


def row(
    group: str = "g",
    cluster: str = "east",
    partition: int = 0,
    *,
    stream: str = "logs",
    topic: str = "braid.logs.live.1",
    records: int = 0,
    seconds: float = 0.0,
    source: Source = Source.DONE,
    stale: bool = False,
    as_of_ms: int = 1_000,
    foreign: bool = False,
) -> LagRow:
    lane = "live" if stream else ""
    key = RowKey(group, stream, lane, cluster, topic, partition)
    return LagRow(key, 1, records, seconds, source, foreign, stale, as_of_ms, 7, 9, 55, Commit(7, "", 55))


def test_a_lanes_row_sums_clusters_and_names_the_weakest_source() -> None:
    rows = [
        row(partition=0, records=3, seconds=4.0, source=Source.ENVELOPE),
        row(partition=1),
        row(cluster="west", records=2, seconds=9.0, source=Source.UNKNOWN, stale=True, as_of_ms=400),
    ]
    (lane,) = summed(rows, Detail.LANE)
    assert lane.key == RowKey("g", "logs", "live", "", "", -1)
    assert (lane.partitions, lane.lag_records, lane.lag_seconds, lane.source) == (3, 5, 9.0, Source.UNKNOWN)
    assert (lane.stale, lane.as_of_ms, lane.commit_time_ms) == (True, 400, 55)
    assert (lane.committed_offset, lane.end_offset, lane.holder) == (-1, -1, None)
    assert [each.key.cluster for each in summed(rows, Detail.CHANNEL)] == ["east", "west"]
    assert summed(rows, Detail.PARTITION) == sorted(rows, key=lambda each: each.key)


def test_what_belongs_to_no_stream_stays_divided_by_topic() -> None:
    rows = [row(stream="", topic=topic, foreign=True) for topic in ("b", "a")]
    assert [each.key for each in summed(rows, Detail.LANE)] == [
        RowKey("g", "", "", "east", "a", -1),
        RowKey("g", "", "", "east", "b", -1),
    ]


def test_filters() -> None:
    ours, foreign = row(), row("tool", "west", stream="", foreign=True)
    for scope, matching in [
        (Filter(), [ours, foreign]),
        (Filter(group="g"), [ours]),
        (Filter(stream="logs", lane="live"), [ours]),
        (Filter(lane="bulk"), []),
        (Filter(cluster="west"), [foreign]),
        (Filter(exclude_foreign=True), [ours]),
        (Filter(groups=frozenset(("tool", "other"))), [foreign]),
    ]:
        assert [each for each in (ours, foreign) if scope.matches(each)] == matching


@given(st.sets(st.tuples(st.sampled_from("abc"), st.integers(0, 12))), st.integers(1, 5))
def test_pages_are_all_rows_in_order(wanted: set[tuple[str, int]], size: int) -> None:
    rows = summed([row(group, partition=partition) for group, partition in wanted], Detail.PARTITION)
    paged: list[LagRow] = []
    last: RowKey | None = None
    while True:
        page, behind = after(rows, last, size)
        paged += page
        last = LAG_TOKENS.read(LAG_TOKENS.write(behind))
        assert last == behind
        if last is None:
            break
    assert paged == rows


def test_an_unknown_detail_is_refused_and_none_means_lanes() -> None:
    assert read_detail(0) is Detail.LANE
    with pytest.raises(Invalid) as refused:
        read_detail(9)
    assert refused.value.field == "detail" and "LAG_DETAIL_PARTITION" in refused.value.remedy


def test_a_filter_names_as_many_groups_as_a_page_has_rows() -> None:
    names = [f"g{number}" for number in range(PAGE_SIZE_MAX)]
    assert read_filter(api.LagFilter(groups=names)) == Filter(groups=frozenset(names))
    with pytest.raises(Invalid, match="1001 groups"):
        read_filter(api.LagFilter(groups=[*names, "one-more"]))


def test_only_what_differs_is_a_change() -> None:
    told, changed, gone = changes({}, [row(partition=0), row(partition=1)])
    assert (len(changed), gone) == (2, [])
    told, changed, gone = changes(told, [row(partition=0, as_of_ms=2_000), row(partition=1, records=1)])
    assert [each.key.partition for each in changed] == [1] and gone == []
    told, changed, gone = changes(told, [row(partition=1, records=1)])
    assert changed == [] and [key.partition for key in gone] == [0]
    assert list(told) == [row(partition=1).key]
