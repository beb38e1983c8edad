"""How a group that was fenced by generations goes on with plain commits, with its progress. Pure.

Its membership ends on every cluster. Kafka forgets all that a group ever committed one retention time after its last
member left, whatever was committed since, so the group itself has to go and come again: its progress is copied to
another name, the group is deleted, and the progress is written back. Until then nothing is granted on that cluster,
so nobody adds to the progress meanwhile. Every step may be repeated from the last event; a leader that was stopped
between its authority and a deletion, and goes on much later, can make the group begin a cluster anew, which repeats
records and loses none.
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
    """Under which Kafka keeps the group's progress meanwhile."""
    return ASIDE_GROUP + group


def ending(state: Group) -> Sequence[str]:
    """Clusters on which the group has a membership that it needs no more."""
    if state.spec is None or generations.fenced(state):
        return []
    return sorted(state.fences)


def decide(state: Group, command: RecordAside | EndMembership) -> Sequence[Event]:
    """Told twice, or too late, they lead to nothing."""
    if command.cluster not in ending(state):
        return ()
    aside = state.fences[command.cluster].aside
    match command:
        case RecordAside(cluster):
            return () if aside else [ProgressSetAside(cluster)]
        case EndMembership(cluster):
            return [MembershipEnded(cluster)] if aside else ()


def evolve(state: Group, event: ProgressSetAside | MembershipEnded) -> Group:
    """What the events change."""
    fences = dict(state.fences)
    match event:
        case ProgressSetAside(cluster):
            if cluster in fences:
                fences[cluster] = replace(fences[cluster], aside=True)
        case MembershipEnded(cluster):
            fences.pop(cluster, None)
    return replace(state, fences=fences)
