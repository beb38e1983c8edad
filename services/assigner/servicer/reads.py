"""Answers about groups, members and leases from the folded histories, on any replica. Changes nothing."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from typing import TypeVar, cast

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2, rules_pb2
from braid.kernel.capabilities import SPARK
from braid.kernel.errors import Invalid, NotFound
from braid.kernel.ids import LeaseId
from braid.kernel.limits.names import PAGE_SIZE_MAX
from braid.kernel.offset_ranges import ranges_text
from braid.kernel.ports import Caller
from braid.kernel.timing.slices import Slices
from braid.runtime.histories.event_metadata import metadata_message
from braid.runtime.replica import Replica
from services.assigner.codec.responses import responses_message
from services.assigner.codec.rules import rules_message
from services.assigner.codec.scaling import scaling_message
from services.assigner.codec.specs import spec_message
from services.assigner.codec.usages import slow_message, usage_message
from services.assigner.domain import idle_wait, unfencing
from services.assigner.domain.admission import etag_of
from services.assigner.domain.decide import registered_spec
from services.assigner.domain.explain import explain
from services.assigner.liveness.member_streams import MemberKey
from services.assigner.model import group_channels, progress_findings, progress_resets, stopped_lanes
from services.assigner.model.events import Event
from services.assigner.model.group import (
    DEAD_LETTER_LANE,
    Channel,
    Group,
    Lease,
    LeaseState,
    Member,
    Split,
    Stop,
    channel_of,
    lease_name,
    partition_of,
)
from services.assigner.model.lag.responses import NO_RESPONSES
from services.assigner.model.lag.scaling import NO_SCALING
from services.assigner.policy.constraints import ruled, said_capacity
from services.assigner.policy.member_work import Usage
from services.assigner.reconciler.group_loop import GROUPS
from services.assigner.reconciler.idle_groups import measured
from services.assigner.servicer.group_pages import page_size, page_through

T = TypeVar("T")
_CHOICES_MAX = 20  # groups that an error names
_NEVER = Lease(LeaseState.FREE, "", 0, 0)


class Reads:
    """Handlers of the reading methods."""

    def __init__(
        self,
        replica: Replica,
        connected: Callable[[MemberKey], bool],
        usage: Callable[[MemberKey], Usage | None],
        idle_expiry_ms: int,
    ) -> None:
        """`connected` tells whether a member's stream is open here; a follower knows of none and awaits nobody.

        `usage` tells what a member uses, where that is heard here.
        """
        self._replica = replica
        self._usage = usage
        self._connected = connected
        self._idle_expiry_ms = idle_expiry_ms
        self._messages: dict[str, tuple[Group, group_pb2.Group]] = {}  # as they were last described: few change

    async def get_group(self, request: api.GetGroupRequest, caller: Caller) -> group_pb2.Group:
        """Returns one group. Raises `NotFound`."""
        return self._described(self._group(request.name))

    async def list_groups(self, request: api.ListGroupsRequest, caller: Caller) -> api.ListGroupsResponse:
        """Lists groups by name.

        Filtered by lane the answer feeds drains, so only the leader gives it. Raises `NotLeader`, `Invalid`.
        """
        if request.stream or request.lane:
            self._replica.require_leader()
        after: Iterable[Group] = self._replica.aggregates.states_after(GROUPS, request.page_token)
        if len(request.names) > PAGE_SIZE_MAX:
            remedy = f"name at most {PAGE_SIZE_MAX}"
            raise Invalid(f"{len(request.names)} names are too many", field="names", remedy=remedy)
        if request.names:
            names = sorted(name for name in set(request.names) if name > request.page_token)
            after = (self._replica.aggregates.state(GROUPS, name) for name in names)
        wanted = (each for each in after if each.spec is not None and consumes(each, request.stream, request.lane))
        size, slices = page_size(request.page_size), Slices(self._replica.host.clock)
        groups, revision = list(islice(wanted, size + 1)), self._replica.aggregates.revision
        messages: list[group_pb2.Group] = []
        for each in groups[:size]:
            messages.append(self._described(each))
            await slices.turn()
        token = groups[size - 1].name if len(groups) > size else ""
        return api.ListGroupsResponse(groups=messages, next_page_token=token, revision=revision)

    async def list_members(self, request: api.ListMembersRequest, caller: Caller) -> api.ListMembersResponse:
        """Lists members of a group or of all, or Spark queries alone. Raises `NotFound` for an unknown group."""

        def items(group: Group) -> Iterable[tuple[str, tuple[Group, Member]]]:
            for member in group.members.values():
                if not request.spark or SPARK in member.capabilities:
                    yield f"{group.name}/{member.id}", (group, member)

        members, token = await self._page(request, items)
        groups = {group.name: group for group, _ in members}
        counts = {name: _held(group) for name, group in groups.items()}
        return api.ListMembersResponse(
            members=[self._member(group, member, counts[group.name].get(member.id, 0)) for group, member in members],
            next_page_token=token,
        )

    async def list_leases(self, request: api.ListLeasesRequest, caller: Caller) -> api.ListLeasesResponse:
        """Lists leases, free ones included. Raises `NotFound` for an unknown group."""

        def items(group: Group) -> Iterable[tuple[str, tuple[Group, str, Lease]]]:
            for key, item in _lease_items(group):
                _, name, lease = item
                if request.stream and not name.startswith(f"{request.stream}/"):
                    continue
                if not request.member or lease.holder == request.member:
                    yield key, item

        leases, token = await self._page(request, items)
        return api.ListLeasesResponse(leases=[lease_message(*each) for each in leases], next_page_token=token)

    async def explain_lease(self, request: api.ExplainLeaseRequest, caller: Caller) -> api.ExplainLeaseResponse:
        """Explains where a lease is, or was at a time, and why. Raises `NotFound`, `Invalid`, `HistoryHole`."""
        lease = LeaseId.parse(request.lease, "lease")
        group = self._group_of(request.group, lease)
        past = await self._replica.aggregates.past(GROUPS, group.name, request.at_ms)
        history = [(record.sequence, cast("Event", record.event), record.context) for record in past.events]
        steps = explain(lease, history, past.before)
        group = past.state
        channel = group.channels.get(str(lease.channel))
        if channel is not None and lease.partition >= channel.partitions:
            message = f"channel {lease.channel} has no partition {lease.partition}, but 0 to {channel.partitions - 1}"
            raise NotFound(message, field="lease", remedy="list its leases: braid get leases")
        if not steps and str(lease) not in group.leases:
            raise NotFound(f"nothing is recorded of {lease} in group {group.name!r} until then", field="lease")
        reasons = [
            api.LeaseReason(
                metadata=metadata_message(step.context),
                history=f"{self._replica.name}/{GROUPS.name}/{group.name}",
                sequence=step.sequence,
                type=type(step.event).__name__,
                text=step.text,
            )
            for step in steps
        ]
        now = lease_message(group, str(lease), group.leases.get(str(lease), _NEVER))
        return api.ExplainLeaseResponse(lease=now, reasons=reasons, kept_from_sequence=past.kept_from)

    async def _page(
        self,
        request: api.ListMembersRequest | api.ListLeasesRequest,
        items: Callable[[Group], Iterable[tuple[str, T]]],
    ) -> tuple[list[T], str]:
        """Returns a page of a group's items, or of those of all groups. Raises `NotFound`, `Invalid`."""
        size, slices = page_size(request.page_size), Slices(self._replica.host.clock)
        if request.group:
            return await page_through([self._group(request.group)], items, size, request.page_token, slices)
        aggregates, begun = self._replica.aggregates, request.page_token.partition("/")[0]
        groups = chain([aggregates.state(GROUPS, begun)] if begun else [], aggregates.states_after(GROUPS, begun))
        registered = (each for each in groups if each.spec is not None)
        return await page_through(registered, items, size, request.page_token, slices)

    def _described(self, state: Group) -> group_pb2.Group:
        """Returns a group, with how long it will be waited for as this replica knows."""
        known = self._messages.get(state.name)
        if known is None or known[0] is not state:
            known = self._messages[state.name] = (state, group_message(state))
        if not idle_wait.waiting(state):
            return known[1]
        message = group_pb2.Group()
        message.CopyFrom(known[1])
        message.status.idle_left_ms = measured(self._replica, state, self._idle_expiry_ms).left_ms
        message.status.idle_held = self._replica.waits.stopped
        return message

    def _group(self, name: str) -> Group:
        state = self._replica.aggregates.state(GROUPS, name)
        registered_spec(state)
        return state

    def _group_of(self, name: str, lease: LeaseId) -> Group:
        if name:
            return self._group(name)
        known = self._replica.aggregates.states(GROUPS).values()
        found = [group for group in known if group.spec is not None and str(lease.channel) in group.channels]
        if len(found) > 1:
            names = sorted(group.name for group in found)
            more = f" and {len(names) - _CHOICES_MAX:,} more" if len(names) > _CHOICES_MAX else ""
            shown = names[:_CHOICES_MAX]
            raise Invalid(
                f"groups {', '.join(shown)}{more} have this lease",
                field="group",
                remedy="name one of them",
                metadata={"choices": ",".join(shown)},
            )
        if not found:
            raise NotFound(f"no group consumes channel {lease.channel}", field="lease")
        return found[0]

    def _member(self, group: Group, member: Member, leases: int) -> group_pb2.Member:
        here = not self._replica.leading() or self._connected(MemberKey(group.name, member.id))
        state = group_pb2.MEMBER_STATE_LIVE if here else group_pb2.MEMBER_STATE_AWAITED
        return _member_message(group, member, leases, state, self._usage(MemberKey(group.name, member.id)))


def member_messages(group: Group) -> Sequence[group_pb2.Member]:
    """Returns a group's members from its history. Their states are unset, because connections are not recorded."""
    counts = _held(group)
    return [
        _member_message(group, member, counts.get(member.id, 0), group_pb2.MEMBER_STATE_UNSPECIFIED)
        for _, member in sorted(group.members.items())
    ]


async def leases_page(group: Group, size: int, token: str, slices: Slices) -> tuple[list[group_pb2.Lease], str]:
    """Returns a page of one group's leases, free ones included, and the next page's token."""
    page, token = await page_through([group], _lease_items, page_size(size), token, slices)
    return [lease_message(*each) for each in page], token


def _member_message(
    group: Group,
    member: Member,
    leases: int,
    state: group_pb2.MemberState.ValueType,
    usage: Usage | None = None,
) -> group_pb2.Member:
    return group_pb2.Member(
        id=member.id,
        group=group.name,
        client_id=member.client_id,
        zone=member.zone,
        state=state,
        join_time_ms=member.joined_at_ms,
        leases=leases,
        peer=member.peer,
        capacity=said_capacity(group, member),
        drain=_drain_state(group, member),
        stopped=[_stop_message(each) for each in stopped_lanes.of_member(group, member.id)],
        usage=None if usage is None else usage_message(usage),
        slow=slow_message(group, member.id),
        spark=SPARK in member.capabilities,
    )


def group_message(state: Group) -> group_pb2.Group:
    """Builds the message of a registered group."""
    leases, free = _counted(state)
    return group_pb2.Group(
        name=state.name,
        tenant=state.tenant,
        spec=spec_message(registered_spec(state)),
        status=group_pb2.GroupStatus(
            members=len(state.members),
            leases=leases,
            free_leases=free,
            idle_since_ms=state.idle_since_ms,
            idle_expired=state.idle_expired,
            registry_revision=state.registry_revision,
            ending_clusters=unfencing.ending(state),
            resetting_channels=progress_resets.pending(state),
            resets=state.resets,
            idle_alerted=state.idle_alerted,
            splits=_split_messages(state),
            doubts=[f"{x.lease} {x.kind} {x.start} to {x.end}: {x.reason}" for x in progress_findings.current(state)],
            stopped_lanes=[_stop_text(state, each) for _, each in sorted(state.stops.items())],
            reading_channels=group_channels.reading(state),
            unread=[f"{name}: {ranges_text(ranges)}" for name, ranges in group_channels.unread(state)],
        ),
        etag=etag_of(state),
        create_time_ms=state.created_at_ms,
        rules=rules_message(state),
        scaling=None if state.scaling == NO_SCALING else scaling_message(state.scaling),
        responses=None if state.responses == NO_RESPONSES else responses_message(state.responses),
    )


def _stop_message(stop: Stop) -> group_pb2.StoppedLane:
    return group_pb2.StoppedLane(lane=stop.lane, reason=stop.reason, since_ms=stop.since_ms, resume_asked=stop.asked)


def _split_messages(group: Group) -> Sequence[group_pb2.LeaseSplitStatus]:
    return [_status(split) for name, split in sorted(group.splits.items()) if _is_current(group, name, split)]


def _is_current(group: Group, name: str, split: Split) -> bool:
    lease = group.leases.get(name)
    return lease is not None and lease.epoch == split.epoch


def _status(split: Split) -> group_pb2.LeaseSplitStatus:
    return group_pb2.LeaseSplitStatus(
        lease=split.lease,
        at=split.at,
        share=split.share,
        since_ms=split.since_ms,
        asked=split.asked,
        refused=split.refused,
    )


def _stop_text(state: Group, stop: Stop) -> str:
    member = state.members.get(stop.member)
    return f"{stop.lane} at {member.client_id if member else stop.member}: {stop.reason}"


def lease_message(group: Group, name: str, lease: Lease) -> group_pb2.Lease:
    """Builds the message of a lease."""
    channel = group.channels.get(channel_of(name))
    member = group.members.get(lease.holder)
    return group_pb2.Lease(
        name=name,
        group=group.name,
        cluster=channel.cluster if channel else "",
        topic=channel.topic if channel else "",
        partition=partition_of(name),
        member=lease.holder,
        member_client_id=member.client_id if member else "",
        epoch=lease.epoch,
        state=cast("group_pb2.LeaseState.ValueType", lease.state.value),
        since_ms=lease.since_ms,
        rule=ruled(group, name),
    )


def _drain_state(group: Group, member: Member) -> rules_pb2.DrainState.ValueType:
    drain = group.rules.drains.get(member.id) or group.rules.drains.get(member.client_id)
    if drain is None:
        return rules_pb2.DRAIN_STATE_UNSPECIFIED
    return rules_pb2.DRAIN_STATE_DRAINED if drain.drained_at_ms else rules_pb2.DRAIN_STATE_DRAINING


def _counted(group: Group) -> tuple[int, int]:
    """Counts what `_leases` returns, and those without a holder, without making a name for each."""
    sizes = {name: channel.partitions for name, channel in _wanted(group)}
    leases = free = sum(sizes.values())
    for channel, partition, _ in group.held():
        if partition < sizes.get(channel, 0):
            free -= 1
        else:
            leases += 1
    return leases, free


def _wanted(group: Group) -> list[tuple[str, Channel]]:
    """Returns the channels whose partitions the group is to hold."""
    waiting = group_channels.held_back(group.channels)
    return [
        (name, channel)
        for name, channel in group.channels.items()
        if channel.consumable and not channel.closed and group.spec is not None and group.spec.wants(channel.id)
        if name not in waiting
    ]


def _leases(group: Group) -> list[tuple[str, Lease]]:
    """Returns all leases that are held or wanted."""
    wanted = {
        lease_name(channel.id, partition): _NEVER
        for _, channel in _wanted(group)
        for partition in range(channel.partitions)
    }
    held = {name: lease for name, lease in group.leases.items() if lease.holder or name in wanted}
    return list({**wanted, **held}.items())


def _held(group: Group) -> dict[str, int]:
    counts: dict[str, int] = {}
    for lease in group.leases.values():
        counts[lease.holder] = counts.get(lease.holder, 0) + 1
    return counts


def consumes(group: Group, stream: str, lane: str) -> bool:
    """Whether the group is subscribed to a lane of a stream; an empty name stands for any."""
    if group.spec is None or (stream and stream not in group.spec.streams):
        return False
    if not lane:
        return True
    return any(lane == name for name, _ in group.spec.lanes) or (not group.spec.lanes and lane != DEAD_LETTER_LANE)


def _lease_items(group: Group) -> Iterable[tuple[str, tuple[Group, str, Lease]]]:
    """Yields leases by keys in which partitions and generations are ordered as numbers."""
    for name, lease in _leases(group):
        channel, partition = LeaseId.parse(name)
        key = f"{group.name}/{channel.stream}/{channel.lane}/{channel.generation:020d}/{partition:06d}"
        yield key, (group, name, lease)
