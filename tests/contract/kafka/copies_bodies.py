"""The contract of `KafkaAdmin` on a cluster of several brokers: copies of partitions go to other brokers."""

import asyncio
from typing import Final

import pytest

from braid.kernel.errors import Invalid, NotFound
from braid.kernel.ports import TopicDescription, TopicPartition
from tests.contract.kafka.rig import ENOUGH_SECONDS, Body, Rig, configured

BROKERS: Final = 3
RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


async def copies_are_added_and_taken_away(rig: Rig) -> None:
    name = await rig.topic(2)
    before = await _described(rig, name)
    assert [len(each) for each in before.replicas] == [1, 1]
    brokers = sorted((await rig.admin.survey([])).brokers)
    assert len(brokers) == BROKERS
    (leader, *_), (other, *_) = before.replicas
    wanted = {0: [leader, *(each for each in brokers if each != leader)]}
    await rig.admin.reassign(name, wanted)
    await rig.admin.reassign(name, wanted)  # told twice
    after = await _settled(rig, name)
    assert [list(each) for each in after.replicas] == [wanted[0], [other]]
    assert after.leaders[0] == leader and not after.under_replicated
    await rig.admin.reassign(name, wanted)  # told late
    assert await rig.admin.reassignments(name, 2) == {}
    await rig.admin.reassign(name, {0: [leader]})
    last = await _settled(rig, name)
    assert [list(each) for each in last.replicas] == [[leader], [other]]
    assert last.leaders[0] == leader and last.leader_epochs[0] > before.leader_epochs[0]


async def a_copy_that_leads_may_go(rig: Rig) -> None:
    name = await rig.topic(1)
    (leader,) = (await _described(rig, name)).leaders
    brokers = (await rig.admin.survey([])).brokers
    others = [broker for broker in brokers if broker != leader]
    await rig.admin.try_append(TopicPartition(name, 0), b"kept", 10.0)
    await rig.admin.reassign(name, {0: others})
    moved = await _settled(rig, name)
    assert list(moved.replicas[0]) == others and moved.leaders[0] in others
    assert (await rig.admin.try_append(TopicPartition(name, 0), b"next", 10.0)).offset == 1


async def replicas_that_cannot_be_are_refused(rig: Rig) -> None:
    name = await rig.topic(1)
    (present,) = (await _described(rig, name)).replicas
    for replicas in ([99], [present[0], present[0]]):
        with pytest.raises(Invalid):
            await rig.admin.reassign(name, {0: replicas})
    with pytest.raises(NotFound):
        await rig.admin.reassign(name, {7: list(present)})
    with pytest.raises(NotFound):
        await rig.admin.reassign(f"{name}.missing", {0: list(present)})
    assert await rig.admin.reassignments(name, 1) == {}
    assert (await _described(rig, name)).replicas == [present]


async def settings_of_all_brokers_are_changed_and_given_back(rig: Rig) -> None:
    assert not set(RATES) & set(await rig.admin.broker_defaults())
    await rig.admin.alter_broker_defaults({name: "1000000" for name in RATES})
    await _rates(rig, dict.fromkeys(RATES, "1000000"))
    await rig.admin.alter_broker_defaults(dict.fromkeys(RATES))
    await _rates(rig, {})
    await rig.admin.alter_broker_defaults(dict.fromkeys(RATES))  # nothing to give back


async def a_setting_of_a_topic_is_given_back(rig: Rig) -> None:
    name = await rig.topic(1)
    default = (await rig.admin.topic_config(name))["segment.ms"]
    setting = "leader.replication.throttled.replicas"
    await rig.admin.alter_topic_config(name, {"segment.ms": "600000", setting: "0:1,0:2"})
    await configured(rig, name, {"segment.ms": "600000", setting: "0:1,0:2"})
    await rig.admin.alter_topic_config(name, {"segment.ms": None, setting: None})
    await configured(rig, name, {"segment.ms": default, setting: ""})


async def a_topic_with_fewer_copies_than_an_append_needs_takes_it_by_all_it_has(rig: Rig) -> None:
    partition = await rig.partition({"min.insync.replicas": "2"})
    await rig.admin.try_append(partition, b"one copy", 10.0)


async def _described(rig: Rig, name: str) -> TopicDescription:
    return (await rig.admin.describe_topics([name]))[name]


async def _settled(rig: Rig, name: str) -> TopicDescription:
    """The topic once nothing is under way, as every broker tells it: they hear of it one after the other."""
    partitions = (await _described(rig, name)).partitions
    async with asyncio.timeout(ENOUGH_SECONDS):
        while True:
            found = await _described(rig, name)
            under_way = await rig.admin.reassignments(name, partitions)
            await asyncio.sleep(0.3)
            if await _described(rig, name) == found and not (under_way or found.under_replicated):
                return found


async def _rates(rig: Rig, expected: dict[str, str]) -> None:
    async with asyncio.timeout(ENOUGH_SECONDS):
        while True:
            present = await rig.admin.broker_defaults()
            if {name: present[name] for name in RATES if name in present} == expected:
                return
            await asyncio.sleep(0.05)


BODIES: Final[list[Body]] = [
    copies_are_added_and_taken_away,
    a_copy_that_leads_may_go,
    replicas_that_cannot_be_are_refused,
    settings_of_all_brokers_are_changed_and_given_back,
    a_setting_of_a_topic_is_given_back,
    a_topic_with_fewer_copies_than_an_append_needs_takes_it_by_all_it_has,
]
