"""Loading all histories of a service: others get their turn, and a view changes at once or not at all."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Final, cast

from braid.kernel.limits.runtime import HEADS_AT_ONCE, LOADS_AT_ONCE, SLICE_SECONDS
from braid.kernel.ports import HistoryId, Loaded
from braid.runtime.histories.kinds import Reloaded
from braid.runtime.histories.loading import load_ahead, load_all
from tests.support.counters import COUNTERS, Add
from tests.support.metered_clock import MeteredClock
from tests.unit.runtime.histories.seats import Seat, run, settle, two_seats

HISTORIES: Final = [HistoryId("registry", "counter", f"c{number:04d}") for number in range(2_002)]
FOLD_SECONDS: Final = 0.0006


def store(loading: list[int]) -> Any:
    """A store with these histories, of which every tenth has two events and the others one; notes loads at once."""

    loaded: list[HistoryId] = []

    async def histories(service: str) -> tuple[Sequence[HistoryId], int]:
        return HISTORIES, 77

    async def load(history: HistoryId) -> Loaded:
        loading[0] += 1
        loading[1] = max(loading)
        await asyncio.sleep(0)
        loading[0] -= 1
        loaded.append(history)
        return cast("Loaded", SimpleNamespace(sequence=head(history)))

    async def heads(some: Sequence[HistoryId]) -> Sequence[int]:
        assert len(some) <= HEADS_AT_ONCE
        return [head(each) for each in some]

    return SimpleNamespace(histories=histories, load=load, heads=heads, loaded=loaded)


def head(history: HistoryId) -> int:
    return 1 + (HISTORIES.index(history) % 10 == 0)


def test_many_histories_are_folded_with_turns_for_others() -> None:
    clock, taken, loading = MeteredClock(), list[HistoryId](), [0, 0]

    def take(history: HistoryId, loaded: Loaded) -> None:
        taken.append(history)
        clock.work(FOLD_SECONDS)

    revision = asyncio.run(load_all(store(loading), "registry", clock, take))
    assert (revision, taken) == (77, HISTORIES)
    assert loading[1] == LOADS_AT_ONCE
    assert clock.longest <= SLICE_SECONDS + LOADS_AT_ONCE * FOLD_SECONDS


def test_of_known_histories_only_those_that_go_on_are_read() -> None:
    known, reading = dict.fromkeys(HISTORIES[:-1], 1), store([0, 0])
    ahead, revision = asyncio.run(load_ahead(reading, "registry", known))
    assert revision == 77
    assert [history for history, _ in ahead] == reading.loaded == [*HISTORIES[::10], HISTORIES[-1]]


def test_readers_see_the_old_view_while_another_is_loaded() -> None:
    async def scenario() -> None:
        leader, reader = await two_seats()
        names = [f"c{number:02d}" for number in range(3 * LOADS_AT_ONCE)]
        await add_to_all(leader, names)
        await settle(reader)
        reader.store.disconnect()
        await add_to_all(leader, names)
        leader.store.server.compact()
        reader.store.latency = lambda operation: 0.01 if operation == "load" else 0.0
        reader.heard.clear()
        reader.store.reconnect()
        seen = set[tuple[int, ...]]()
        while not reader.heard:
            seen.add(tuple(reader.aggregates.state(COUNTERS, name).value for name in names))
            await reader.host.clock.sleep(0.001)
        assert [type(each) for each in reader.heard] == [Reloaded]
        assert seen == {(1,) * len(names)}
        assert {reader.aggregates.state(COUNTERS, name).value for name in names} == {2}

    run(scenario())


async def add_to_all(leader: Seat, names: Sequence[str]) -> None:
    """Adds one to each of these counters."""
    for name in names:
        await leader.aggregates.execute(COUNTERS, name, Add(1), actor="x")
