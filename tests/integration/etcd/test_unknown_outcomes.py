"""Appends whose answer never comes: the member dies, or the wire does, between sending and answering."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from braid.kernel.errors import OutcomeUnknown
from braid.stores.etcd import client as etcd_client
from braid.stores.etcd import watching
from braid.stores.etcd.requests import Answer
from braid.stores.etcd_wire import etcd_pb2 as wire
from testbed.etcd_process import etcd_cluster
from tests.contract.event_store.harness import LOGS, append_each, lead, take, texts
from tests.integration.etcd.harness import EtcdHarness, append_marker
from tests.integration.etcd.ledger import Appender, Running, Watcher
from tests.support.etcd_proxy import Trap

pytestmark = pytest.mark.untimed
TRIES_MAX: Final = 10
SLOW_TTL_SECONDS: Final = 30.0  # a leader outlives whatever a slow machine makes of a lost answer


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[EtcdHarness]:
    """An etcd of one member."""
    async with etcd_cluster(tmp_path) as cluster, AsyncExitStack() as stack:
        yield EtcdHarness(cluster, stack)


async def _append_unanswered(harness: EtcdHarness, *, happens: bool) -> Appender:
    """Acknowledged appends around one whose answer, or request, is lost; checked against the history."""
    store = await harness.open()
    leader, _ = await lead(harness, store)
    appender = Appender(store, LOGS, leader)
    await appender.step()
    await harness.lose_answer(store, happens=happens)
    for _ in range(3):
        await appender.step()
    appender.ledger.check((await store.load(LOGS)).events)
    return appender


async def test_a_lost_answer_is_read_back(harness: EtcdHarness) -> None:
    appender = await _append_unanswered(harness, happens=True)
    assert appender.ledger.acknowledged == {"1": 1, "2": 2, "3": 3, "4": 4}


async def test_a_lost_request_stays_unknown(harness: EtcdHarness) -> None:
    appender = await _append_unanswered(harness, happens=False)
    assert appender.ledger.unknown == {"2"}
    assert appender.ledger.acknowledged == {"1": 1, "3": 2, "4": 3}


async def test_a_member_killed_before_its_answer_doubles_nothing(harness: EtcdHarness) -> None:
    store = await harness.open()
    leader, _ = await lead(harness, store)
    appender, watcher = Appender(store, LOGS, leader), Watcher(await harness.open(), "registry")
    (node,) = harness.cluster.nodes

    async def die() -> None:
        node.kill()
        harness.cluster.restart(node)

    async with Running(watcher.run):
        await appender.step()
        for _ in range(3):
            harness.proxy_of(store).trap = Trap(append_marker(LOGS), die)
            before = len(appender.ledger.acknowledged)
            while len(appender.ledger.acknowledged) < before + 2:
                await appender.step()
        events = (await store.load(LOGS)).events
        appender.ledger.check(events)
        await watcher.saw(events)


# --- negative controls


async def test_a_transaction_that_is_retried_turns_the_ledger_red(
    harness: EtcdHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = etcd_client.EtcdClient.transact

    async def retried(client: etcd_client.EtcdClient, request: wire.TxnRequest) -> Answer:
        """Until it is answered: on a slow machine a second try may still go to the connection that is about to end."""
        for _ in range(TRIES_MAX - 1):
            with suppress(OutcomeUnknown):
                return await once(client, request)
        return await once(client, request)

    monkeypatch.setattr(etcd_client.EtcdClient, "transact", retried)
    harness.ttl_seconds = SLOW_TTL_SECONDS
    with pytest.raises(AssertionError, match="refused, and there"):
        await _append_unanswered(harness, happens=True)


async def test_a_watch_that_resumes_from_now_turns_the_checks_red(
    harness: EtcdHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    resume = watching.Cursor.resume

    def from_now(cursor: watching.Cursor) -> list[wire.WatchRequest]:
        opening = list(resume(cursor))
        opening[0].create_request.start_revision = 0 if cursor.revision else 1
        return opening

    monkeypatch.setattr(watching.Cursor, "resume", from_now)
    store, other = await harness.open(), await harness.open()
    leader, _ = await lead(harness, store)
    watcher = Watcher(other, "registry")
    async with Running(watcher.run):
        await append_each(store, LOGS, leader, ["1"])
        await watcher.saw([b"1"])
        await harness.interrupt(other)
        await append_each(store, LOGS, leader, ["2"])
        await harness.mend(other)
        while len(watcher.batches) < 2:
            await append_each(store, LOGS, leader, ["later"])
        with pytest.raises(AssertionError, match="gap"):
            await watcher.saw([b"later"])


async def test_the_same_watch_unmutated_stays_green(harness: EtcdHarness) -> None:
    store, other = await harness.open(), await harness.open()
    leader, _ = await lead(harness, store)
    watching_batches = other.watch("registry", 0)
    await append_each(store, LOGS, leader, ["1"])
    await take(watching_batches, 1)
    await harness.interrupt(other)
    await append_each(store, LOGS, leader, ["2"])
    await harness.mend(other)
    assert [list(batch.events) for batch in await take(watching_batches, 1)] == [[b"2"]]
    assert await texts(store, LOGS) == ["1", "2"]
