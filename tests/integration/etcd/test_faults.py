"""The etcd store while real members are killed, paused, compacted and outvoted."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from braid.host.system import system_host
from braid.kernel.errors import Compacted, Fenced, StoreUnavailable, Unavailable
from braid.kernel.ports import EventStore, HistoryId, Leader, Session, Snapshot
from braid.stores.etcd import EtcdStore
from testbed.etcd_process import EtcdCluster, etcd_cluster
from testbed.patience import Deadline
from tests.contract.event_store.harness import LOGS, append_each, lead, replica, take, texts, within
from tests.integration.etcd.harness import EtcdHarness
from tests.integration.etcd.ledger import Appender, Running, Watcher, reached

pytestmark = pytest.mark.untimed

METRICS = HistoryId("registry", "stream", "metrics")


def _store(stack: AsyncExitStack, cluster: EtcdCluster, first: int = 0) -> EtcdStore:
    endpoints = cluster.endpoints
    store = EtcdStore(endpoints[first:] + endpoints[:first], system_host())
    stack.push_async_callback(store.close)
    return store


async def _lead(store: EventStore, ttl_seconds: float = 20.0) -> tuple[Leader, Session]:
    """Leads with a session that outlives the faults of these tests."""
    session = await store.open_session(ttl_seconds)
    return await store.campaign(replica("a"), session), session


async def test_a_killed_member_costs_no_event_and_doubles_none(tmp_path: Path) -> None:
    async with etcd_cluster(tmp_path) as cluster, AsyncExitStack() as stack:
        store = _store(stack, cluster)
        leader, _ = await _lead(store)
        appender, watcher = Appender(store, LOGS, leader), Watcher(_store(stack, cluster), "registry")
        async with Running(appender.run, watcher.run):
            for _ in range(4):
                await appender.acknowledged(more=20)
                cluster.nodes[0].kill()
                cluster.restart(cluster.nodes[0])
            await appender.acknowledged(more=20)
            await appender.stop()
            events = (await store.load(LOGS)).events
            appender.ledger.check(events)
            await watcher.saw(events)


async def test_a_paused_leading_member_is_left_for_the_others(tmp_path: Path) -> None:
    async with etcd_cluster(tmp_path, size=3) as cluster, AsyncExitStack() as stack:
        node = await cluster.leader()
        at_leader = cluster.nodes.index(node)
        store = _store(stack, cluster, at_leader)
        leader, _ = await _lead(store)
        appender, watcher = Appender(store, LOGS, leader), Watcher(_store(stack, cluster, at_leader), "registry")
        async with Running(appender.run, watcher.run):
            await appender.acknowledged(more=20)
            node.pause()
            deadline = Deadline(15.0)
            await appender.acknowledged(more=20)
            assert not deadline.passed, f"not within {deadline}"
            seen = await _store(stack, cluster, at_leader + 1).load(LOGS)
            await watcher.saw(seen.events)
            node.resume()
            await appender.acknowledged(more=20)
            node.kill()
            await appender.acknowledged(more=20)
            await appender.stop()
            events = (await store.load(LOGS)).events
            appender.ledger.check(events)
            await watcher.saw(events)


async def test_a_paused_single_member_may_append_late_but_only_once(tmp_path: Path) -> None:
    async with etcd_cluster(tmp_path) as cluster, AsyncExitStack() as stack:
        store = _store(stack, cluster)
        leader, _ = await _lead(store)
        appender = Appender(store, LOGS, leader)
        await appender.step()
        cluster.nodes[0].pause()
        pausing = asyncio.ensure_future(appender.step())
        await asyncio.wait([pausing], timeout=2.5)  # past the append's deadline
        cluster.nodes[0].resume()
        await pausing
        for _ in range(3):
            await appender.step()
        appender.ledger.check((await store.load(LOGS)).events)
        assert len(appender.ledger.acknowledged) >= 3


async def _caught_up(watcher: Watcher, event: bytes) -> None:
    """Waits until the watcher saw an event; one that is behind a compaction is rightly told to load again."""
    await reached(lambda: any(event in batch.events for batch in watcher.batches))


async def test_compaction_under_watchers(tmp_path: Path) -> None:
    async with etcd_cluster(tmp_path) as cluster, AsyncExitStack() as stack:
        store, reader = _store(stack, cluster), _store(stack, cluster)
        leader, _ = await _lead(store)
        appender, watcher = Appender(store, LOGS, leader), Watcher(_store(stack, cluster), "registry")
        other = Appender(store, METRICS, leader, "m")
        async with Running(appender.run, watcher.run):
            for turn in range(1, 6):
                await appender.acknowledged(more=30)
                await other.step()
                await store.save_snapshot(METRICS, Snapshot(turn, b"state"), leader.fence)
                await _caught_up(watcher, (await reader.load(LOGS)).events[-1])
                await cluster.compact()
                assert (await reader.load(METRICS)).sequence == turn
            await appender.stop()
            events = (await reader.load(LOGS)).events
            appender.ledger.check(events)
            await append_each(store, METRICS, leader, ["last"])
            await take(reader.watch("registry", (await reader.load(LOGS)).revision - 1), 1)
        seen = [event for batch in watcher.batches if batch.history == LOGS for event in batch.events]
        assert seen == list(events[: len(seen)])
        with pytest.raises(Compacted):
            await take(reader.watch("registry", leader.fence.revision), 1)


async def test_the_store_is_unavailable_until_its_quorum_returns(tmp_path: Path) -> None:
    async with etcd_cluster(tmp_path, size=3) as cluster, AsyncExitStack() as stack:
        store = _store(stack, cluster)
        leader, session = await _lead(store, ttl_seconds=2.0)
        await append_each(store, LOGS, leader, ["before"])
        watcher = Watcher(_store(stack, cluster), "registry")
        async with Running(watcher.run):
            for node in cluster.nodes[1:]:
                node.kill()
            loading = asyncio.ensure_future(store.load(LOGS))
            with pytest.raises(Unavailable):
                await within(store.append(LOGS, [b"never"], 1, leader.fence), 10.0)
            with pytest.raises(StoreUnavailable):
                await within(loading, 1.0)
            await within(session.lost(), 1.0)
            for node in cluster.nodes[1:]:
                cluster.restart(node)
            await cluster.serving()
            again, _ = await within(_lead(store), 20.0)
            loaded = await store.load(LOGS)
            await store.append(LOGS, [b"after"], loaded.sequence, again.fence)
            await watcher.saw((await store.load(LOGS)).events)


async def test_an_expired_lease_ends_leadership_and_its_fence(tmp_path: Path) -> None:
    async with etcd_cluster(tmp_path) as cluster, AsyncExitStack() as stack:
        harness = EtcdHarness(cluster, stack)
        store, other = await harness.open(), await harness.open()
        old, session = await lead(harness, store)
        await append_each(store, LOGS, old, ["one"])
        await harness.interrupt(store)
        new, _ = await lead(harness, other, "b")
        assert harness.clock.elapsed() >= session.deadline()
        await harness.mend(store)
        with pytest.raises(Fenced):
            await store.append(LOGS, [b"stale"], 1, old.fence)
        await append_each(other, LOGS, new, ["two"])
        assert await texts(other, LOGS) == ["one", "two"]


async def test_a_restored_store_of_lower_revision_ends_watches(tmp_path: Path) -> None:
    async with etcd_cluster(tmp_path) as cluster, AsyncExitStack() as stack:
        store = _store(stack, cluster)
        leader, _ = await _lead(store)
        await append_each(store, LOGS, leader, ["kept"])
        backup = cluster.back_up()
        cluster.restart(cluster.nodes[0])
        await append_each(store, LOGS, leader, ["lost", "lost too"])
        watching = _store(stack, cluster).watch("registry", 0)
        await take(watching, 3)
        waiting = asyncio.ensure_future(take(watching, 1))
        cluster.put_back(backup)
        cluster.restart(cluster.nodes[0])
        with pytest.raises(Compacted):
            await waiting
