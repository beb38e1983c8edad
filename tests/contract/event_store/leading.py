"""The contract of sessions, election and directory."""

import asyncio
from dataclasses import replace

import pytest

from braid.kernel.errors import Fenced
from braid.kernel.ports import Endpoint, EventStore, Leader
from tests.contract.event_store.harness import (
    LOGS,
    METRICS,
    EventStoreHarness,
    append_each,
    contract,
    eventually,
    lead,
    replica,
    texts,
    within,
)

EXPIRY_SLACK_SECONDS = 4.0  # past the TTL, how late a store may notice


@contract
async def a_session_lives_as_long_as_it_is_kept_alive(harness: EventStoreHarness) -> None:
    store = await harness.open()
    leader, session = await lead(harness, store)
    begun = session.deadline()
    losing = asyncio.ensure_future(session.lost())
    await asyncio.sleep(1.5 * harness.ttl_seconds)
    now = harness.clock.elapsed()
    assert not losing.done()
    assert session.deadline() > begun
    assert now < session.deadline() <= now + 0.99 * harness.ttl_seconds
    await append_each(store, LOGS, leader, ["still leading"])
    losing.cancel()


@contract
async def a_silent_session_is_lost_at_its_deadline_and_ends_in_the_store(harness: EventStoreHarness) -> None:
    store, other = await harness.open(), await harness.open()
    _, session = await lead(harness, store)
    await store.publish(replica("a"), session)
    await harness.silence(store)
    silent_since = harness.clock.elapsed()
    await within(session.lost(), harness.ttl_seconds + 1.0)
    assert harness.clock.elapsed() >= session.deadline()
    assert session.deadline() <= silent_since + harness.ttl_seconds

    async def gone() -> bool:
        return await other.leader("registry") is None and not await other.directory()

    await eventually(gone, EXPIRY_SLACK_SECONDS)


@contract
async def leadership_outlives_its_holders_deadline(harness: EventStoreHarness) -> None:
    """Nobody else may lead before the deadline of a holder that went silent."""
    store, other = await harness.open(), await harness.open()
    old, session = await lead(harness, store, "old")
    next_session = await other.open_session(harness.ttl_seconds)
    campaign = asyncio.ensure_future(other.campaign(replica("new"), next_session))
    await harness.silence(store)
    new = await within(campaign, harness.ttl_seconds + EXPIRY_SLACK_SECONDS)
    assert harness.clock.elapsed() >= session.deadline()
    assert new.fence.revision > old.fence.revision
    with pytest.raises(Fenced):
        await other.append(LOGS, [b"stale"], 0, old.fence)


@contract
async def closing_a_session_ends_what_hangs_on_it_at_once(harness: EventStoreHarness) -> None:
    store, other = await harness.open(), await harness.open()
    leader, session = await lead(harness, store)
    await store.publish(replica("a"), session)
    await session.close()
    await within(session.lost(), 0.5)
    assert await other.leader("registry") is None
    assert list(await other.directory()) == []
    with pytest.raises(Fenced):
        await store.append(LOGS, [b"late"], 0, leader.fence)
    with pytest.raises(Fenced):
        await store.publish(replica("a"), session)
    await session.close()


@contract
async def one_leads_at_a_time_and_each_gets_its_turn(harness: EventStoreHarness) -> None:
    names = ["a", "b", "c"]
    stores = {name: await harness.open() for name in names}
    sessions = {name: await stores[name].open_session(harness.ttl_seconds) for name in names}
    waiting = {
        asyncio.ensure_future(stores[name].campaign(replica(name), sessions[name])): name for name in sorted(names)
    }
    revisions: list[int] = []
    while waiting:
        done, _ = await asyncio.wait(waiting, timeout=10.0, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(0.1)
        assert len([campaign for campaign in waiting if campaign.done()]) == 1, "two led at once, or nobody"
        campaign = done.pop()
        name, leader = waiting.pop(campaign), campaign.result()
        assert leader.endpoint == replica(name)
        assert await stores["a"].leader("registry") == leader
        await append_each(stores[name], LOGS, leader, [name])
        revisions.append(leader.fence.revision)
        await sessions[name].close()
    assert revisions == sorted(set(revisions))
    assert sorted(await texts(stores["a"], LOGS)) == names


async def _check_refused(store: EventStore, past: list[Leader]) -> None:
    for over in past:
        with pytest.raises(Fenced):
            await store.append(METRICS, [b"stale"], 0, over.fence)


@contract
async def a_fence_that_is_over_is_refused_for_ever(harness: EventStoreHarness) -> None:
    store = await harness.open()
    session = await store.open_session(harness.ttl_seconds)
    past: list[Leader] = []
    for turn in range(3):
        leader = await within(store.campaign(replica("a"), session))
        await append_each(store, LOGS, leader, [str(turn)])
        await _check_refused(store, past)
        past.append(leader)
        await store.resign(leader)
        await _check_refused(store, past)
    assert await texts(store, METRICS) == []


@contract
async def who_leads_already_wins_again_at_once(harness: EventStoreHarness) -> None:
    store = await harness.open()
    leader, session = await lead(harness, store)
    assert await within(store.campaign(replica("a"), session), 2.0) == leader


@contract
async def resigning_hands_over(harness: EventStoreHarness) -> None:
    store, other = await harness.open(), await harness.open()
    old, _ = await lead(harness, store, "old")
    campaign = asyncio.ensure_future(lead(harness, other, "new"))
    await asyncio.sleep(0.2)
    assert not campaign.done()
    await store.resign(old)
    new, _ = await within(campaign, 2.0)
    assert await store.leader("registry") == new
    await store.resign(old)
    assert await store.leader("registry") == new


@contract
async def a_campaign_ends_with_its_session(harness: EventStoreHarness) -> None:
    store, other = await harness.open(), await harness.open()
    holder, _ = await lead(harness, store)
    session = await other.open_session(harness.ttl_seconds)
    campaign = asyncio.ensure_future(other.campaign(replica("b"), session))
    await asyncio.sleep(0.2)
    await session.close()
    with pytest.raises(Fenced):
        await within(campaign, 2.0)
    with pytest.raises(Fenced):
        await within(other.campaign(replica("b"), session), 2.0)
    assert await store.leader("registry") == holder


@contract
async def services_elect_apart(harness: EventStoreHarness) -> None:
    store = await harness.open()
    assert await store.leader("registry") is None
    registry, session = await lead(harness, store, "a", "registry")
    assigner, _ = await lead(harness, store, "b", "assigner")
    await session.close()
    assert (await store.leader("registry"), await store.leader("assigner")) == (None, assigner)
    assert registry.fence.service == "registry"


async def _published(store: EventStore) -> list[Endpoint]:
    return list(await store.directory())


@contract
async def the_directory_lists_live_replicas_in_order(harness: EventStoreHarness) -> None:
    store, other = await harness.open(), await harness.open()
    mine, theirs = await store.open_session(harness.ttl_seconds), await other.open_session(harness.ttl_seconds)
    await other.publish(replica("b"), theirs)
    await store.publish(replica("a"), mine)
    await store.publish(replica("a", "assigner"), mine)
    assert await _published(other) == [replica("a", "assigner"), replica("a"), replica("b")]
    moved = Endpoint("registry", "a", "elsewhere:1")
    await store.publish(moved, mine)
    assert await _published(other) == [replica("a", "assigner"), moved, replica("b")]
    assert [each.tls_address for each in await _published(other)] == ["", "", ""]
    await store.publish(replace(moved, tls_address="elsewhere:2"), mine)
    assert [each.tls_address for each in await _published(other)] == ["", "elsewhere:2", ""]
    await mine.close()
    assert await _published(other) == [replica("b")]
