"""The handler of `CloseChannel`: the registry is about to delete a topic, and no group may begin in its channel.

A group that still reads the channel gives its leases back first, so that its last commits count. Then its progress is
read from the cluster, and what it had not done is recorded. This delays the deletion by no longer than a revoke takes.
If the cluster does not answer, or the topic is gone, the whole channel is recorded as not done.
"""

from collections.abc import Callable

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.kernel.errors import BraidError, Refused, Unavailable
from braid.kernel.ids import ChannelId
from braid.kernel.offset_ranges import OffsetRanges
from braid.kernel.ports import Caller, Kafka
from braid.runtime.replica import Replica
from services.assigner.model import group_channels
from services.assigner.model.channels import ChannelCommand, CloseChannel, EndReading, Presence
from services.assigner.model.group import Channel, Group
from services.assigner.peers import RegistryFollower
from services.assigner.reconciler.drained import unread_ranges
from services.assigner.reconciler.group_loop import GROUPS
from services.assigner.reconciler.term import Term

_CLOSABLE = (Presence.DRAINED, Presence.ENDING, Presence.GONE)


class Closings:
    """Closes channels in the groups that know them."""

    def __init__(self, replica: Replica, registry: RegistryFollower, kafka: Kafka, term: Callable[[], Term]) -> None:
        self._replica = replica
        self._registry = registry
        self._kafka = kafka
        self._term = term

    async def close_channel(self, request: api.CloseChannelRequest, caller: Caller) -> api.CloseChannelResponse:
        """Records in every group with the channel that it is never granted again.

        Views move on only when a channel changes, so a view of a lower revision that says it is drained is enough.

        Raises:
            Refused: at that revision the registry still has records to consume there.
            Unavailable: the registry said so, but its channels are not heard of here yet; or holders that read the
                channel are giving their leases back.
        """
        self._term()
        name = str(ChannelId.parse(request.channel, "channel"))
        view = self._registry.view
        seen = view.channels.get(name) if view else None
        closable = seen is None or seen.presence in _CLOSABLE
        if view is None or (not closable and view.revision < request.registry_revision):
            raise Unavailable(f"this assigner has not heard yet that {name} is drained", remedy="try again")
        if not closable:
            raise Refused(f"channel {name} is not drained", field="channel", remedy="drain it first")
        groups = self._replica.aggregates.states(GROUPS)
        known = {group: state.channels[name] for group, state in groups.items() if name in state.channels}
        for group in [group for group, channel in known.items() if group_channels.is_reading(channel)]:
            await self._execute(group, EndReading(name), caller)
        for group in known:
            await self._close(group, name, request.registry_revision, caller)
        self._replica.require_leader()
        return api.CloseChannelResponse(revision=self._replica.aggregates.revision)

    async def _close(self, group: str, name: str, revision: int, caller: Caller) -> None:
        state = self._state(group)
        channel = state.channels.get(name)
        if channel is None:
            return
        told: OffsetRanges = ()
        wants = state.spec is not None and state.spec.wants(channel.id)
        if channel.ending and wants and not any(lease.holder for _, lease in state.leases_of(name)):
            told = await self._unread(group, channel)
        await self._execute(group, CloseChannel(name, revision, told), caller)

    async def _unread(self, group: str, channel: Channel) -> OffsetRanges:
        view = self._registry.view
        place = view.clusters.get(channel.cluster) if view else None
        if place is None:
            return group_channels.everything_of(channel)
        try:
            return await unread_ranges(self._kafka, place, group, channel)
        except BraidError as error:
            self._replica.log.warning(
                "what a group had not read of a channel is not known", channel=str(channel.id), error=str(error)
            )
            return group_channels.everything_of(channel)

    def _state(self, group: str) -> Group:
        return self._replica.aggregates.state(GROUPS, group)

    async def _execute(self, group: str, command: ChannelCommand, caller: Caller) -> None:
        """Executes a command for one group; with the caller's request id, a second group's would count as a repeat."""
        actor = caller.principal or caller.peer
        await self._replica.aggregates.execute(
            GROUPS, group, command, actor=actor, tenant=caller.tenant, cause=f"closing {command.channel}"
        )
