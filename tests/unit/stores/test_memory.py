"""Faults that a client of the store in memory can be given."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from braid.kernel.errors import Compacted, OutcomeUnknown, StoreUnavailable
from braid.kernel.limits.store import STORE_CALL_SECONDS
from braid.kernel.ports import Endpoint, HistoryId, Leader, Snapshot
from braid.stores.memory import Fate, MemoryStore
from braid.stores.memory_server import MemoryStoreServer
from tests.support.virtual_time import ProcessKilled, VirtualProcess, run_virtual, running_loop, virtual_host

LOGS = HistoryId("registry", "stream", "logs")
REPLICA = Endpoint("registry", "a", "a:1")


async def _leading() -> tuple[MemoryStore, Leader]:
    store = MemoryStore(virtual_host(running_loop(), 1))
    return store, await store.campaign(REPLICA, await store.open_session(3.0))


def _run(body: Callable[[MemoryStore, Leader], Awaitable[None]]) -> None:
    async def main() -> None:
        await body(*await _leading())

    run_virtual(main())


def test_latency_is_paid_twice_in_virtual_time() -> None:
    async def body(store: MemoryStore, leader: Leader) -> None:
        store.latency = lambda operation: 0.2 if operation == "append" else 0.0
        begun = running_loop().time()
        await store.append(LOGS, [b"one"], 0, leader.fence)
        assert running_loop().time() - begun == pytest.approx(0.4)

    _run(body)


def test_a_cut_off_client_reads_nothing_and_writes_nothing() -> None:
    async def body(store: MemoryStore, leader: Leader) -> None:
        store.disconnect()
        begun = running_loop().time()
        with pytest.raises(StoreUnavailable):
            await store.load(LOGS)
        assert running_loop().time() - begun == STORE_CALL_SECONDS
        with pytest.raises(StoreUnavailable):
            await store.append(LOGS, [b"one"], 0, leader.fence)
        store.reconnect()
        assert (await store.load(LOGS)).sequence == 0

    _run(body)


@pytest.mark.parametrize(("fate", "happened"), [(Fate.REQUEST_LOST, 0), (Fate.ANSWER_LOST, 1)])
def test_an_unanswered_append_is_in_doubt(fate: Fate, happened: int) -> None:
    async def body(store: MemoryStore, leader: Leader) -> None:
        store.fate = lambda operation: fate if operation == "append" else Fate.ANSWERED
        with pytest.raises(OutcomeUnknown):
            await store.append(LOGS, [b"one"], 0, leader.fence)
        assert (await store.load(LOGS)).sequence == happened

    _run(body)


def test_a_client_cut_off_while_its_answer_travels_is_in_doubt() -> None:
    async def body(store: MemoryStore, leader: Leader) -> None:
        store.latency = lambda _: 0.2
        running_loop().call_later(0.3, store.disconnect)
        with pytest.raises(OutcomeUnknown):
            await store.append(LOGS, [b"one"], 0, leader.fence)
        store.reconnect()
        assert (await store.load(LOGS)).sequence == 1

    _run(body)


def test_a_killed_process_stops_leading_when_its_session_ends() -> None:
    async def main() -> tuple[Leader, float]:
        loop = running_loop()
        server = MemoryStoreServer(virtual_host(loop, 1).clock)
        first, second = VirtualProcess(loop, "first", 1), VirtualProcess(loop, "second", 1)
        doomed, heir = MemoryStore(first.host, server), MemoryStore(second.host, server)
        await doomed.campaign(REPLICA, await doomed.open_session(3.0))
        await asyncio.sleep(10.0)
        first.kill()
        with pytest.raises(ProcessKilled):
            await doomed.load(LOGS)
        leader = await heir.campaign(Endpoint("registry", "b", "b:1"), await heir.open_session(3.0))
        return leader, loop.time()

    leader, at = run_virtual(main())
    assert leader.endpoint.instance == "b"
    assert 12.0 < at <= 13.0


def test_a_campaign_outlasts_a_cut_of_the_connection() -> None:
    async def body(store: MemoryStore, leader: Leader) -> None:
        other = MemoryStore(virtual_host(running_loop(), 2), store.server)
        session = await other.open_session(30.0)
        campaign = asyncio.ensure_future(other.campaign(Endpoint("registry", "b", "b:1"), session))
        await asyncio.sleep(1.0)
        other.disconnect()
        await store.resign(leader)
        await asyncio.sleep(5.0)
        other.reconnect()
        assert (await campaign).endpoint.instance == "b"

    _run(body)


def test_batches_a_snapshot_replaced_stay_a_while_for_watchers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("braid.stores.memory_server.WATCH_KEEP_REVISIONS", 4)

    async def body(store: MemoryStore, leader: Leader) -> None:
        revisions = []
        for sequence in range(8):
            appended = await store.append(LOGS, [b"x"], sequence, leader.fence)
            revisions.append(appended.revision)
        await store.save_snapshot(LOGS, Snapshot(8, b"s"), leader.fence)
        with pytest.raises(Compacted):
            await anext(store.watch("registry", revisions[3]))
        assert (await anext(store.watch("registry", revisions[4]))).revision == revisions[5]

    _run(body)


def test_a_restored_backup_forgets_later_work_but_no_revisions() -> None:
    async def body(store: MemoryStore, leader: Leader) -> None:
        await store.append(LOGS, [b"kept"], 0, leader.fence)
        backup = store.server.backup()
        last = await store.append(LOGS, [b"lost"], 1, leader.fence)
        store.server.restore(backup)
        loaded = await store.load(LOGS)
        assert (list(loaded.events), loaded.revision > last.revision) == ([b"kept"], True)
        assert (await store.incarnation(), await store.leader("registry")) == (2, None)

    _run(body)


def test_a_closed_client_is_of_no_use() -> None:
    async def body(store: MemoryStore, leader: Leader) -> None:
        await store.close()
        with pytest.raises(StoreUnavailable):
            await store.load(LOGS)

    _run(body)
