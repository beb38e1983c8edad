"""Backup and restore of a store in a real etcd, by the functions behind `braid store`."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from braid.host.system import SystemClock, system_host
from braid.kernel.errors import Invalid, Refused, StoreUnavailable
from braid.kernel.ports import Endpoint, HistoryId, Snapshot
from braid.stores.backups import TEN_MINUTES_MS
from braid.stores.etcd import EtcdStore, backup
from testbed.etcd_process import EtcdCluster, etcd_cluster
from tests.contract.event_store.harness import LOGS, append_each

pytestmark = pytest.mark.untimed

LATER, CLOCK = HistoryId("assigner", "group", "indexer"), system_host().clock


def _store(stack: AsyncExitStack, cluster: EtcdCluster) -> EtcdStore:
    store = EtcdStore(cluster.endpoints, system_host())
    stack.push_async_callback(store.close)
    return store


async def _append(store: EtcdStore, history: HistoryId, *events: str) -> None:
    """Appends as a leader that then ends."""
    session = await store.open_session(20.0)
    leader = await store.campaign(Endpoint(history.service, "a", "here:1"), session)
    await append_each(store, history, leader, list(events))
    if history == LOGS and len(events) > 1:
        await store.save_snapshot(history, Snapshot(1, b"state"), leader.fence)
    await session.close()


async def test_a_restore_brings_back_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    async with etcd_cluster(tmp_path) as cluster, AsyncExitStack() as stack:
        store, file = _store(stack, cluster), tmp_path / "backup"
        mesh = await store.mesh()
        assert await store.incarnation() == 1
        await _append(store, LOGS, "1", "2")
        assert (await backup.back_up(cluster.endpoints, CLOCK, file)).mesh == mesh
        before = await store.load(LOGS)
        await _append(store, LOGS, "3")
        await _append(store, LATER, "x")
        for incarnation in (2, 3):
            restored = await backup.restore(cluster.endpoints, CLOCK, file)
            assert (restored.mesh, restored.incarnation) == (mesh, incarnation)
            fresh = _store(stack, cluster)
            found = await fresh.load(LOGS)
            assert (found.snapshot, found.events, found.sequence) == (before.snapshot, before.events, 2)
            assert found.revision > before.revision
            assert (await fresh.histories("assigner"))[0] == []
            assert (await fresh.mesh(), await fresh.incarnation()) == (mesh, incarnation)
            assert await fresh.leader("registry") is None
        await _append(_store(stack, cluster), LOGS, "other")


async def test_a_restore_is_refused_with_services_up_or_another_mesh(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    async with (
        etcd_cluster(tmp_path / "a") as cluster,
        etcd_cluster(tmp_path / "b") as other,
        AsyncExitStack() as stack,
    ):
        store, stranger, file = _store(stack, cluster), _store(stack, other), tmp_path / "backup"
        for each in (store, stranger):
            await each.incarnation()
            await each.mesh()
            await _append(each, LOGS, "1")
        await backup.back_up(cluster.endpoints, CLOCK, file)
        with pytest.raises(Invalid) as refused:
            await backup.restore(other.endpoints, CLOCK, file)
        assert await store.mesh() in refused.value.message and await stranger.mesh() in refused.value.message
        session = await store.open_session(20.0)
        await store.publish(Endpoint("dlq", "dlq-0", "here:2"), session)
        with pytest.raises(Refused, match="services use the store: dlq-0"):
            await backup.restore(cluster.endpoints, CLOCK, file)
        await session.close()
        text = file.read_text().splitlines()
        file.write_text("\n".join([*text[:-1], text[-1][:-8] + "AAAA" + text[-1][-4:]]))
        with pytest.raises(Invalid, match="damaged"):
            await backup.restore(cluster.endpoints, CLOCK, file)
        assert await store.incarnation() == 1


class DaysLater(SystemClock):
    """The machine's clock, so many days later."""

    def __init__(self, days: int) -> None:
        self._days = days

    def now_ms(self) -> int:
        """See `Clock`."""
        return super().now_ms() + self._days * 86_400_000


async def _behind(cluster: EtcdCluster, data: Path, clock: SystemClock) -> int:
    """Etcd's own tools put a snapshot back, and the operator says so; returns the incarnation."""
    cluster.put_back(data)
    cluster.nodes[0].start(cluster.nodes)
    await cluster.serving()
    before = await backup.begin_incarnation(cluster.endpoints, clock, dry_run=True)
    found = await backup.begin_incarnation(cluster.endpoints, clock)
    assert found == before, "a trial says what comes"
    return found.incarnation


async def test_a_snapshot_put_back_by_hand_begins_a_new_incarnation(tmp_path: Path) -> None:
    async with etcd_cluster(tmp_path) as cluster, AsyncExitStack() as stack:
        with pytest.raises(StoreUnavailable, match="no store in this etcd"):
            await backup.begin_incarnation(cluster.endpoints, CLOCK)
        store = EtcdStore(cluster.endpoints, system_host())
        mesh, incarnation = await store.mesh(), await store.incarnation()
        await _append(store, LOGS, "1", "2")
        session = await store.open_session(20.0)
        await store.publish(Endpoint("dlq", "dlq-0", "here:2"), session)
        with pytest.raises(Refused, match="services use the store: dlq-0"):
            await backup.begin_incarnation(cluster.endpoints, CLOCK)
        await session.close()
        await store.close()
        data = cluster.back_up()
        found = [incarnation]
        for days in (0, 1):
            found.append(await _behind(cluster, data, DaysLater(days)))
            fresh = _store(stack, cluster)
            assert (await fresh.mesh(), await fresh.incarnation()) == (mesh, found[-1])
            assert (await fresh.load(LOGS)).sequence == 2
            await _append(fresh, LOGS, "later")
        assert found[0] < CLOCK.now_ms() // TEN_MINUTES_MS - 2 < found[1] < found[2], "it had one of them before"
