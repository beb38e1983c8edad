"""The newest events of many histories: those that all events in order would end with, from few reads."""

from collections.abc import Sequence
from random import Random

import pytest

from braid.api.mesh.v1.event_pb2 import EventFilter
from braid.kernel.limits.runtime import LOADS_AT_ONCE
from braid.kernel.ports import HistoryId, Loaded
from braid.runtime.histories import newest
from braid.runtime.histories.kinds import RecordedEvent
from braid.runtime.histories.newest import newest_events
from tests.support.counters import COUNTERS, Add
from tests.support.virtual_time import run_virtual
from tests.unit.runtime.histories.seats import Seat


async def grow(seat: Seat, name: str, steps: int = 1, actor: str = "tester") -> None:
    """Appends events to a counter, and lets some time pass."""
    await seat.lead_again()
    await seat.aggregates.execute(COUNTERS, name, Add(1, steps), actor=actor, request_id="")
    await seat.host.clock.sleep(0.003)


async def every_event(seat: Seat) -> Sequence[RecordedEvent]:
    """All events, newest first, read from each history by itself."""
    found = [each for history in seat.aggregates.histories() for each in await seat.aggregates.events(history)]
    return sorted(found, key=lambda each: (-each.context.now_ms, each.history, -each.sequence))


def counted(seat: Seat) -> list[HistoryId]:
    """The histories that are loaded from now on."""
    found: list[HistoryId] = []
    inner = seat.store.load

    async def load(history: HistoryId) -> Loaded:
        found.append(history)
        return await inner(history)

    seat.store.load = load  # type: ignore[method-assign]
    return found


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("most", [1, 7, 40, 1_000])
def test_they_are_what_all_events_end_with(seed: int, most: int) -> None:
    async def scenario() -> None:
        dice, seat = Random(seed), await (await Seat("a").follow()).lead()
        for _ in range(150):
            await grow(seat, f"c-{min(dice.randrange(60), dice.randrange(60)):02d}", dice.choice((1, 1, 1, 5)))
        expected = await every_event(seat)
        loaded = counted(seat)
        found = await newest_events(seat.aggregates, "", most)
        assert [(each.history, each.sequence) for each in found.events] == [
            (each.history, each.sequence) for each in expected[:most]
        ]
        assert not found.gaps and len(set(loaded)) <= most + 1
        assert found.since_ms == (0 if most >= len(expected) else expected[most].context.now_ms + 1)

    run_virtual(scenario())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("most", [1, 7, 40])
def test_up_to_a_moment_they_are_what_events_until_then_end_with(seed: int, most: int) -> None:
    async def scenario() -> None:
        dice, seat = Random(seed), await (await Seat("a").follow()).lead()
        for _ in range(150):
            await grow(seat, f"c-{min(dice.randrange(60), dice.randrange(60)):02d}", dice.choice((1, 1, 1, 5)))
        everything = await every_event(seat)
        for part in (0.0, 0.3, 0.6, 0.99):
            until_ms = everything[int(part * (len(everything) - 1))].context.now_ms
            expected = [each for each in everything if each.context.now_ms <= until_ms]
            found = await newest_events(seat.aggregates, "", most, until_ms)
            assert [(each.history, each.sequence) for each in found.events] == [
                (each.history, each.sequence) for each in expected[:most]
            ]

    run_virtual(scenario())


def test_few_histories_are_read_of_many() -> None:
    async def scenario() -> None:
        seat = await (await Seat("a").follow()).lead()
        for number in range(200):
            await grow(seat, f"c-{number:03d}", 3)
        loaded = counted(seat)
        found = await newest_events(seat.aggregates, "counter", 20)
        assert [each.history.id for each in found.events[:4]] == ["c-199", "c-199", "c-199", "c-198"]
        assert len(loaded) == LOADS_AT_ONCE
        assert (await newest_events(seat.aggregates, "counter/c-000", 20)).events[0].history.id == "c-000"

    run_virtual(scenario())


def test_a_history_that_ended_nobody_knows_when_is_read_first() -> None:
    async def scenario() -> None:
        seat = await (await Seat("a").follow()).lead()
        for number in range(40):
            await grow(seat, f"c-{number:03d}")
        hidden = HistoryId("registry", "counter", "c-039")
        known = seat.aggregates.pasts.last_ms
        seat.aggregates.pasts.last_ms = lambda history: 0 if history == hidden else known(history)  # type: ignore[method-assign]
        found = await newest_events(seat.aggregates, "", 2)
        assert [each.history.id for each in found.events] == ["c-039", "c-038"]

    run_virtual(scenario())


async def every_match(seat: Seat, most: int, wanted: EventFilter) -> Sequence[RecordedEvent]:
    """All events that match, found a page at a time."""
    found: list[RecordedEvent] = []
    until_ms = 0
    while True:
        page = await newest_events(seat.aggregates, "", most, until_ms, wanted)
        assert all(each.context.now_ms >= page.since_ms - 1 for each in page.events), "a moment at most is divided"
        found += [each for each in page.events if each.context.now_ms >= page.since_ms]
        if not page.since_ms:
            return found
        assert page.since_ms <= (until_ms or page.since_ms), "each page looks further back"
        until_ms = page.since_ms - 1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("most", [7, 40])
@pytest.mark.parametrize("searched", [10, 60, 1_000])
def test_pages_of_a_filter_have_each_match_once(
    seed: int, most: int, searched: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        dice, seat = Random(seed), await (await Seat("a").follow()).lead()
        for _ in range(200):
            actor = dice.choice(("ann", *["tester"] * 12))
            await grow(seat, f"c-{min(dice.randrange(40), dice.randrange(40)):02d}", dice.choice((1, 1, 1, 5)), actor)
        everything = await every_event(seat)
        begun_ms = everything[len(everything) // 2].context.now_ms
        monkeypatch.setattr(newest, "EVENTS_SEARCHED_MAX", searched)
        for wanted in (EventFilter(actor="ann"), EventFilter(actor="ann", since_ms=begun_ms), EventFilter()):
            expected = [
                each
                for each in everything
                if wanted.actor in ("", each.context.actor) and each.context.now_ms >= wanted.since_ms
            ]
            found = await every_match(seat, most, wanted)
            assert [(each.history, each.sequence) for each in found] == [
                (each.history, each.sequence) for each in expected
            ]

    run_virtual(scenario())


def test_a_match_behind_many_others_is_found_in_steps() -> None:
    async def scenario() -> None:
        seat = await (await Seat("a").follow()).lead()
        await grow(seat, "z", actor="ann")
        for number in range(60):
            await grow(seat, f"c-{number:02d}", 400)
        await grow(seat, "a", actor="ann")
        loaded = counted(seat)
        first = await newest_events(seat.aggregates, "", 500, wanted=EventFilter(actor="ann"))
        assert [each.history.id for each in first.events] == ["a"] and first.since_ms > 0
        assert len(set(loaded)) == LOADS_AT_ONCE, "an answer looks at a bounded number of events"
        found = await every_match(seat, 500, EventFilter(actor="ann"))
        assert [each.history.id for each in found] == ["a", "z"]

    run_virtual(scenario())
