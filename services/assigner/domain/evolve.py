"""Applies each event to a group's state: the only way the state changes, live and at start. Pure, never fails."""

from dataclasses import replace

from braid.kernel.access.tenants import DEFAULT_TENANT
from braid.kernel.decider import Context
from braid.kernel.ids import ChannelId
from services.assigner.domain import idle_wait, operator_rules, responses, scaling, unfencing
from services.assigner.model import backlog_splits, generations, progress_findings, progress_resets, stopped_lanes
from services.assigner.model.backlog_splits import LeaseSplit, SplitAsked, SplitEnded, SplitRefused
from services.assigner.model.channels import (
    ChannelClosed,
    ChannelObserved,
)
from services.assigner.model.events import (
    BumpIntended,
    Event,
    FencingWaived,
    GenerationBumped,
    GroupDeleted,
    GroupIdleAlerted,
    GroupIdleExpired,
    GroupRegistered,
    GroupUpdated,
    LeaseGrant,
    LeasesGranted,
    LeasesReleased,
    MemberGone,
    MemberJoined,
    MembershipEnded,
    ProgressSetAside,
    RevokesStarted,
    StartFixed,
)
from services.assigner.model.group import Channel, Group, Lease, LeaseState, Member, channel_of
from services.assigner.model.lag.response_events import ResponsesSet, ResponseTaken, ResponseUndone
from services.assigner.model.lag.scaling_events import CapacityDesired, ScalingSet
from services.assigner.model.progress_findings import ProgressDoubted
from services.assigner.model.progress_resets import ProgressReset, ResetIntended
from services.assigner.model.stopped_lanes import LaneResumeAsked, LaneResumed, LaneStopped
from services.assigner.policy import homing


def evolve(state: Group, event: Event, context: Context) -> Group:
    """Returns the state after the event; `context` is the recorded context of the event."""
    match event:
        case GroupRegistered():
            return _registered(state, event, context)
        case GroupUpdated(spec):
            return replace(state, spec=spec, spec_changes=state.spec_changes + 1)
        case GroupDeleted():
            return Group(state.name, spec_changes=state.spec_changes + 1, last_epoch=state.last_epoch)
        case GroupIdleAlerted() | GroupIdleExpired():
            return idle_wait.evolve(state, event)
        case MemberJoined():
            return _joined(state, event, context)
        case MemberGone(member):
            return _gone(state, member, context)
        case LeasesGranted():
            return _granted(state, event, context)
        case RevokesStarted():
            return _revoking(state, event)
        case LeasesReleased():
            return _released(state, event, context)
        case BumpIntended() | GenerationBumped() | FencingWaived():
            return generations.evolve(state, event, context)
        case ProgressSetAside() | MembershipEnded():
            return unfencing.evolve(state, event)
        case ResetIntended() | ProgressReset():
            return progress_resets.evolve(state, event, context)
        case ProgressDoubted():
            return progress_findings.evolve(state, event)
        case SplitAsked() | LeaseSplit() | SplitRefused() | SplitEnded():
            return backlog_splits.evolve(state, event, context)
        case LaneStopped() | LaneResumed() | LaneResumeAsked():
            return stopped_lanes.evolve(state, event, context)
        case StartFixed() | ChannelObserved() | ChannelClosed():
            return _channel_changed(state, event)
        case ScalingSet() | CapacityDesired():
            return scaling.evolve(state, event, context)
        case ResponsesSet() | ResponseTaken() | ResponseUndone():
            return responses.evolve(state, event, context)
        case _:
            return replace(state, rules=operator_rules.evolve(state.rules, event, context))


def _registered(state: Group, event: GroupRegistered, context: Context) -> Group:
    return Group(
        state.name,
        event.spec,
        spec_changes=state.spec_changes + 1,
        created_at_ms=context.now_ms,
        last_epoch=state.last_epoch,
        idle_since_ms=context.now_ms,
        tenant=event.tenant or DEFAULT_TENANT,
    )


def _joined(state: Group, event: MemberJoined, context: Context) -> Group:
    known = state.members.get(event.member)
    member = Member(
        event.member,
        event.client_id,
        event.zone,
        event.capacity,
        event.protocol_version,
        event.capabilities,
        event.peer,
        context.now_ms if known is None else known.joined_at_ms,
        event.principal,
        event.secret_digest or ("" if known is None else known.secret_digest),
    )
    return replace(state.with_member(member), idle_since_ms=0, idle_expired=False, idle_alerted=False)


def _gone(state: Group, member: str, context: Context) -> Group:
    known = state.members.get(member)
    if known is None:
        return state
    left = state.with_leases(homing.gone(state, known, context.now_ms)).without_members(member)
    if left.stops:
        left = replace(left, stops={key: stop for key, stop in left.stops.items() if stop.member != member})
    return left if left.members else left.idle_from(context.now_ms)


def _granted(state: Group, event: LeasesGranted, context: Context) -> Group:
    held = {grant.lease: _held(state, grant, context) for grant in event.grants}
    last_epoch = max((grant.epoch for grant in event.grants), default=0)
    return replace(state.with_leases(held), last_epoch=max(state.last_epoch, last_epoch), bumped_in={})


def _held(state: Group, grant: LeaseGrant, context: Context) -> Lease:
    known, lease = state.leases.get(grant.lease), Lease(LeaseState.HELD, grant.member, grant.epoch, context.now_ms)
    if known is None or not known.home:
        return lease
    member = state.members.get(grant.member)
    if member is not None and member.client_id == known.home:
        return lease
    return replace(lease, home=known.home, home_since_ms=known.home_since_ms)


def _revoking(state: Group, event: RevokesStarted) -> Group:
    asked: dict[str, Lease | None] = {}
    for grant in event.leases:
        lease = state.leases.get(grant.lease)
        if lease is not None and (lease.holder, lease.epoch) == (grant.member, grant.epoch):
            asked[grant.lease] = replace(
                lease, state=LeaseState.REVOKING, deadline_ms=event.deadline_ms, reason=event.reason
            )
    return state.with_leases(asked)


def _released(state: Group, event: LeasesReleased, context: Context) -> Group:
    state = homing.given_back(state, event, context.now_ms)
    free: dict[str, Lease | None] = {}
    for grant in event.leases:
        lease, channel = state.leases.get(grant.lease), state.channels.get(channel_of(grant.lease))
        if lease is not None and lease.epoch == grant.epoch:
            ended = channel is not None and _ended(channel)
            free[grant.lease] = None if ended else _freed(lease, context.now_ms)
    return replace(state.with_leases(free), fences=generations.after_release(state, event))


def _freed(lease: Lease, now_ms: int) -> Lease:
    return Lease(LeaseState.FREE, "", lease.epoch, now_ms, home=lease.home, home_since_ms=lease.home_since_ms)


def _channel_changed(state: Group, event: StartFixed | ChannelObserved | ChannelClosed) -> Group:
    known = state.channels.get(event.channel)
    match event:
        case ChannelObserved():
            changed: Channel | None = _observed(known, event)
        case ChannelClosed(_, revision):
            changed = known and replace(
                known,
                closed=True,
                registry_revision=max(known.registry_revision, revision),
                reading=False,
                unread=event.unread,
            )
        case StartFixed(_, offsets):
            changed = known and replace(known, start=offsets)
    if changed is None:
        return state
    state = replace(state, channels={**state.channels, event.channel: changed})
    if not _ended(changed):
        return state
    free = {name: None for name, lease in state.leases_of(event.channel) if lease.state is LeaseState.FREE}
    return replace(
        state.with_leases(free),
        rules=operator_rules.without_channel(state.rules, event.channel),
        splits={lease: split for lease, split in state.splits.items() if channel_of(lease) != event.channel},
        doubts={key: doubt for key, doubt in state.doubts.items() if channel_of(doubt.lease) != event.channel},
    )


def _observed(known: Channel | None, event: ChannelObserved) -> Channel:
    """Returns the channel as observed.

    A release that does not know of reading drained channels ends it without `finished`.
    """
    before = known if known is not None and not event.finished else None
    return Channel(
        ChannelId.parse(event.channel),
        event.cluster,
        event.topic,
        event.partitions,
        event.consumable,
        event.registry_revision,
        event.appeared_later,
        start=known.start if known else None,
        closed=known.closed if known else False,
        zone=event.zone,
        reset=known.reset if known and event.consumable else None,
        reading=event.reading or (before is not None and before.reading),
        ending=event.ending or (before is not None and before.ending),
        unproved=event.unproved or (before is not None and before.unproved),
        left_revision=event.left_revision,
        in_order=event.in_order,
    )


def _ended(channel: Channel) -> bool:
    """Forgets the free leases of a channel on which nothing will be granted again."""
    return channel.closed or not channel.consumable
