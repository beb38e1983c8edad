"""A counter's past, read from the store alone: which events a moment has, and what is told where they are gone."""

import pytest

from braid.kernel.errors import HistoryHole
from braid.kernel.limits.store import SNAPSHOT_EVERY_EVENTS
from braid.kernel.ports import HistoryId
from braid.runtime.archive.kept import count_until
from braid.runtime.archive.line import Gap
from tests.support.counters import COUNTERS
from tests.support.virtual_time import run_virtual
from tests.unit.runtime.histories.seats import Seat

TOTAL = HistoryId("registry", "counter", "total")


@pytest.mark.parametrize(
    ("times", "at_ms", "count"),
    [
        ([], 5, 0),
        ([1, 2, 3], 0, 0),
        ([1, 2, 3], 2, 2),
        ([1, 2, 3], 9, 3),
        ([1, 90, 91, 2, 3], 1, 1),  # a clock that was fast for a while: what came before it, as order has it
        ([1, 90, 91, 2, 3], 2, 4),  # and what was appended by then, whatever time it bears
        ([1, 90, 91, 2, 3], 95, 5),
    ],
)
def test_a_moment_ends_with_the_last_event_that_is_not_later(times: list[int], at_ms: int, count: int) -> None:
    assert count_until(times, at_ms) == count


def test_a_past_is_folded_from_the_snapshot_or_refused() -> None:
    async def scenario() -> None:
        seat = await (await Seat("a").follow()).lead()
        moments: list[tuple[int, int]] = []
        for number in range(3 * SNAPSHOT_EVERY_EVENTS):
            await seat.lead_again()
            await seat.add(number % 3)
            moments.append((seat.host.clock.now_ms(), seat.total))
            await seat.host.clock.sleep(0.002)
        events = seat.aggregates.sequence(COUNTERS, "total")
        kept_from = (await seat.aggregates.past(COUNTERS, "total")).kept_from
        assert kept_from > 1
        told = 0
        for at_ms, value in moments[::20]:
            try:
                past = await seat.aggregates.past(COUNTERS, "total", at_ms)
            except HistoryHole as error:
                assert error.metadata["last"] == str(kept_from - 1)
                assert not told, "what is newer is kept too"
                continue
            assert past.state.value == value
            assert past.before.added == past.kept_from - 1 == kept_from - 1
            told += 1
        assert told
        assert (await seat.aggregates.past(COUNTERS, "total", 1 << 60)).state.added == events
        assert (await seat.aggregates.past(COUNTERS, "other", moments[0][0])).state.added == 0

    run_virtual(scenario())


def test_lists_page_and_tell_what_is_missing() -> None:
    async def scenario() -> None:
        seat = await (await Seat("a").follow()).lead()
        for _ in range(3 * SNAPSHOT_EVERY_EVENTS):
            await seat.lead_again()
            await seat.add(1)
        await seat.host.clock.sleep(0.1)  # the last snapshot is saved
        kept_from = (await seat.aggregates.past(COUNTERS, "total")).kept_from
        end = 3 * SNAPSHOT_EVERY_EVENTS
        whole = await seat.aggregates.listed(TOTAL, 0, 10_000)
        assert [each.sequence for each in whole.events] == list(range(kept_from, end + 1))
        assert [(each.history, each.first, each.last) for each in whole.gaps] == [(TOTAL, 1, kept_from - 1)]
        some = await seat.aggregates.listed(TOTAL, kept_from + 5, 3)
        assert [each.sequence for each in some.events] == [kept_from + 5, kept_from + 6, kept_from + 7]
        assert some.gaps == []
        latest = await seat.aggregates.listed(TOTAL, 0, 10_000, latest=4)
        assert [each.sequence for each in latest.events] == [end - 3, end - 2, end - 1, end]
        assert latest.gaps == []
        early = await seat.aggregates.listed(TOTAL, 0, 10_000, until_ms=1, latest=4)
        assert early.events == []
        assert isinstance(early.gaps[0], Gap)

    run_virtual(scenario())
