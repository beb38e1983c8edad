"""Puts together what several replicas keep of the same histories, alike at each of them. Pure.

Each replica keeps what it saw. Of a step that several of them kept, the row counts that knew most of it.
"""

from collections.abc import Collection, Mapping

from braid.api.lagmon.v1 import lag_history_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from services.lagmon.kept.rows import SeriesKey

_Kept = Mapping[str, lag_history_pb2.LagHistory]  # by replica


def merged_page(
    answers: Mapping[str, api.ListLagHistoryResponse], size: int
) -> tuple[list[lag_history_pb2.LagHistory], bool]:
    """Returns the first histories of several replicas' pages of that size, and whether others follow them.

    Args:
        answers: By replica; each begins after the same history, and has rows of the same length.
        size: Histories of the page.
    """
    found: dict[SeriesKey, dict[str, lag_history_pb2.LagHistory]] = {}
    for instance, answer in answers.items():
        for history in answer.histories:
            found.setdefault(SeriesKey(history.group, history.stream, history.lane), {})[instance] = history
    page = [_merged(found[key]) for key in sorted(found)[:size]]
    return page, len(found) > size or any(answer.next_page_token for answer in answers.values())


def kept_since_ms(answers: Collection[api.ListLagHistoryResponse]) -> int:
    """Returns since when any of the replicas has rows; 0 for never."""
    return min((answer.kept_since_ms for answer in answers if answer.kept_since_ms), default=0)


def _merged(kept: _Kept) -> lag_history_pb2.LagHistory:
    with_rows = {instance: history for instance, history in kept.items() if history.steps}
    first = next(iter((with_rows or kept).values()))
    if len(with_rows) < 2:
        return first
    best: dict[int, tuple[tuple[float, bool, str], lag_history_pb2.LagStep]] = {}
    for instance, history in with_rows.items():
        for step in history.steps:
            worth = (step.known_seconds, not step.stale, instance)
            if step.time_ms not in best or worth > best[step.time_ms][0]:
                best[step.time_ms] = worth, step
    steps = [best[time_ms][1] for time_ms in sorted(best)]
    return lag_history_pb2.LagHistory(group=first.group, stream=first.stream, lane=first.lane, steps=steps)
