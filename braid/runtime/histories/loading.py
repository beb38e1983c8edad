"""Loads the histories of a service, some at a time: other tasks get their turn between them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from braid.kernel.limits.runtime import HEADS_AT_ONCE, LOADS_AT_ONCE
from braid.kernel.ports import Clock, EventStore, HistoryId, Loaded
from braid.kernel.timing.slices import Slices

Take = Callable[[HistoryId, Loaded], None]


async def load_all(store: EventStore, service: str, clock: Clock, take: Take) -> int:
    """Hands every history of a service to `take`, in order of their names.

    What was handed over is not kept here: 45,000 histories take hundreds of megabytes.

    Returns:
        The revision at which the list of histories was complete. What was appended later may be missing.

    Raises:
        CorruptHistory: a history cannot be read, by the store or by `take`.
        Unavailable: the store does not answer.
    """
    histories, revision = await store.histories(service)
    slices = Slices(clock)
    async for history, loaded in _loads(store, histories):
        take(history, loaded)
        await slices.turn()
    return revision


async def load_ahead(
    store: EventStore, service: str, known: Mapping[HistoryId, int]
) -> tuple[Sequence[tuple[HistoryId, Loaded]], int]:
    """Loads the histories that go on beyond what is known; returns them, and the revision as `load_all` does.

    Args:
        store: The event store.
        service: The service's name.
        known: The last known sequence of each history; one that is missing is not known at all.

    Raises:
        CorruptHistory: one of them cannot be read.
        Unavailable: the store does not answer.
    """
    histories, revision = await store.histories(service)
    ahead: list[HistoryId] = []
    for start in range(0, len(histories), HEADS_AT_ONCE):
        some = histories[start : start + HEADS_AT_ONCE]
        heads = zip(some, await store.heads(some), strict=True)
        ahead += [history for history, head in heads if head > known.get(history, 0)]
    return [each async for each in _loads(store, ahead)], revision


async def _loads(store: EventStore, histories: Sequence[HistoryId]) -> AsyncIterator[tuple[HistoryId, Loaded]]:
    for start in range(0, len(histories), LOADS_AT_ONCE):
        some = histories[start : start + LOADS_AT_ONCE]
        for pair in zip(some, await asyncio.gather(*map(store.load, some)), strict=True):
            yield pair
