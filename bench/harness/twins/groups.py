"""Writes the histories of very many groups into a store: events that the assigner's own rules decide and encode.

Each group has one member, which holds all of its leases. What is decided for one group of a stream holds for the
others, because events name no group.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from bench.harness.twins.shape import LANE, LOG_RECORDS, PARTITIONS, Shape, group_name, topic_of
from braid.kernel.decider import Context
from braid.kernel.ids import ChannelId
from braid.kernel.limits.assigner.leases import LEASE_MS_MAX
from braid.kernel.ports import Endpoint, EventStore, HistoryId, Host
from services.assigner.model.channels import ChannelView, Presence, SeenChannel
from services.assigner.model.commands import Balance, Command, FixStart, Hello, JoinMember, RegisterGroup
from services.assigner.model.group import GroupSpec
from services.assigner.reconciler.group_loop import GROUPS

_INSTANCE: Final = Endpoint("assigner", "assigner-0", "127.0.0.1:1")
_SESSION_SECONDS: Final = 600.0
_AT_ONCE: Final = 64


async def write_groups(shape: Shape, host: Host, store: EventStore, revision: int) -> None:
    """Appends the histories of all groups, as their leader does. `revision` is of the registry's view."""
    session = await store.open_session(_SESSION_SECONDS)
    leader = await store.campaign(_INSTANCE, session)
    for number, stream in enumerate(shape.streams):
        cluster = shape.cluster_of(number)
        context = Context(host.clock.now_ms(), "bench", leader_epoch=leader.fence.revision)
        events = decided(stream, cluster, revision, host.ids.ulid(), context)
        names = [group_name(group) for group in shape.readers(number)]
        for start in range(0, len(names), _AT_ONCE):
            some = names[start : start + _AT_ONCE]
            await asyncio.gather(
                *(store.append(HistoryId("assigner", GROUPS.name, name), events, 0, leader.fence) for name in some)
            )
    await store.resign(leader)


def decided(stream: str, cluster: str, revision: int, member: str, context: Context) -> Sequence[bytes]:
    """Decides a group's life: it registers, its start is fixed, a member joins, and leases are granted."""
    channel = str(ChannelId(stream, LANE, 1))
    seen = SeenChannel(channel, cluster, topic_of(stream), PARTITIONS, Presence.CONSUMABLE)
    view, spec = ChannelView(revision, (seen,)), GroupSpec((stream,), lease_ms=LEASE_MS_MAX)
    commands: list[Command] = [
        RegisterGroup(spec, view),
        FixStart(channel, (LOG_RECORDS,) * PARTITIONS),
        JoinMember(Hello(member, f"host-of-{stream}", "", 1.0, 1, (), "127.0.0.1:1"), spec),
        Balance((member,)),
    ]
    state, events = GROUPS.decider.initial("group"), list[bytes]()
    for command in commands:
        for event in GROUPS.decider.decide(state, command, context):
            state = GROUPS.decider.evolve(state, event, context)
            events.append(GROUPS.codec.encode(event, context))
    assert sum(bool(lease.holder) for lease in state.leases.values()) == PARTITIONS, "not every lease was granted"
    return events
