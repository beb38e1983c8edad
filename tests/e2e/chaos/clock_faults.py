"""Wall clocks of services that step, by an hour or by eight days: on one replica, or on all of one service.

What waits for days (idle groups, drained topics) must not be given up, and somebody must be told. A replica whose clock
is off leads while it is: the leader before it is killed.
"""

import random
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from typing import Final

from braid.api.assigner.v1.assigner_service_pb2 import ListGroupsRequest, ListGroupsResponse
from braid.kafka.cluster import AioKafka
from devmesh.processes.wall_clock import parse_offset
from testbed.ground.field import Field, StuckError, now_ms
from testbed.ground.load import TOPIC_PREFIX
from tests.e2e.chaos.store_faults import SERVICES, store_url_of
from tests.support.clocks import clocks_apart

STEPS: Final = ("+1h", "-1h", "+8d", "-8d")
RIGHT: Final = "0"
Topics = Mapping[str, Collection[str]]


async def step_one(field: Field, chance: random.Random) -> None:
    """The clock of a replica steps that does not lead; then it does."""
    service = chance.choice(SERVICES)
    leader = await field.leader(service)
    name = chance.choice([each for each in replicas(field, service) if each != leader])
    await _step(field, service, [name], chance.choice(STEPS))


async def step_all(field: Field, chance: random.Random) -> None:
    """The clocks of all replicas of a service step alike, as with a wrong time server: only other services can tell."""
    service = chance.choice(SERVICES)
    await _step(field, service, replicas(field, service), chance.choice(STEPS))


def replicas(field: Field, service: str) -> list[str]:
    """A service's replicas."""
    return sorted(name for name in field.mesh.ready.services if name.startswith(f"{service}-"))


async def _step(field: Field, service: str, names: Sequence[str], offset: str) -> None:
    with ExitStack() as marks:
        for name in names:
            marks.enter_context(field.marked(name, f"wall clock {offset}", hit=False))
        begun = now_ms()
        await _set(field, names, offset)
        await leads_anew(field, service)
        await field.asked(lambda: _told(field, service, names), f"{service} tells that clocks of {names} are off")
        field.measured("clock_step_to_told_ms", now_ms() - begun)
        before = await topics(field)
        await field.progress()
        await nothing_ended(field, before)
        await _set(field, names, RIGHT)
    await leads_anew(field, service)
    await field.asked(lambda: _told(field, service, ()), f"{service} tells that clocks agree again")
    await field.progress()


async def _set(field: Field, names: Sequence[str], offset: str) -> None:
    field.histories.offsets.note(parse_offset(offset))
    for name in names:
        await field.mesh.set_clock(name, offset)


async def leads_anew(field: Field, service: str) -> None:
    """Kills a service's leader: who leads next compares clocks before anything that waits may end."""
    name = await field.leader(service)
    with field.marked(name, "leader killed"):
        await field.mesh.kill(name)
        field.kills += 1
        await field.next_leader(service, name)
        await field.mesh.start(name)


async def _told(field: Field, service: str, names: Collection[str]) -> bool:
    """Whether a service has recorded that these replicas' clocks are off, and no others'. One that is down has none."""
    apart = await clocks_apart(store_url_of(field), service)
    return apart.keys() <= {*names} and bool(apart) == bool(names)


async def topics(field: Field) -> Topics:
    """The stream's topics on each cluster."""
    kafka, found = AioKafka("chaos"), {}
    for name, cluster in field.mesh.ready.clusters.items():
        admin = kafka.cluster(cluster.bootstrap, "").admin()
        try:
            found[name] = {each for each in await admin.list_topics() if each.startswith(TOPIC_PREFIX)}
        finally:
            await admin.close()
    return found


async def nothing_ended(field: Field, before: Topics) -> None:
    """Raises `StuckError` when a topic was deleted or a group given up while clocks are known to disagree."""
    after = await topics(field)
    if gone := {topic for name, known in before.items() for topic in known if topic not in after[name]}:
        raise StuckError(f"deleted while clocks disagreed: {sorted(gone)}")
    answer = await field.client.service("assigner").unary("ListGroups", ListGroupsRequest(), ListGroupsResponse)
    if ended := sorted(each.name for each in answer.groups if each.status.idle_expired):
        raise StuckError(f"given up while clocks disagreed: {ended}")
