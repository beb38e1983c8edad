"""The contract of histories: append, conflict, fence, bounds, snapshots, contiguity, unknown outcomes."""

import asyncio
from dataclasses import replace

import pytest

from braid.kernel.errors import Conflict, CorruptHistory, Exhausted, Fenced, Invalid, OutcomeUnknown, StoreUnavailable
from braid.kernel.limits.store import APPEND_BYTES_MAX, APPEND_EVENTS_MAX
from braid.kernel.ports import Appended, EventStore, Fence, HistoryId, Leader, Snapshot
from tests.contract.event_store.harness import (
    INDEXER,
    LOGS,
    METRICS,
    EventStoreHarness,
    append_each,
    contract,
    lead,
    texts,
)


@contract
async def a_history_begins_empty(harness: EventStoreHarness) -> None:
    loaded = await (await harness.open()).load(LOGS)
    assert (loaded.snapshot, loaded.first, list(loaded.events), loaded.sequence) == (None, 1, [], 0)


@contract
async def appends_are_numbered_and_read_back(harness: EventStoreHarness) -> None:
    store = await harness.open()
    leader, _ = await lead(harness, store)
    first = await store.append(LOGS, [b"one", b"two"], 0, leader.fence)
    second = await store.append(LOGS, [b"", b"\x00\xff" * 100], 2, leader.fence)
    loaded = await (await harness.open()).load(LOGS)
    assert (first.sequence, second.sequence, loaded.sequence, loaded.first) == (2, 4, 4, 1)
    assert list(loaded.events) == [b"one", b"two", b"", b"\x00\xff" * 100]
    assert leader.fence.revision < first.revision < second.revision <= loaded.revision


@contract
async def many_histories_are_read_as_one_by_one(harness: EventStoreHarness) -> None:
    store = await harness.open()
    leader, _ = await lead(harness, store)
    histories = [HistoryId("registry", "stream", f"s-{number:03d}") for number in range(40)]
    for number, history in enumerate(histories[:20]):
        for sequence in range(number % 7):  # none, some, and more than a store reads of one at first
            await store.append(history, [f"{number}.{sequence}".encode()] * 2, 2 * sequence, leader.fence)
    await store.save_snapshot(histories[6], Snapshot(4, b"state" * 1_000), leader.fence)
    alone = [await store.load(each) for each in histories]
    together = await (await harness.open()).load_many(histories)
    assert [replace(each, revision=0) for each in together] == [replace(each, revision=0) for each in alone]
    assert together[6].snapshot == Snapshot(4, b"state" * 1_000)
    assert list(await store.heads(histories)) == [each.sequence for each in alone]
    assert not await store.load_many([]) and not await store.heads([])


@contract
async def heads_of_very_many_histories_are_those_of_now(harness: EventStoreHarness) -> None:
    reading, writing = await harness.open(), await harness.open()
    leader, _ = await lead(harness, writing)
    histories = [HistoryId("registry", "stream", f"s-{number:03d}") for number in range(250)]
    assert not any(await reading.heads(histories))
    for history in (histories[0], histories[120], histories[249]):
        await writing.append(history, [b"one"], 0, leader.fence)
        assert (await reading.heads(histories))[histories.index(history)] == 1
    assert sum(await reading.heads(histories)) == 3


@contract
async def histories_are_listed_by_service_in_order(harness: EventStoreHarness) -> None:
    store = await harness.open()
    registry, _ = await lead(harness, store)
    assigner, _ = await lead(harness, store, service="assigner")
    await store.append(METRICS, [b"m"], 0, registry.fence)
    await store.append(LOGS, [b"l"], 0, registry.fence)
    appended = await store.append(INDEXER, [b"i"], 0, assigner.fence)
    found, revision = await store.histories("registry")
    assert (list(found), revision >= appended.revision) == ([LOGS, METRICS], True)
    assert list((await store.histories("lagmon"))[0]) == []


@contract
async def a_conflict_writes_nothing(harness: EventStoreHarness) -> None:
    store = await harness.open()
    leader, _ = await lead(harness, store)
    await store.append(LOGS, [b"one"], 0, leader.fence)
    for stale in (0, 2):
        with pytest.raises(Conflict):
            await store.append(LOGS, [b"two"], stale, leader.fence)
    assert await texts(store, LOGS) == ["one"]


@contract
async def a_fence_that_nobody_holds_is_refused(harness: EventStoreHarness) -> None:
    store = await harness.open()
    with pytest.raises(Fenced):
        await store.append(LOGS, [b"one"], 0, Fence("registry", 1))
    leader, _ = await lead(harness, store)
    for wrong in (leader.fence.revision - 1, leader.fence.revision + 1):
        with pytest.raises(Fenced):
            await store.append(LOGS, [b"one"], 0, Fence("registry", wrong))
    with pytest.raises(Fenced):
        await store.append(LOGS, [b"one"], 0, Fence("assigner", leader.fence.revision))
    assert await texts(store, LOGS) == []


@contract
async def a_stale_leader_learns_that_it_is_fenced_not_that_it_conflicts(harness: EventStoreHarness) -> None:
    old_store, new_store = await harness.open(), await harness.open()
    old, session = await lead(harness, old_store, "old")
    await append_each(old_store, LOGS, old, ["one"])
    await session.close()
    new, _ = await lead(harness, new_store, "new")
    await append_each(new_store, LOGS, new, ["two"])
    for expected in (1, 2):
        with pytest.raises(Fenced):
            await old_store.append(LOGS, [b"stale"], expected, old.fence)
    assert await texts(old_store, LOGS) == ["one", "two"]


@contract
async def a_batch_over_the_bound_is_refused_whole(harness: EventStoreHarness) -> None:
    store = await harness.open()
    leader, _ = await lead(harness, store)
    with pytest.raises(Exhausted):
        await store.append(LOGS, [b"x"] * (APPEND_EVENTS_MAX + 1), 0, leader.fence)
    with pytest.raises(Exhausted):
        await store.append(LOGS, [b"x" * APPEND_BYTES_MAX, b"x"], 0, leader.fence)
    with pytest.raises(Invalid):
        await store.append(LOGS, [], 0, leader.fence)
    assert (await store.load(LOGS)).sequence == 0


@contract
async def a_batch_at_the_bound_is_kept(harness: EventStoreHarness) -> None:
    store = await harness.open()
    leader, _ = await lead(harness, store)
    await store.append(LOGS, [b"x"] * APPEND_EVENTS_MAX, 0, leader.fence)
    await store.append(LOGS, [b"y" * APPEND_BYTES_MAX], APPEND_EVENTS_MAX, leader.fence)
    loaded = await store.load(LOGS)
    assert loaded.sequence == APPEND_EVENTS_MAX + 1
    assert loaded.events[-1] == b"y" * APPEND_BYTES_MAX


@contract
async def of_appends_at_one_place_exactly_one_wins(harness: EventStoreHarness) -> None:
    stores = [await harness.open() for _ in range(3)]
    leader, _ = await lead(harness, stores[0])
    racing = [stores[n % 3].append(LOGS, [b"%d" % n], 0, leader.fence) for n in range(9)]
    outcomes = await asyncio.gather(*racing, return_exceptions=True)
    assert sum(isinstance(outcome, Appended) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 8
    winner = next(n for n, outcome in enumerate(outcomes) if isinstance(outcome, Appended))
    assert await texts(stores[0], LOGS) == [str(winner)]


async def _append_until_done(store: EventStore, history: HistoryId, leader: Leader, names: list[str]) -> None:
    for name in names:
        while True:
            sequence = (await store.load(history)).sequence
            try:
                await store.append(history, [name.encode()], sequence, leader.fence)
            except Conflict:
                continue
            break


@contract
async def writers_that_reload_on_conflict_lose_and_double_nothing(harness: EventStoreHarness) -> None:
    stores = [await harness.open() for _ in range(3)]
    leader, _ = await lead(harness, stores[0])
    names = [[f"{writer}-{n}" for n in range(15)] for writer in range(3)]
    writing = [_append_until_done(store, LOGS, leader, mine) for store, mine in zip(stores, names, strict=True)]
    await asyncio.gather(*writing)
    appended = await texts(stores[0], LOGS)
    assert sorted(appended) == sorted(name for mine in names for name in mine)
    for writer, mine in enumerate(names):
        assert [name for name in appended if name.startswith(f"{writer}-")] == mine


# --- snapshots


def _number(text: bytes) -> int:
    return int(text)


async def _count_with_snapshots(store: EventStore, leader: Leader, until: int) -> None:
    sequence = 0
    while sequence < until:
        events = [b"%d" % number for number in range(sequence + 1, sequence + 4)]
        sequence = (await store.append(LOGS, events, sequence, leader.fence)).sequence
        if sequence % 4 == 0:
            await store.save_snapshot(LOGS, Snapshot(sequence - 1, b"%d" % (sequence - 1)), leader.fence)


@contract
async def snapshot_and_tail_are_of_one_moment(harness: EventStoreHarness) -> None:
    writer, reader = await harness.open(), await harness.open()
    leader, _ = await lead(harness, writer)
    writing = asyncio.ensure_future(_count_with_snapshots(writer, leader, 90))
    seen: list[int] = []
    while not writing.done() or seen[-1] < 90:
        loaded = await reader.load(LOGS)
        start = _number(loaded.snapshot.data) if loaded.snapshot else 0
        assert loaded.first == start + 1
        assert [_number(event) for event in loaded.events] == list(range(start + 1, loaded.sequence + 1))
        seen.append(loaded.sequence)
    await writing
    assert seen == sorted(seen)
    loaded = await reader.load(LOGS)
    assert loaded.snapshot is not None
    assert (loaded.snapshot.sequence, len(loaded.events)) == (83, 7)


@contract
async def a_snapshot_may_end_within_a_batch(harness: EventStoreHarness) -> None:
    store = await harness.open()
    leader, _ = await lead(harness, store)
    await store.append(LOGS, [b"1", b"2", b"3"], 0, leader.fence)
    await store.save_snapshot(LOGS, Snapshot(2, b"two"), leader.fence)
    loaded = await store.load(LOGS)
    assert (loaded.snapshot, loaded.first, list(loaded.events)) == (Snapshot(2, b"two"), 3, [b"3"])
    await store.save_snapshot(LOGS, Snapshot(3, b"three"), leader.fence)
    loaded = await store.load(LOGS)
    assert (loaded.snapshot, loaded.first, list(loaded.events)) == (Snapshot(3, b"three"), 4, [])
    assert (await store.append(LOGS, [b"4"], 3, leader.fence)).sequence == 4
    assert list((await store.load(LOGS)).events) == [b"4"]


@contract
async def an_older_snapshot_changes_nothing(harness: EventStoreHarness) -> None:
    store = await harness.open()
    leader, _ = await lead(harness, store)
    await append_each(store, LOGS, leader, ["1", "2", "3"])
    await store.save_snapshot(LOGS, Snapshot(2, b"two"), leader.fence)
    await store.save_snapshot(LOGS, Snapshot(1, b"one"), leader.fence)
    loaded = await store.load(LOGS)
    assert (loaded.snapshot, list(loaded.events)) == (Snapshot(2, b"two"), [b"3"])


@contract
async def a_snapshot_of_what_never_happened_is_refused(harness: EventStoreHarness) -> None:
    store = await harness.open()
    leader, _ = await lead(harness, store)
    await append_each(store, LOGS, leader, ["1"])
    for sequence in (0, 2):
        with pytest.raises(Invalid):
            await store.save_snapshot(LOGS, Snapshot(sequence, b"?"), leader.fence)
    assert (await store.load(LOGS)).snapshot is None


@contract
async def a_stale_leader_saves_no_snapshot(harness: EventStoreHarness) -> None:
    store = await harness.open()
    leader, session = await lead(harness, store)
    await append_each(store, LOGS, leader, ["1"])
    await session.close()
    with pytest.raises(Fenced):
        await store.save_snapshot(LOGS, Snapshot(1, b"one"), leader.fence)
    assert (await store.load(LOGS)).snapshot is None


@contract
async def a_snapshot_may_exceed_what_one_append_may_carry(harness: EventStoreHarness) -> None:
    store = await harness.open()
    leader, _ = await lead(harness, store)
    await append_each(store, LOGS, leader, ["1", "2"])
    large, larger = bytes(range(256)) * 20_000, b"\x01" * (3 * APPEND_BYTES_MAX + 1)
    await store.save_snapshot(LOGS, Snapshot(1, larger), leader.fence)
    assert (await store.load(LOGS)).snapshot == Snapshot(1, larger)
    await store.save_snapshot(LOGS, Snapshot(2, large), leader.fence)
    assert (await store.load(LOGS)).snapshot == Snapshot(2, large)


# --- damage and doubt


@contract
async def a_hole_is_reported_and_hurts_no_neighbour(harness: EventStoreHarness) -> None:
    store = await harness.open()
    leader, _ = await lead(harness, store)
    for history in (LOGS, METRICS):
        await append_each(store, history, leader, ["1", "2", "3"])
    await harness.lose_batch(LOGS, 2)
    with pytest.raises(CorruptHistory, match="registry/stream/logs"):
        await store.load(LOGS)
    assert await texts(store, METRICS) == ["1", "2", "3"]


@contract
async def a_lost_last_batch_is_a_hole_too(harness: EventStoreHarness) -> None:
    store = await harness.open()
    leader, _ = await lead(harness, store)
    await append_each(store, LOGS, leader, ["1", "2"])
    await harness.lose_batch(LOGS, 2)
    with pytest.raises(CorruptHistory):
        await store.load(LOGS)


async def _doubtful_append(harness: EventStoreHarness, *, happens: bool) -> tuple[Appended | None, list[str]]:
    """Appends `two` unanswered, then `three` by the rules; returns the outcome of the first and what is there."""
    store = await harness.open()
    leader, _ = await lead(harness, store)
    await append_each(store, LOGS, leader, ["one"])
    await harness.lose_answer(store, happens=happens)
    outcome: Appended | None = None
    try:
        outcome = await store.append(LOGS, [b"two"], 1, leader.fence)
    except OutcomeUnknown:
        pass
    except StoreUnavailable:
        assert not happens, "an append that took effect was reported as not sent"
    while (await store.load(LOGS)).events[-1] != b"three":
        await append_each(store, LOGS, leader, ["three"])
    return outcome, await texts(store, LOGS)


@contract
async def an_unanswered_append_that_happened_is_there_once(harness: EventStoreHarness) -> None:
    outcome, events = await _doubtful_append(harness, happens=True)
    assert events == ["one", "two", "three"]
    assert outcome is None or outcome.sequence == 2


@contract
async def an_unanswered_append_that_did_not_happen_is_never_claimed(harness: EventStoreHarness) -> None:
    outcome, events = await _doubtful_append(harness, happens=False)
    assert (outcome, events) == (None, ["one", "three"])
