"""Large histories, large catch-ups, many names, several endpoints, and a store that is closed."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from braid.host.system import system_host
from braid.kernel.errors import Fenced, StoreUnavailable
from braid.kernel.limits.store import APPEND_BYTES_MAX, ETCD_PAGE_BATCHES
from braid.kernel.ports import HistoryId
from braid.stores.etcd import EtcdStore, loading
from testbed.etcd_process import etcd_cluster
from testbed.ports import free_ports
from tests.contract.event_store.harness import LOGS, check_batches, lead, replica, take, within
from tests.integration.etcd.harness import EtcdHarness
from tests.integration.etcd.ledger import reached

pytestmark = pytest.mark.untimed


async def test_full_batches_load_in_pages_and_are_watched_in_fragments(tmp_path: Path) -> None:
    async with etcd_cluster(tmp_path) as cluster, AsyncExitStack() as stack:
        harness = EtcdHarness(cluster, stack)
        store = await harness.open()
        leader, _ = await lead(harness, store)
        count = ETCD_PAGE_BATCHES + 8
        for number in range(count):
            await store.append(LOGS, [number.to_bytes(4) * (APPEND_BYTES_MAX // 4)], number, leader.fence)
        loaded = await (await harness.open()).load(LOGS)
        assert [int.from_bytes(event[:4]) for event in loaded.events] == list(range(count))
        batches = await take((await harness.open()).watch("registry", 0), count, seconds=20.0)
        check_batches(batches)
        assert [int.from_bytes(batch.events[0][-4:]) for batch in batches] == list(range(count))


async def test_many_histories_are_listed_in_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "ETCD_PAGE_KEYS", 3)
    async with etcd_cluster(tmp_path) as cluster, AsyncExitStack() as stack:
        harness = EtcdHarness(cluster, stack)
        store = await harness.open()
        leader, _ = await lead(harness, store)
        wanted = [HistoryId("registry", kind, f"{n}/ä") for kind in ("cluster", "stream") for n in range(5)]
        for position, history in enumerate(wanted):
            for sequence in range(position % 7 + 1):
                await store.append(history, [b"e"], sequence, leader.fence)
        assert list((await store.histories("registry"))[0]) == wanted


async def test_an_endpoint_that_is_away_is_passed_over(tmp_path: Path) -> None:
    async with etcd_cluster(tmp_path) as cluster, AsyncExitStack() as stack:
        nobody = f"127.0.0.1:{free_ports(1)[0]}"
        store = EtcdStore([nobody, *cluster.endpoints], system_host())
        stack.push_async_callback(store.close)
        session = await store.open_session(2.0)
        leader = await store.campaign(replica("a"), session)
        assert (await store.append(LOGS, [b"one"], 0, leader.fence)).sequence == 1


async def test_a_session_outlives_a_restart_of_its_member(tmp_path: Path) -> None:
    async with etcd_cluster(tmp_path) as cluster, AsyncExitStack() as stack:
        host = system_host()
        store = EtcdStore(cluster.endpoints, host)
        stack.push_async_callback(store.close)
        session = await store.open_session(4.0)
        leader = await store.campaign(replica("a"), session)
        cluster.nodes[0].kill()
        killed = host.clock.elapsed()
        cluster.restart(cluster.nodes[0])
        await reached(lambda: session.deadline() > killed + 4.0)
        assert await store.leader("registry") == leader


async def test_closing_a_store_ends_what_waits_on_it(tmp_path: Path) -> None:
    async with etcd_cluster(tmp_path) as cluster, AsyncExitStack() as stack:
        harness = EtcdHarness(cluster, stack)
        await lead(harness, await harness.open())
        store = EtcdStore(cluster.endpoints, system_host())
        session = await store.open_session(2.0)
        watching = asyncio.ensure_future(take(store.watch("registry", 0), 1))
        campaign = asyncio.ensure_future(store.campaign(replica("b"), session))
        await asyncio.wait([watching, campaign], timeout=0.3)
        await store.close()
        with pytest.raises(StoreUnavailable):
            await within(watching, 1.0)
        with pytest.raises(Fenced):
            await within(campaign, 1.0)
        await within(session.lost(), 0.1)
        with pytest.raises(StoreUnavailable):
            await within(store.load(LOGS), 0.1)
