"""When a group's generation on a cluster must be bumped, and what waits for that. Pure.

A member commits with the generation it was lent. A member that lost a lease without giving it back still has the newest
generation. So a newer one is made before that lease, or any other on its cluster, is granted. From then on the cluster
itself refuses commits of the former holder. One bump serves all members removed before it, whenever it was joined: they
are not lent the new generation, and theirs is at most the one stored at their removal.

After a restore of the store, all generations are bumped before anything is granted. Members that got a lease after the
backup are unknown, and have the newest generation too. Leases that the backup knows get new epochs when their members
are back, above those granted after it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from braid.kernel.decider import Context
from braid.kernel.ids import split_epoch
from braid.kernel.ports import Generation
from services.assigner.model import group_channels, progress_resets
from services.assigner.model.commands import (
    IntendBump,
    RecordBump,
    WaiveFencing,
)
from services.assigner.model.events import (
    BumpIntended,
    Event,
    FencingWaived,
    GenerationBumped,
    LeasesReleased,
    ReleaseReason,
)
from services.assigner.model.group import Channel, ClusterFence, Fencing, Group, Ownership, channel_of

FIRST_INCARNATION: Final = 1  # of a store that was never restored
_UNCLEAN = (ReleaseReason.MEMBER_GONE, ReleaseReason.TAKEN)


def fenced(state: Group) -> bool:
    """Whether the group's commits carry generations."""
    return state.spec is not None and state.spec.fencing is Fencing.GENERATION


def fence_of(state: Group, cluster: str) -> ClusterFence:
    """Returns the group's membership on a cluster; one that was never joined is due."""
    return state.fences.get(cluster) or ClusterFence()


def lent(state: Group, cluster: str) -> Generation | None:
    """Returns the generation for members' commits on a cluster; None for plain commits, or while none can be lent."""
    fence = fence_of(state, cluster)
    if not fenced(state) or not fence.generation:
        return None
    return Generation(fence.generation, fence.member_id)


def lends_nothing_yet(state: Group, cluster: str) -> bool:
    """Whether a holder there would commit plainly now although the group is fenced."""
    return fenced(state) and lent(state, cluster) is None


def gated(state: Group) -> frozenset[str]:
    """Returns clusters on which nothing may be granted now."""
    if not fenced(state):
        return frozenset(state.fences)  # memberships that still end: plain commits are refused there (`unfencing`)
    fences = {cluster: fence_of(state, cluster) for cluster in _clusters(state)}
    return frozenset(cluster for cluster, fence in fences.items() if fence.due and not fence.waived)


def wants_bump(state: Group, cluster: str) -> bool:
    """Whether a newer generation is needed for leases that can be held there, or one was begun."""
    fence = fence_of(state, cluster)
    needed = bool(state.members) or fence.intended or cluster in _resetting(state)
    return fenced(state) and needed and cluster in _clusters(state) and fence.due


def wanting(state: Group) -> Sequence[str]:
    """Returns the clusters for which `wants_bump` holds."""
    return [cluster for cluster in sorted(_clusters(state)) if wants_bump(state, cluster)]


def intents(state: Group) -> Sequence[Event]:
    """Returns bumps that need no new member id from the cluster first, in the decision that needs them."""
    fences = {cluster: fence_of(state, cluster) for cluster in wanting(state)}
    return [
        BumpIntended(cluster, fence.member_id)
        for cluster, fence in fences.items()
        if fence.member_id and not fence.intended
    ]


def nothing_granted_since_restore(state: Group, incarnation: int) -> bool:
    """Whether the store was restored from a backup, and the group granted nothing in its new incarnation yet.

    Leases that were granted after the backup was taken are unknown then, and so are their holders.
    """
    return incarnation > FIRST_INCARNATION and split_epoch(state.last_epoch)[0] < incarnation


def after_restore(state: Group, context: Context) -> Sequence[Event]:
    """Returns bumps before the first grant in a new incarnation: unknown holders have the newest generation."""
    incarnation = split_epoch(context.leader_epoch)[0]
    if not fenced(state) or not nothing_granted_since_restore(state, incarnation):
        return ()
    return [
        BumpIntended(cluster, fence.member_id)
        for cluster, fence in sorted(state.fences.items())
        if not fence.due and state.bumped_in.get(cluster, 0) < incarnation
    ]


def may_be_outdated(state: Group, epoch: int, context: Context) -> bool:
    """Whether a lease under this epoch may have been granted to another after the backup that the store is.

    Its member cannot know: in an at-least-once group it works on while it reaches no assigner. An exclusive member does
    not, so what it still holds nobody else got.
    """
    shared = state.spec is not None and state.spec.ownership is Ownership.AT_LEAST_ONCE
    return shared and split_epoch(epoch)[0] < split_epoch(context.leader_epoch)[0]


def intends(state: Group, cluster: str, member_id: str) -> bool:
    """Whether a bump with this member is intended, and its result not known."""
    fence = fence_of(state, cluster)
    return fence.intended and fence.member_id == member_id


def decide(state: Group, command: IntendBump | RecordBump | WaiveFencing) -> Sequence[Event]:
    """Decides on a bump; a repeated or late command leads to nothing."""
    fence = fence_of(state, command.cluster)
    if not fenced(state):
        return ()
    match command:
        case IntendBump(cluster, member_id, refused):
            stale = refused and (fence.member_id, fence.generation) != (member_id, refused)
            return () if intends(state, cluster, member_id) or stale else [BumpIntended(cluster, member_id)]
        case RecordBump(cluster, member_id, generation):
            counts = _counts(fence, member_id, generation)
            return [GenerationBumped(cluster, member_id, generation)] if counts else ()
        case WaiveFencing(cluster):
            return [FencingWaived(cluster)] if waivable(state, cluster) else ()


def waivable(state: Group, cluster: str) -> bool:
    """Whether grants may continue although a bump fails: only with some generation, and never in exclusive groups."""
    fence = fence_of(state, cluster)
    shared = state.spec is not None and state.spec.ownership is Ownership.AT_LEAST_ONCE
    return shared and wants_bump(state, cluster) and fence.generation > 0 and not fence.waived


def evolve(state: Group, event: BumpIntended | GenerationBumped | FencingWaived, context: Context) -> Group:
    """Applies an event about generations."""
    fence = fence_of(state, event.cluster)
    match event:
        case BumpIntended(_, member_id):
            if member_id != fence.member_id:  # nothing of the old one can be lent, so nothing can be waived either
                fence = ClusterFence(member_id)
            fence = replace(fence, due=True, intended=True)
        case GenerationBumped(_, member_id, generation):
            if _counts(fence, member_id, generation):
                fence = ClusterFence(member_id, generation, due=False)
                state = _bumped(state, event.cluster, split_epoch(context.leader_epoch)[0])
        case FencingWaived():
            fence = replace(fence, waived=True)
    return replace(state, fences={**state.fences, event.cluster: fence})


def after_release(state: Group, event: LeasesReleased) -> Mapping[str, ClusterFence]:
    """Returns the fences after these leases are freed: a holder that did not give its lease back could still commit."""
    if not fenced(state):
        return state.fences
    unclean = event.reason in _UNCLEAN
    names = [each.lease for each in event.leases] if unclean else event.commit_waived
    clusters = {channel.cluster for channel in _channels(state, names)}
    removed = {cluster: replace(fence, due=True) for cluster, fence in state.fences.items() if cluster in clusters}
    return {**state.fences, **removed} if removed else state.fences


def _bumped(state: Group, cluster: str, incarnation: int) -> Group:
    if not nothing_granted_since_restore(state, incarnation):
        return state
    return replace(state, bumped_in={**state.bumped_in, cluster: incarnation})


def _counts(fence: ClusterFence, member_id: str, generation: int) -> bool:
    return member_id == fence.member_id and generation > fence.generation


def _clusters(state: Group) -> set[str]:
    return {channel.cluster for channel in group_channels.wanted(state).values()} | _resetting(state)


def _resetting(state: Group) -> set[str]:
    """Returns clusters where progress is to be replaced, so that no earlier holder may overwrite it."""
    return {state.channels[name].cluster for name in progress_resets.pending(state)}


def _channels(state: Group, leases: Iterable[str]) -> Iterable[Channel]:
    for name in {channel_of(lease) for lease in leases}:
        if name in state.channels:
            yield state.channels[name]
