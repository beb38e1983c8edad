"""Turns a group fenced by generations into one with plain commits, and keeps its progress. Pure.

Its membership ends on every cluster. One retention time after a group's last member left, Kafka forgets everything the
group ever committed, whatever was committed since. So the Kafka group must be deleted and made again: its progress is
copied to another name, the group is deleted, and the progress is written back. Until then nothing is granted on that
cluster, so the progress cannot change meanwhile.

Every step may be repeated from the last event. A leader that was paused between the check of its authority and a
deletion, and resumes much later, can make the group begin a cluster anew. That repeats records and loses none.
"""

from collections.abc import Sequence
from dataclasses import replace

from braid.kernel.ids import ASIDE_GROUP
from services.assigner.model import generations
from services.assigner.model.commands import (
    EndMembership,
    RecordAside,
)
from services.assigner.model.events import (
    Event,
    MembershipEnded,
    ProgressSetAside,
)
from services.assigner.model.group import Group


def aside_name(group: str) -> str:
    """Returns the name under which Kafka keeps the group's progress meanwhile."""
    return ASIDE_GROUP + group


def ending(state: Group) -> Sequence[str]:
    """Returns clusters on which the group has a membership that it no longer needs."""
    if state.spec is None or generations.fenced(state):
        return []
    return sorted(state.fences)


def decide(state: Group, command: RecordAside | EndMembership) -> Sequence[Event]:
    """Decides on a step; a repeated or late command leads to nothing."""
    if command.cluster not in ending(state):
        return ()
    aside = state.fences[command.cluster].aside
    match command:
        case RecordAside(cluster):
            return () if aside else [ProgressSetAside(cluster)]
        case EndMembership(cluster):
            return [MembershipEnded(cluster)] if aside else ()


def evolve(state: Group, event: ProgressSetAside | MembershipEnded) -> Group:
    """Applies the events of these steps."""
    fences = dict(state.fences)
    match event:
        case ProgressSetAside(cluster):
            if cluster in fences:
                fences[cluster] = replace(fences[cluster], aside=True)
        case MembershipEnded(cluster):
            fences.pop(cluster, None)
    return replace(state, fences=fences)
