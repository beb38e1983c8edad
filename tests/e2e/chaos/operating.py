"""Operators' actions during a run: other numbers of partitions, a trial, a cluster emptied and registered again."""

import random
from collections.abc import Callable
from typing import Final

from braid.api.registry.v1.cluster_pb2 import Cluster, DecommissionState
from braid.api.registry.v1.registry_service_pb2 import (
    CreateClusterRequest,
    DecommissionClusterRequest,
    DecommissionClusterResponse,
    DeleteClusterRequest,
    GetClusterRequest,
)
from braid.api.registry.v1.stream_pb2 import ChannelState
from testbed.checkers import facts
from testbed.ground.clusters import topic_facts
from testbed.ground.field import Field, now_ms
from testbed.ground.load import TOPIC_PREFIX
from tests.e2e.chaos.faults import STALL_BEFORE_MS, arrived, stall_ms

LANE: Final = "live"
PARTITIONS_MIN: Final = 1
PARTITIONS_MAX: Final = 8
SHARES: Final = (10.0, 30.0, 50.0)
CALL_SECONDS: Final = 30.0
_ACTIVE: Final = ChannelState.CHANNEL_STATE_ACTIVE
_KEPT: Final = (
    DecommissionState.DECOMMISSION_STATE_KEEPING,
    DecommissionState.DECOMMISSION_STATE_CLEARING,
    DecommissionState.DECOMMISSION_STATE_EMPTY,
)


async def grow(field: Field, chance: random.Random) -> None:
    """Twice the partitions, on the same cluster or another one."""
    await _repartition(field, chance, larger)


async def shrink(field: Field, chance: random.Random) -> None:
    """Half the partitions, likewise."""
    await _repartition(field, chance, smaller)


def larger(count: int) -> int:
    """Twice as many partitions, up to a bound."""
    return min(PARTITIONS_MAX, 2 * count)


def smaller(count: int) -> int:
    """Half as many partitions."""
    return max(PARTITIONS_MIN, count // 2)


async def spread(field: Field, chance: random.Random) -> None:
    """A share of the records goes to another cluster for a while; then the trial is taken back, or completed."""
    await field.healthy()
    source = field.carrier()
    target, percent, ending = field.other(source, chance), chance.choice(SHARES), chance.choice((0.0, 100.0))
    with field.marked(target, f"has {percent:g} % of {LANE}, then {ending:g} %", hit=False) as mark:
        await field.move(target, LANE, percent=percent)
        await arrived(field, source, mark.begin_ms)
        await field.first("acked", now_ms(), lambda line: line.cluster == source, "the rest stays where it is")
        await field.progress()
        both = now_ms()
        await field.move(target, LANE, percent=ending)
        left, stays = (target, source) if ending == 0.0 else (source, target)
        mark.what += f": {left} is left"
        await _one_active(field)
        await field.first("acked", both, lambda line: line.cluster == stays, f"all of it on {stays}")
        await field.progress()


async def decommission(field: Field, chance: random.Random) -> None:
    """Empties the cluster that carries the stream, forgets it, and declares it again."""
    await field.healthy()
    name = field.carrier()
    with field.marked(name, "emptied, forgotten, declared again", hit=False) as mark:
        spec = await leave(field, name)
        await arrived(field, name, mark.begin_ms)
        await forget(field, name)
        field.measured("decommissioned_ms", now_ms() - mark.begin_ms)
        await field.progress()
        await declare(field, spec)
    await field.progress()


async def leave(field: Field, name: str) -> Cluster:
    """Begins to empty a cluster; returns it as it was declared."""
    known = await _cluster(field, name)
    await _ask_to_leave(field, name, discard=False)
    return known


async def forget(field: Field, name: str) -> None:
    """Waits until all that a cluster being emptied still holds is done, keeps what it tells, and deletes it."""
    await field.asked(lambda: _drained(field, name), f"everything on {name} drained")
    await _archive(field, name)
    await _ask_to_leave(field, name, discard=True)
    await field.asked(lambda: _empty(field, name), f"{name} empty")
    registry = field.client.service("registry")
    await registry.unary("DeleteCluster", DeleteClusterRequest(name=name), Cluster, timeout_seconds=CALL_SECONDS)


async def declare(field: Field, known: Cluster) -> None:
    """Declares a cluster again as it was."""
    request = CreateClusterRequest(name=known.name, spec=known.spec)
    registry = field.client.service("registry")
    await registry.unary("CreateCluster", request, Cluster, timeout_seconds=CALL_SECONDS)


async def _repartition(field: Field, chance: random.Random, change: Callable[[int], int]) -> None:
    await field.healthy()
    source = field.carrier()
    target = chance.choice((source, field.other(source, chance)))
    await repartition(field, target, change)


async def repartition(field: Field, target: str, change: Callable[[int], int]) -> None:
    """Lane live has another number of partitions; where nothing is left to change, back to the middle."""
    [now] = [each for each in await field.channels() if each.lane == LANE and each.state == _ACTIVE]
    count = change(now.partitions)
    count = 2 if count == now.partitions else count
    with field.marked(target, f"{LANE} has {count} partitions, {now.partitions} before", hit=False) as mark:
        await field.move(target, LANE, partitions=count)
        await field.first(
            "acked",
            mark.begin_ms,
            lambda line: line.topic != now.topic and ".live." in line.topic,
            f"records in {count} partitions",
        )
        await field.progress()
        field.measured("repartition_stall_ms", stall_ms(field, mark.begin_ms - STALL_BEFORE_MS, now_ms()))


async def _one_active(field: Field) -> None:
    async def look() -> bool:
        return sum(each.lane == LANE and each.state == _ACTIVE for each in await field.channels()) == 1

    await field.asked(look, f"lane {LANE} on one channel")


async def _cluster(field: Field, name: str) -> Cluster:
    return await field.client.service("registry").unary("GetCluster", GetClusterRequest(name=name), Cluster)


async def _ask_to_leave(field: Field, name: str, *, discard: bool) -> None:
    request = DecommissionClusterRequest(name=name, discard_drained=discard, reason="chaos")
    answer = DecommissionClusterResponse
    await field.client.service("registry").unary("DecommissionCluster", request, answer, timeout_seconds=CALL_SECONDS)


async def _drained(field: Field, name: str) -> bool:
    return (await _cluster(field, name)).status.decommission.state in _KEPT


async def _empty(field: Field, name: str) -> bool:
    state = (await _cluster(field, name)).status.decommission.state
    return state == DecommissionState.DECOMMISSION_STATE_EMPTY


async def _archive(field: Field, name: str) -> None:
    """Keeps what topics tell that are going to be deleted. They are sealed: nothing comes after it."""
    bootstrap = field.mesh.ready.clusters[name].bootstrap
    for topic, found in (await topic_facts(name, bootstrap, TOPIC_PREFIX)).items():
        if facts.Topic(name, topic) not in field.archived:
            field.archived.add(facts.Topic(name, topic))
            field.kept += found
