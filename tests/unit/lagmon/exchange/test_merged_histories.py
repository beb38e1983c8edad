"""Histories of several replicas are put together alike by each of them."""

from hypothesis import given
from hypothesis import strategies as st

from braid.api.lagmon.v1 import lag_history_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from services.lagmon.exchange.merged_histories import kept_since_ms, merged_page

Rows = dict[int, tuple[float, int]]  # by time: how long the lag was known, and records

rows = st.dictionaries(st.integers(0, 5), st.tuples(st.sampled_from([0.0, 4.0, 10.0]), st.integers(0, 3)), max_size=5)
replicas = st.dictionaries(
    st.sampled_from(["lagmon-0", "lagmon-1", "lagmon-2"]),
    st.dictionaries(st.sampled_from("abcd"), rows, max_size=4),
    min_size=1,
)


def page(kept: dict[str, Rows], after: str, size: int) -> api.ListLagHistoryResponse:
    """One replica's page, as it answers."""
    groups = sorted(group for group in kept if group > after)
    histories = [
        lag_history_pb2.LagHistory(
            group=group,
            stream="s",
            lane="live",
            steps=[
                lag_history_pb2.LagStep(time_ms=time_ms, known_seconds=known, lag_records=records)
                for time_ms, (known, records) in sorted(kept[group].items())
            ],
        )
        for group in groups[:size]
    ]
    return api.ListLagHistoryResponse(histories=histories, next_page_token="more" if len(groups) > size else "")


def pages(kept: dict[str, dict[str, Rows]], size: int) -> list[lag_history_pb2.LagHistory]:
    """All pages over replicas, one after the other."""
    found: list[lag_history_pb2.LagHistory] = []
    more = True
    while more:
        after = found[-1].group if found else ""
        some, more = merged_page({name: page(each, after, size) for name, each in kept.items()}, size)
        assert len(some) == size or not more
        found += some
    return found


@given(replicas, st.integers(1, 3))
def test_every_row_of_any_replica_is_in_a_page_once(kept: dict[str, dict[str, Rows]], size: int) -> None:
    found = pages(kept, size)
    assert [each.group for each in found] == sorted({group for each in kept.values() for group in each})
    for history in found:
        theirs = [each[history.group] for each in kept.values() if history.group in each]
        assert [step.time_ms for step in history.steps] == sorted({time_ms for each in theirs for time_ms in each})
        for step in history.steps:
            known = [each[step.time_ms] for each in theirs if step.time_ms in each]
            assert (step.known_seconds, step.lag_records) in known
            assert step.known_seconds == max(seconds for seconds, _ in known)


@given(replicas, st.integers(1, 3))
def test_it_makes_no_difference_who_puts_them_together(kept: dict[str, dict[str, Rows]], size: int) -> None:
    assert pages(kept, size) == pages(dict(reversed(kept.items())), size) == pages(kept, 100)


def test_lag_is_kept_since_the_first_replica_kept_it() -> None:
    answers = [api.ListLagHistoryResponse(kept_since_ms=since) for since in (0, 70, 50)]
    assert kept_since_ms(answers) == 50
    assert kept_since_ms(answers[:1]) == 0
