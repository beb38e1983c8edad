"""Faults inside a cluster of several brokers: one of them dies, freezes or is rolled, partitions get other replicas.

They are played by runs whose clusters have three brokers (`make chaos BROKERS=3`) and need one that carries the stream
and has several. Only the loss of most brokers may move the stream for good.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

from testbed.ground.field import Field, StuckError, now_ms
from testbed.ground.load import GROUP
from tests.e2e.chaos.faults import Fault, arrived, left_behind
from tests.support.kafka_operator import KafkaOperator, operating

FROZEN_SECONDS: Final = 15.0
Choice = Callable[[KafkaOperator, str], Awaitable[int]]


async def leader_of_lane(operator: KafkaOperator, topic: str) -> int:
    """The broker that leads partition 0 of the topic that carries lane live."""
    return await operator.leader(topic)


async def coordinator_of_group(operator: KafkaOperator, topic: str) -> int:
    """The broker that coordinates the group."""
    return await operator.coordinator(GROUP)


async def active_controller(operator: KafkaOperator, topic: str) -> int:
    """The broker that is the active controller."""
    return await operator.controller()


def kill_broker(choose: Choice) -> Fault:
    """Kills one broker of the cluster that carries the stream; the others go on, and it catches up."""

    async def fault(field: Field, chance: random.Random) -> None:
        cluster, topic = await carrying(field, chance)
        async with operating(field.mesh.ready.clusters[cluster].bootstrap) as operator:
            name = f"{cluster}/{await choose(operator, topic)}"
            with field.marked(name, "killed"):
                await field.mesh.kill(name)
                field.kills += 1
                await field.progress()
                await field.mesh.start(name)
            await operator.whole(topic)
        await field.progress()

    return fault


async def freeze_broker(field: Field, chance: random.Random) -> None:
    """Freezes the leader of a partition for longer than its session; it comes back as a follower."""
    cluster, topic = await carrying(field, chance)
    async with operating(field.mesh.ready.clusters[cluster].bootstrap) as operator:
        name = f"{cluster}/{await operator.leader(topic)}"
        with field.marked(name, f"frozen {FROZEN_SECONDS:g} s"):
            await field.mesh.pause(name)
            field.kills += 1
            await asyncio.sleep(FROZEN_SECONDS)
            await field.mesh.resume(name)
        await operator.whole(topic)
    await field.progress()


async def lose_most_brokers(field: Field, chance: random.Random) -> None:
    """Kills two of three: too few copies are in sync to acknowledge, the stream leaves, and its tail is drained."""
    cluster, _ = await carrying(field, chance)
    lost = sorted(chance.sample(sorted(field.mesh.ready.clusters[cluster].brokers), 2))
    with field.marked(cluster, f"lost {' and '.join(lost)}") as mark:
        await asyncio.gather(*(field.mesh.kill(name) for name in lost))
        field.kills += len(lost)
        await left_behind(field, cluster)
        await arrived(field, cluster, mark.begin_ms)
        await field.progress()
        await asyncio.gather(*(field.mesh.start(name) for name in lost))
    await field.healthy()
    await field.progress()


async def roll(field: Field, chance: random.Random) -> None:
    """Restarts the brokers of the cluster that carries the stream, one after the other, each in order."""
    cluster, _ = await carrying(field, chance)
    with field.marked(cluster, "rolled", hit=False):
        await field.mesh.roll(cluster)
    await field.progress()


async def reassign(field: Field, chance: random.Random) -> None:
    """Gives every partition of the topic other replicas in another order, and elects the preferred leaders."""
    cluster, topic = await carrying(field, chance)
    with field.marked(cluster, "reassigned", hit=False):
        async with operating(field.mesh.ready.clusters[cluster].bootstrap) as operator:
            for size in (2, 3):  # a copy less, then all of them again
                found = await operator.copies(topic)
                wanted = {number: chance.sample(range(1, 4), size) for number in found}
                await operator.reassign(topic, wanted)
                await operator.elect_preferred(topic, sorted(wanted))
    await field.progress()


async def carrying(field: Field, chance: random.Random) -> tuple[str, str]:
    """A cluster of several brokers that carries lane live by now, and the lane's topic; moves the stream where need be.

    Raises:
        StuckError: no cluster of this run has several brokers.
    """
    await field.healthy()
    several = [name for name, each in field.mesh.ready.clusters.items() if len(each.brokers) > 1]
    if not several:
        raise StuckError("no cluster of this run has several brokers")
    if (cluster := field.carrier()) not in several:
        source, begun, cluster = cluster, now_ms(), chance.choice(several)
        await field.move(cluster)
        await arrived(field, source, begun)
    line = await field.first(
        "acked", now_ms(), lambda line: line.cluster == cluster and ".live." in line.topic, f"a record on {cluster}"
    )
    return cluster, line.topic
