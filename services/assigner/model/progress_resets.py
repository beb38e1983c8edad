"""Resets a group's progress by hand, while no member works on it. Pure.

Committed progress lies on a cluster, so there are two events: the intent, after which nothing is granted of the
channel, and the result, once the cluster holds the new progress. Every step between them may be repeated. A cluster on
which somebody could still commit under an old generation gets a newer one first (`generations`).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from braid.kernel.decider import Context
from braid.kernel.errors import NotFound, Refused, Unavailable
from braid.kernel.limits.assigner.leases import GROUP_RULES_SHOWN
from services.assigner.model.channels import ChannelObserved
from services.assigner.model.group import Channel, Group

UNTOUCHED = -1  # in place of an offset: what is committed in the partition stays


@dataclass(frozen=True, slots=True)
class ResetIntended:
    """Progress in one channel is going to be replaced.

    Attributes:
        channel: `<stream>/<lane>/<generation>`.
        before: Committed offsets when it was asked for, per partition; -1 for none.
        offsets: What is to be committed, per partition; -1 where progress stays.
    """

    channel: str
    before: tuple[int, ...]
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ProgressReset:
    """The progress of an intent is committed in its cluster."""

    channel: str
    offsets: tuple[int, ...]


ResetEvent = ResetIntended | ProgressReset


@dataclass(frozen=True, slots=True)
class ResetProgress:
    """Replaces progress in channels, as looked up a moment ago; `drained` are those of them that are begun anew."""

    channels: tuple[ResetIntended, ...]
    drained: tuple[ChannelObserved, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordReset:
    """Records that these offsets are committed in the channel's cluster."""

    channel: str
    offsets: tuple[int, ...]


ResetCommand = ResetProgress | RecordReset


def decide(state: Group, command: ResetCommand) -> Sequence[ResetEvent | ChannelObserved]:
    """Decides on a reset; a repeated or late result leads to nothing. Raises `NotFound`, `Refused`, `Unavailable`."""
    match command:
        case ResetProgress(channels, drained):
            check(state, [each.channel for each in channels], {each.channel for each in drained})
            return [*(each for each in drained if not _consumed(state, each.channel)), *channels]
        case RecordReset(channel, offsets):
            known = state.channels.get(channel)
            return [ProgressReset(channel, offsets)] if known is not None and known.reset == offsets else ()


def check(state: Group, channels: Sequence[str], drained: Collection[str] = ()) -> None:
    """Raises `NotFound`, `Refused` or `Unavailable` unless progress in these channels may be replaced now.

    Drained channels in which nothing is left for the group are begun anew, unless they are about to be deleted.
    """
    held: dict[str, int] = {}
    for name in channels:
        known = state.channels.get(name)
        if name in drained and not _consumed(state, name) and not (known and (known.closed or known.ending)):
            continue
        if known is None or not resettable(state, known):
            raise NotFound(f"group {state.name!r} does not consume channel {name}", field="stream")
        if known.awaits_start:
            raise Unavailable(f"where {state.name!r} starts in {name} is not fixed yet", remedy="try again")
        for _, lease in state.leases_of(name):
            if lease.holder:
                member = state.members.get(lease.holder)
                who = member.client_id if member else lease.holder
                held[who] = held.get(who, 0) + 1
    if held:
        named = ", ".join(f"{who} ({count})" for who, count in sorted(held.items())[:GROUP_RULES_SHOWN])
        raise Refused(
            f"{sum(held.values())} leases are held, by {named}: their work would overwrite it",
            field="group",
            remedy=f"stop the members of {state.name} first, then repeat it",
        )


def resettable(state: Group, channel: Channel) -> bool:
    """Whether the group consumes the channel, now or once its progress is replaced."""
    return channel.consumable and not channel.closed and state.spec is not None and state.spec.wants(channel.id)


def _consumed(state: Group, name: str) -> bool:
    known = state.channels.get(name)
    return known is not None and resettable(state, known)


def pending(state: Group) -> Sequence[str]:
    """Returns channels whose progress is being replaced."""
    return sorted(name for name, each in state.channels.items() if each.reset is not None and resettable(state, each))


def evolve(state: Group, event: ResetEvent, context: Context) -> Group:
    """Applies an event about resets.

    A reset means that the group is to continue, so its idle wait begins anew.
    """
    state = replace(state, resets=state.resets + 1)
    known = state.channels.get(event.channel)
    if known is None:
        return state
    if not state.members:
        state = state.idle_from(context.now_ms)
    if isinstance(event, ResetIntended):
        known = replace(known, reset=event.offsets, unproved=True)
    else:
        known = replace(known, reset=None)
    return replace(state, channels={**state.channels, event.channel: known})
