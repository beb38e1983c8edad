"""The channels of a group: which ones it consumes, from the first sighting until the group has read them. Pure.

A channel that is active or draining is consumed by every group that wants its lane. A drained one is kept for its
stream's retention, to be read by groups for which something is left in it:

    first seen while it may get records ─► consumed ─► drained: finished for the group, as the drain waited for it
    registered at the earliest record ───► reading ──► the group's progress reached the end of every log: finished
    reset to an earlier time ────────────► reading ──► its topic is about to be deleted: ending, then closed

The drain's word is doubted where it may not have waited for the group: then the channel is `reading`, too, until its
cluster told what the group has done.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from braid.kernel.errors import Unavailable
from braid.kernel.ids import ChannelId
from braid.kernel.limits.assigner.leases import DRAINED_TIME_SLACK_SECONDS, READING_AT_ONCE
from braid.kernel.offset_ranges import OPEN, OffsetRange, OffsetRanges
from services.assigner.model.channels import (
    ChannelClosed,
    ChannelCommand,
    ChannelObserved,
    ChannelView,
    CloseChannel,
    EndReading,
    FinishReading,
    Presence,
    SeenChannel,
)
from services.assigner.model.events import Event, LeaseGrant, ReleaseReason, released
from services.assigner.model.group import Channel, Group, GroupSpec, StartKind, StartPosition

_KEPT: Final = (Presence.DRAINED, Presence.ENDING)
_NEVER_LEFT: Final = 1 << 62  # in place of a revision: it is on the route


def first_seen(
    spec: GroupSpec, view: ChannelView, known: frozenset[str], *, appeared_later: bool
) -> Iterable[ChannelObserved]:
    """Returns channels that the group wants and does not know yet, and that get or may get records."""
    for seen in view.channels:
        if seen.presence is Presence.CONSUMABLE and seen.name not in known and spec.wants(ChannelId.parse(seen.name)):
            event = observed(seen, view.revision, consumable=True, appeared_later=appeared_later)
            yield replace(event, unproved=seen.draining)


def left_to_read(
    spec: GroupSpec, view: ChannelView, before: GroupSpec | None, known: frozenset[str]
) -> Iterable[ChannelObserved]:
    """Returns the drained channels in which a group begins, by its start position.

    Args:
        spec: What the group consumes.
        view: The registry's channels.
        before: What it consumed so far; only streams and lanes that are new are begun.
        known: Channels it has seen.
    """
    for seen in view.channels:
        id = ChannelId.parse(seen.name)
        new = seen.name not in known and (before is None or not before.wants(id))
        if seen.presence is Presence.DRAINED and new and spec.wants(id) and _begins_in(spec.start, seen):
            yield begun(seen, view.revision, appeared_later=False)


def begun(seen: SeenChannel, revision: int, *, appeared_later: bool) -> ChannelObserved:
    """Returns the event by which the group has yet to read a drained channel."""
    return replace(observed(seen, revision, consumable=True, appeared_later=appeared_later), reading=True)


def observe(state: Group, view: ChannelView) -> Sequence[Event]:
    """Records changed channels; an older view, or a channel that is not mentioned, changes nothing."""
    if state.spec is None or view.revision < state.registry_revision:
        return ()
    events: list[Event] = []
    for seen in view.channels:
        known = state.channels.get(seen.name)
        if known is not None:
            events += _followed(state, known, seen, view.revision)
    events += first_seen(state.spec, view, frozenset(state.channels), appeared_later=True)
    return events


def decide(state: Group, command: ChannelCommand) -> Sequence[Event]:
    """Decides on a channel; a repeated or late command leads to nothing.

    Raises `Unavailable` while leases are given back.
    """
    known = state.channels.get(command.channel)
    if known is None or known.closed:
        return ()
    match command:
        case FinishReading(channel, resets):
            if not is_reading(known) or known.ending or known.reset is not None or state.resets != resets:
                return ()
            return [recorded(known, consumable=False, finished=True), *vacate(state, channel)]
        case EndReading(channel):
            if not is_reading(known) or known.ending:
                return ()
            return [recorded(known, consumable=False, reading=True, ending=True)]
        case CloseChannel(channel, revision, unread_ranges):
            if known.ending and (held := sum(1 for _, lease in state.leases_of(channel) if lease.holder)):
                raise Unavailable(f"{held} leases on {channel} are being given back", remedy="try again")
            return [ChannelClosed(channel, revision, unread_ranges), *vacate(state, channel)]


def wanted(state: Group) -> Mapping[str, Channel]:
    """Returns channels whose leases are to be held: grantable, next in order, and asked for by the spec."""
    spec = state.spec
    if spec is None:
        return {}
    waiting = held_back(state.channels)
    return {
        name: each
        for name, each in state.channels.items()
        if each.grantable and name not in waiting and spec.wants(each.id)
    }


def is_reading(channel: Channel) -> bool:
    """Whether the channel is drained, and the group has yet to read what is left there."""
    return channel.reading and not channel.closed


def reading(state: Group) -> Sequence[str]:
    """Returns drained channels that the group has yet to read and still consumes, sorted."""
    spec = state.spec
    if spec is None:
        return []
    return sorted(name for name, each in state.channels.items() if is_reading(each) and spec.wants(each.id))


def unread(state: Group) -> Sequence[tuple[str, OffsetRanges]]:
    """Returns the ranges that the group had not done in closed channels, by channel."""
    return sorted((name, each.unread) for name, each in state.channels.items() if each.unread)


def everything_of(channel: Channel) -> OffsetRanges:
    """Returns the whole range of a channel, used when nothing more precise is known."""
    starts = channel.start or (0,) * channel.partitions
    return tuple(OffsetRange(number, first, OPEN) for number, first in enumerate(starts))


def vacate(state: Group, channel: str) -> Sequence[Event]:
    """Ends the leases of a channel in which nothing is left to do, without a hand-over."""
    held = [
        LeaseGrant(name, lease.holder, lease.epoch) for name, lease in sorted(state.leases_of(channel)) if lease.holder
    ]
    return released(held, ReleaseReason.CHANNEL_GONE)


def held_back(channels: Mapping[str, Channel]) -> frozenset[str]:
    """Returns channels that are not granted yet because older ones are read first; empty if no drained one is read.

    In an ordered lane one channel is read after the other, in the order in which they left the route. In others a few
    of each cluster are read at once, beside those that get records: the oldest will be deleted first.
    """
    lanes: dict[tuple[str, str], list[tuple[str, Channel]]] = {}
    for each in channels.values():
        if each.reading and not each.closed:
            lanes.setdefault((each.id.stream, each.id.lane), [])
    if not lanes:
        return frozenset()
    for name, each in channels.items():
        lane = lanes.get((each.id.stream, each.id.lane))
        if lane is not None and (each.consumable or each.reading) and not each.closed:
            lane.append((name, each))
    return frozenset(name for lane in lanes.values() for name in _waiting(sorted(lane, key=lambda item: _age(item[1]))))


def _waiting(lane: Sequence[tuple[str, Channel]]) -> Iterable[str]:
    """Yields channels of a lane, given oldest first, that have to wait."""
    older = older_read = False
    counts: dict[str, int] = {}
    for name, each in lane:
        if each.in_order:
            if older_read or (older and each.reading):
                yield name
        elif each.reading:
            counts[each.cluster] = counts.get(each.cluster, 0) + 1
            if counts[each.cluster] > READING_AT_ONCE:
                yield name
        older, older_read = True, older_read or each.reading


def _age(channel: Channel) -> tuple[int, int]:
    """Sorts a lane's channels, oldest first. An older registry does not tell when a channel left the route."""
    unknown = 0 if channel.reading else _NEVER_LEFT
    return (channel.left_revision or unknown, channel.id.generation)


def _begins_in(start: StartPosition, seen: SeenChannel) -> bool:
    """Whether a group with this start position may find records in a drained channel.

    Nothing was appended after the drain, and brokers refuse records dated much later than now.
    """
    match start.kind:
        case StartKind.EARLIEST:
            return True
        case StartKind.LATEST:
            return False
        case StartKind.TIME:
            last_ms = seen.drained_at_ms + round(DRAINED_TIME_SLACK_SECONDS * 1000)
            return not seen.drained_at_ms or start.time_ms <= last_ms


def begins_at(start: StartPosition, seen: SeenChannel) -> bool:
    """Whether progress that is reset to this position may lie in a drained channel."""
    return seen.presence is Presence.DRAINED and _begins_in(start, seen)


def _followed(state: Group, known: Channel, seen: SeenChannel, revision: int) -> Sequence[Event]:
    if known.closed or known.ending or revision <= known.registry_revision:
        return ()
    if seen.presence is Presence.GONE and is_reading(known):
        return [ChannelClosed(seen.name, revision, everything_of(known)), *vacate(state, seen.name)]
    consumable = _consumable(state, known, seen)
    if _unchanged(known, seen, consumable):
        return ()
    event = observed(seen, revision, consumable=consumable, appeared_later=known.appeared_later)
    event = replace(
        event,
        zone=seen.zone or known.zone,
        reading=consumable and seen.presence in _KEPT,
        finished=not consumable,
        unproved=known.unproved,
        left_revision=event.left_revision if consumable else known.left_revision,
        in_order=event.in_order if consumable else known.in_order,
    )
    return [event] if consumable else [event, *vacate(state, seen.name)]


def _consumable(state: Group, known: Channel, seen: SeenChannel) -> bool:
    match seen.presence:
        case Presence.CONSUMABLE:
            return True
        case Presence.AHEAD:
            return known.consumable
        case Presence.DRAINED | Presence.ENDING:
            return known.reading or (known.consumable and not seen.given_up and _doubtful(state, known))
        case Presence.GONE:
            return False


def _doubtful(state: Group, known: Channel) -> bool:
    """Whether the drain may have ended although the group has something left to do in the channel.

    It did not wait for groups that were idle for too long or had left the lane, nor perhaps for one that registered
    while it went on, nor for a reset that came after it had asked. Others had done everything: their progress was
    read from the cluster.
    """
    left = state.spec is None or not state.spec.wants(known.id)
    return known.unproved or known.reset is not None or state.idle_expired or left


def _unchanged(known: Channel, seen: SeenChannel, consumable: bool) -> bool:
    """Whether nothing is to be recorded. Groups know many finished channels, so no event is built for them."""
    same = consumable == known.consumable and (seen.cluster, seen.topic, seen.partitions) == (
        known.cluster,
        known.topic,
        known.partitions,
    )
    if not same or (seen.zone or known.zone) != known.zone:
        return False
    kept = seen.presence in _KEPT
    if known.reading != (consumable and kept):
        return False
    return not consumable or (_left_revision(seen), seen.in_order) == (known.left_revision, known.in_order)


def _left_revision(seen: SeenChannel) -> int:
    """Returns when the channel left the route, which is recorded only if order matters."""
    return seen.left_revision if seen.in_order or seen.presence in _KEPT else 0


def recorded(
    known: Channel, consumable: bool, *, reading: bool = False, finished: bool = False, ending: bool = False
) -> ChannelObserved:
    """A `ChannelObserved` event with the known facts of a channel and new flags for the group."""
    return ChannelObserved(
        str(known.id),
        known.cluster,
        known.topic,
        known.partitions,
        consumable,
        known.registry_revision,
        known.appeared_later,
        known.zone,
        reading=reading,
        finished=finished,
        ending=ending,
        unproved=known.unproved,
        left_revision=known.left_revision,
        in_order=known.in_order,
    )


def observed(seen: SeenChannel, revision: int, *, consumable: bool, appeared_later: bool) -> ChannelObserved:
    """A `ChannelObserved` event with the registry's view of a channel."""
    return ChannelObserved(
        seen.name,
        seen.cluster,
        seen.topic,
        seen.partitions,
        consumable,
        revision,
        appeared_later,
        seen.zone,
        left_revision=_left_revision(seen),
        in_order=seen.in_order,
    )
