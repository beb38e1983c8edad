"""How long drains wait for a group without members: an alert after half of the wait, expiry after all of it. Pure.

The shell measures the time, as time that assigners led (`braid.runtime.clocks.waits`). No wall clock decides.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from braid.kernel.limits.runtime import IDLE_ALERT_SHARE
from services.assigner.model.commands import LookAtIdle
from services.assigner.model.events import (
    GroupIdleAlerted,
    GroupIdleExpired,
)
from services.assigner.model.group import Group


@dataclass(frozen=True, slots=True)
class IdleWait:
    """The idle wait of one group, as far as it is recorded. Milliseconds.

    Attributes:
        whole_ms: So long drains wait for it.
        waited_ms: Since it was seen without members.
        alerted_ms: Since that was told.
    """

    whole_ms: int
    waited_ms: int
    alerted_ms: int = 0

    @property
    def alert_due(self) -> bool:
        """Whether half of the wait has passed, so that an alert is due."""
        return self.waited_ms >= IDLE_ALERT_SHARE * self.whole_ms

    @property
    def left_ms(self) -> int:
        """Returns how much longer drains wait at least; no group expires that was not alerted long before."""
        after_alert = round((1 - IDLE_ALERT_SHARE) * self.whole_ms) - self.alerted_ms
        return max(0, self.whole_ms - self.waited_ms, after_alert)


def waiting(state: Group) -> bool:
    """Whether drains wait for a group that has no members."""
    return state.spec is not None and not state.members and not state.idle_expired


def waits(groups: Mapping[str, Group]) -> Mapping[str, int]:
    """Returns the waits of these groups by name, each with the time it began."""
    idle = {name: state for name, state in groups.items() if waiting(state)}
    alerted = {alert_name(name): state.idle_since_ms for name, state in idle.items() if state.idle_alerted}
    return {**{wait_name(name): state.idle_since_ms for name, state in idle.items()}, **alerted}


def wait_name(group: str) -> str:
    """Returns the name under which a group's idle wait is counted."""
    return f"group/{group}"


def alert_name(group: str) -> str:
    """Returns the name under which the time since the alert is counted."""
    return f"alert/{group}"


def decide(state: Group, command: LookAtIdle) -> Sequence[GroupIdleAlerted | GroupIdleExpired]:
    """Decides on an alert or on expiry by how long the group was waited for.

    Ignores a measurement of an earlier wait.
    """
    if state.spec is None or not waiting(state) or command.since_ms != state.idle_since_ms:
        return ()
    wait = IdleWait(command.whole_ms, command.waited_ms, command.alerted_ms if state.idle_alerted else 0)
    if not state.idle_alerted:
        return [GroupIdleAlerted(state.spec, wait.left_ms)] if wait.alert_due else ()
    return [GroupIdleExpired()] if not wait.left_ms else ()


def evolve(state: Group, event: GroupIdleAlerted | GroupIdleExpired) -> Group:
    """Applies an event. An alert changes the etag, as the event that carries it does in the first release."""
    if isinstance(event, GroupIdleExpired):
        return replace(state, idle_expired=True)
    return replace(state, idle_alerted=True, spec_changes=state.spec_changes + 1)
