"""A counter's past, read from the store alone: which events a moment has, and what is told where they are gone."""

from collections.abc import Sequence
from unittest.mock import patch

import pytest

from braid.kernel.errors import HistoryHole
from braid.kernel.limits.store import SNAPSHOT_EVERY_EVENTS
from braid.kernel.ports import HistoryId, Loaded
from braid.runtime.archive.kept import count_until
from braid.runtime.archive.line import Gap
from braid.runtime.histories import past_states
from braid.runtime.histories.past_states import states_at, states_page, whole_states_at
from tests.support.counters import COUNTERS, Add
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


def loads(seat: Seat) -> list[HistoryId]:
    """The histories that are read whole from the store from now on."""
    found: list[HistoryId] = []
    inner = seat.store.load_many

    async def load_many(histories: Sequence[HistoryId]) -> Sequence[Loaded]:
        found.extend(histories)
        return await inner(histories)

    seat.store.load_many = load_many  # type: ignore[method-assign]
    return found


async def grow(seat: Seat, *names: str) -> int:
    """Adds one to counters, and returns a moment after it and before whatever comes next."""
    for name in names:
        await seat.lead_again()
        await seat.aggregates.execute(COUNTERS, name, Add(1, 1), actor="tester", request_id="")
    at_ms = seat.host.clock.now_ms()
    await seat.host.clock.sleep(0.01)
    return at_ms


def test_what_did_not_change_since_is_not_read_again() -> None:
    async def scenario() -> None:
        seat = await (await Seat("a").follow()).lead()
        names = [f"c-{number:03d}" for number in range(120)]
        before_ms = await grow(seat, *names)
        later_ms = await grow(seat, "c-007", "c-050", "c-new")
        read = loads(seat)
        found = await states_at(seat.aggregates, COUNTERS, later_ms)
        grown = {name: 1 + (name in ("c-007", "c-050")) for name in [*names, "c-new"]}
        assert {id: each.value for id, each in found.states.items()} == grown and not read
        found = await states_at(seat.aggregates, COUNTERS, before_ms)
        assert [history.id for history in read] == ["c-007", "c-050", "c-new"]
        assert {id: each.value for id, each in found.states.items()} == {**dict.fromkeys(names, 1), "c-new": 0}
        assert list(found.states) == sorted(found.states) and not found.gaps

    run_virtual(scenario())


def test_a_replica_that_is_behind_reads_what_it_does_not_know() -> None:
    async def scenario() -> None:
        seat = await (await Seat("a").follow()).lead()
        await grow(seat, "one", "two")
        follower = Seat("b", seat.store.server)
        following = follower.host.tasks.spawn(follower.aggregates.follow(), "follow")
        await follower.aggregates.loaded()
        following.cancel()
        await following.ended()
        at_ms = await grow(seat, "two")
        assert follower.aggregates.state(COUNTERS, "two").value == 1, "it is behind"
        read = loads(follower)
        found = await states_at(follower.aggregates, COUNTERS, at_ms)
        assert {id: each.value for id, each in found.states.items()} == {"one": 1, "two": 2}
        assert [history.id for history in read] == ["two"]

    run_virtual(scenario())


def test_a_page_of_the_past_reads_a_bounded_number_of_histories() -> None:
    async def scenario() -> None:
        seat = await (await Seat("a").follow()).lead()
        names = [f"c-{number:03d}" for number in range(30)]
        before_ms = await grow(seat, *names)
        await grow(seat, *names[5:])
        read = loads(seat)
        found: dict[str, int] = {}
        sizes, token = [], ""
        with patch.object(past_states, "PAST_LIST_HISTORIES", 8), patch.object(past_states, "PAST_LOADS_TOGETHER", 3):
            while True:
                page = await states_page(seat.aggregates, COUNTERS, before_ms, 0, token)
                found |= {id: each.value for id, each in page.states.items()}
                sizes.append(len(page.states))
                token = page.next_page_token
                if not token:
                    break
        assert sizes == [13, 8, 8, 1] and found == dict.fromkeys(names, 1)
        assert [history.id for history in read] == names[5:]

    run_virtual(scenario())


def test_a_hole_is_raised_where_all_states_are_needed() -> None:
    async def scenario() -> None:
        seat = await (await Seat("a").follow()).lead()
        await grow(seat, "quiet")
        early_ms = await grow(seat, "total")
        for _ in range(3 * SNAPSHOT_EVERY_EVENTS):
            await grow(seat, "total")
        found = await states_at(seat.aggregates, COUNTERS, early_ms)
        assert list(found.states) == ["quiet"]
        assert [each.history for each in found.gaps] == ["registry/counter/total"]
        with pytest.raises(HistoryHole, match="registry/counter/total are not kept"):
            await whole_states_at(seat.aggregates, COUNTERS, early_ms)
        whole = await whole_states_at(seat.aggregates, COUNTERS, seat.host.clock.now_ms())
        assert {id: each.value for id, each in whole.items()} == {"quiet": 1, "total": 3 * SNAPSHOT_EVERY_EVENTS + 1}

    run_virtual(scenario())
