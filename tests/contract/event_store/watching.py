"""The contract of watches: ordered, unique, without gaps, resumed, ended by compaction and by a restore."""

import asyncio

import pytest

from braid.kernel.errors import Compacted, Conflict
from braid.kernel.ports import EventBatch, EventStore, HistoryId, Leader, Snapshot
from tests.contract.event_store.harness import (
    INDEXER,
    LOGS,
    METRICS,
    EventStoreHarness,
    append_each,
    check_batches,
    contract,
    eventually,
    lead,
    take,
    watch_some,
    within,
)


def _texts(batches: list[EventBatch]) -> list[str]:
    return [event.decode() for batch in batches for event in batch.events]


@contract
async def a_watch_delivers_what_was_and_what_comes(harness: EventStoreHarness) -> None:
    store, watcher = await harness.open(), await harness.open()
    leader, _ = await lead(harness, store)
    first = await store.append(LOGS, [b"1", b"2"], 0, leader.fence)
    watching = watcher.watch("registry", 0)
    assert await take(watching, 1) == [EventBatch(LOGS, 1, (b"1", b"2"), first.revision)]
    waiting = asyncio.ensure_future(take(watching, 2))
    second = await store.append(LOGS, [b"3"], 2, leader.fence)
    third = await store.append(METRICS, [b"m"], 0, leader.fence)
    batches = await waiting
    assert [(b.history, b.first, list(b.events), b.revision) for b in batches] == [
        (LOGS, 3, [b"3"], second.revision),
        (METRICS, 1, [b"m"], third.revision),
    ]


@contract
async def a_watch_begins_right_after_its_revision(harness: EventStoreHarness) -> None:
    store = await harness.open()
    leader, _ = await lead(harness, store)
    await append_each(store, LOGS, leader, ["1", "2"])
    loaded = await store.load(LOGS)
    await append_each(store, LOGS, leader, ["3", "4"])
    batches = await watch_some(store, "registry", loaded.revision, 2)
    check_batches(batches, loaded.revision)
    assert _texts(batches) == ["3", "4"]
    assert _texts(await watch_some(store, "registry", batches[0].revision, 1)) == ["4"]


@contract
async def a_watch_sees_its_service_alone(harness: EventStoreHarness) -> None:
    store = await harness.open()
    registry, _ = await lead(harness, store)
    assigner, _ = await lead(harness, store, service="assigner")
    await append_each(store, LOGS, registry, ["r"])
    await append_each(store, INDEXER, assigner, ["a1", "a2"])
    await append_each(store, LOGS, registry, ["s"])
    assert _texts(await watch_some(store, "registry", 0, 2)) == ["r", "s"]
    assert _texts(await watch_some(store, "assigner", 0, 2)) == ["a1", "a2"]


async def _write(store: EventStore, history: HistoryId, leader: Leader, name: str, count: int) -> None:
    for number in range(count):
        while True:
            sequence = (await store.load(history)).sequence
            try:
                await store.append(history, [f"{name}-{number}".encode()], sequence, leader.fence)
            except Conflict:
                continue
            break


@contract
async def several_watchers_see_the_same_under_concurrent_writers(harness: EventStoreHarness) -> None:
    stores = [await harness.open() for _ in range(3)]
    leader, _ = await lead(harness, stores[0])
    watching = [asyncio.ensure_future(watch_some(store, "registry", 0, 60)) for store in stores]
    watching.append(asyncio.ensure_future(watch_some(stores[0], "registry", 0, 60)))
    writers = [(stores[0], LOGS, "a"), (stores[1], LOGS, "b"), (stores[2], METRICS, "c")]
    await asyncio.gather(*(_write(store, history, leader, name, 20) for store, history, name in writers))
    seen = await within(asyncio.gather(*watching))
    check_batches(seen[0])
    assert all(batches == seen[0] for batches in seen)
    for history in (LOGS, METRICS):
        events = [event for batch in seen[0] if batch.history == history for event in batch.events]
        assert events == list((await stores[0].load(history)).events)


@contract
async def a_watcher_that_leaves_takes_nothing_from_the_others(harness: EventStoreHarness) -> None:
    store, other = await harness.open(), await harness.open()
    leader, _ = await lead(harness, store)
    staying = other.watch("registry", 0)
    await append_each(store, LOGS, leader, ["1"])
    assert _texts(await take(staying, 1)) == ["1"]
    assert _texts(await watch_some(other, "registry", 0, 1)) == ["1"]
    leaving = asyncio.ensure_future(watch_some(other, "registry", 0, 9))
    await append_each(store, LOGS, leader, ["2"])
    leaving.cancel()
    await append_each(store, LOGS, leader, ["3"])
    assert _texts(await take(staying, 2)) == ["2", "3"]


@contract
async def an_interrupted_watch_resumes_without_gap_or_repeat(harness: EventStoreHarness) -> None:
    store, watcher = await harness.open(), await harness.open()
    leader, _ = await lead(harness, store)
    watching = asyncio.ensure_future(watch_some(watcher, "registry", 0, 9))
    await append_each(store, LOGS, leader, ["1", "2", "3"])
    await asyncio.sleep(0.1)
    await harness.interrupt(watcher)
    await append_each(store, LOGS, leader, ["4", "5", "6"])
    await harness.mend(watcher)
    await append_each(store, LOGS, leader, ["7", "8", "9"])
    batches = await within(watching, 20.0)
    check_batches(batches)
    assert _texts(batches) == [str(number) for number in range(1, 10)]


@contract
async def a_watch_from_a_forgotten_revision_is_refused(harness: EventStoreHarness) -> None:
    store = await harness.open()
    leader, _ = await lead(harness, store)
    await append_each(store, LOGS, leader, ["1", "2", "3"])
    await store.save_snapshot(LOGS, Snapshot(3, b"three"), leader.fence)
    await harness.compact()
    with pytest.raises(Compacted):
        await watch_some(store, "registry", leader.fence.revision, 1)
    loaded = await store.load(LOGS)
    assert (loaded.sequence, loaded.snapshot) == (3, Snapshot(3, b"three"))
    await append_each(store, LOGS, leader, ["4"])
    assert _texts(await watch_some(store, "registry", loaded.revision, 1)) == ["4"]


@contract
async def compaction_leaves_histories_whole(harness: EventStoreHarness) -> None:
    store = await harness.open()
    leader, _ = await lead(harness, store)
    await append_each(store, LOGS, leader, ["1", "2", "3"])
    await harness.compact()
    loaded = await store.load(LOGS)
    assert (loaded.first, list(loaded.events)) == (1, [b"1", b"2", b"3"])


@contract
async def a_watch_that_keeps_up_survives_snapshots_and_compaction(harness: EventStoreHarness) -> None:
    store, watcher = await harness.open(), await harness.open()
    leader, _ = await lead(harness, store)
    watching = watcher.watch("registry", 0)
    await append_each(store, LOGS, leader, ["1", "2"])
    assert _texts(await take(watching, 2)) == ["1", "2"]
    waiting = asyncio.ensure_future(take(watching, 1))
    await asyncio.sleep(0.1)
    await store.save_snapshot(LOGS, Snapshot(2, b"two"), leader.fence)
    await asyncio.sleep(0.1)
    await harness.compact()
    await append_each(store, LOGS, leader, ["3"])
    assert _texts(await waiting) == ["3"]


@contract
async def a_snapshot_shows_a_watcher_nothing_and_hides_nothing(harness: EventStoreHarness) -> None:
    store, watcher = await harness.open(), await harness.open()
    leader, _ = await lead(harness, store)
    watching = asyncio.ensure_future(watch_some(watcher, "registry", 0, 30))
    for number in range(1, 31):
        await append_each(store, LOGS, leader, [str(number)])
        if number % 7 == 0:
            await store.save_snapshot(LOGS, Snapshot(number, b"state"), leader.fence)
    batches = await within(watching)
    check_batches(batches)
    assert _texts(batches) == [str(number) for number in range(1, 31)]


@contract
async def a_restore_raises_the_incarnation_and_ends_watches(harness: EventStoreHarness) -> None:
    store, watcher = await harness.open(), await harness.open()
    leader, _ = await lead(harness, store)
    await append_each(store, LOGS, leader, ["1", "2"])
    before = await store.load(LOGS)
    assert await watcher.incarnation() == 1
    watching = watcher.watch("registry", 0)
    assert _texts(await take(watching, 2)) == ["1", "2"]
    waiting = asyncio.ensure_future(take(watching, 1))
    await asyncio.sleep(0.1)
    await harness.restore()
    with pytest.raises(Compacted):
        await waiting

    async def readable() -> bool:
        return await store.incarnation() == 2

    await eventually(readable)
    after = await store.load(LOGS)
    assert (list(after.events), after.revision > before.revision) == ([b"1", b"2"], True)
    with pytest.raises(Compacted):
        await watch_some(watcher, "registry", before.revision, 1)
