"""The rules of the history of alerts: which events each command leads to, and the state after each event. Pure.

Invariants of every prefix of the history:

- An alert fires only while it is not open, and is resolved only while it is open. So a command that is repeated, by
  a new leader or after a lost answer, records nothing twice.
- At most `ALERTS_OPEN_MAX` alerts are open, and at most `SILENCES_MAX` are silenced.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from braid.kernel.decider import Context
from braid.kernel.errors import Exhausted, Invalid, NotFound
from braid.kernel.limits.lagmon.alerts import (
    ALERTS_OPEN_MAX,
    ALERTS_RESOLVED_MAX,
    ALERTS_RESOLVED_SECONDS,
    SILENCE_REASON_MAX,
    SILENCE_SECONDS_MAX,
    SILENCE_SECONDS_MIN,
    SILENCES_MAX,
)
from services.lagmon.alerts.decisions.events import (
    AlertFired,
    AlertResolved,
    AlertSilenced,
    Command,
    CreateSilence,
    DeleteSilence,
    Event,
    ExpireSilences,
    RecordChanges,
    SilenceEnded,
)
from services.lagmon.alerts.decisions.model import Alert, Silence, check_alert_name

T = TypeVar("T")
EXPIRED: Final = "expired"


@dataclass(frozen=True, slots=True)
class Alerts:
    """All alerts of the mesh.

    Attributes:
        open: Alerts that fire, by name.
        resolved: Those resolved lately, oldest first; bounded by number and age.
        silences: By the alert's name.
    """

    open: Mapping[str, Alert] = field(default_factory=dict)
    resolved: tuple[Alert, ...] = ()
    silences: Mapping[str, Silence] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AlertsDecider:
    """The `kernel.decider.Decider` of the kind `alerts`."""

    def initial(self, history: str) -> Alerts:
        """The state before any alert."""
        return Alerts()

    def decide(self, state: Alerts, command: Command, context: Context) -> Sequence[Event]:
        """Returns the events the command leads to. Raises `BraidError` to refuse it; the state is unchanged then."""
        match command:
            case RecordChanges():
                return _changes(state, command)
            case CreateSilence():
                return [_silence(state, command, context.now_ms)]
            case DeleteSilence(alert):
                if alert not in state.silences:
                    remedy = "list alerts and their silences: braid get alerts -o wide"
                    raise NotFound(f"there is no silence of {alert}", field="alert", remedy=remedy)
                return [SilenceEnded(alert, f"ended by {context.actor}")]
            case ExpireSilences():
                over = sorted(name for name, each in state.silences.items() if each.expire_ms <= context.now_ms)
                return [SilenceEnded(name, EXPIRED) for name in over]

    def evolve(self, state: Alerts, event: Event, context: Context) -> Alerts:
        """Returns the state after the event."""
        now = context.now_ms
        match event:
            case AlertFired(key, severity, summary):
                return replace(state, open={**state.open, key.name: Alert(key, severity, summary, now)})
            case AlertResolved(name, reason):
                ended = replace(state.open[name], resolved_ms=now, resolve_reason=reason)
                return replace(state, open=_without(state.open, name), resolved=_kept((*state.resolved, ended), now))
            case AlertSilenced(name, reason, expire_ms):
                silence = Silence(reason, now, expire_ms, context.actor)
                return replace(state, silences={**state.silences, name: silence})
            case SilenceEnded(name):
                return replace(state, silences=_without(state.silences, name))


def _changes(state: Alerts, command: RecordChanges) -> Sequence[Event]:
    resolved = {name: reason for name, reason in command.resolved if name in state.open}
    room = ALERTS_OPEN_MAX - (len(state.open) - len(resolved))
    fresh = {each.key.name: each for each in command.firing if each.key.name not in state.open}
    chosen = sorted(fresh.values(), key=lambda each: (each.severity, each.key))[: max(0, room)]
    events: list[Event] = [AlertResolved(name, resolved[name]) for name in sorted(resolved)]
    return events + [AlertFired(*each) for each in chosen]


def _silence(state: Alerts, command: CreateSilence, now_ms: int) -> AlertSilenced:
    name = check_alert_name(command.alert, "alert")
    shortest, longest = SILENCE_SECONDS_MIN * 1_000, SILENCE_SECONDS_MAX * 1_000
    if not shortest <= command.lasting_ms <= longest:
        remedy = f"use {SILENCE_SECONDS_MIN:g} s to {SILENCE_SECONDS_MAX / 86_400:g} days; no silence is for ever"
        raise Invalid(f"a silence of {command.lasting_ms} ms", field="lasting_ms", remedy=remedy)
    if not command.reason.strip():
        raise Invalid("a silence needs a reason", field="reason", remedy="say what is being done about the alert")
    if len(command.reason) > SILENCE_REASON_MAX:
        message = f"a reason of {len(command.reason)} characters"
        raise Invalid(message, field="reason", remedy=f"use {SILENCE_REASON_MAX} at most")
    if name not in state.silences and len(state.silences) >= SILENCES_MAX:
        raise Exhausted(f"{SILENCES_MAX} alerts are silenced", field="alert", remedy="end a silence first")
    return AlertSilenced(name, command.reason, now_ms + command.lasting_ms)


def _kept(resolved: tuple[Alert, ...], now_ms: int) -> tuple[Alert, ...]:
    oldest = now_ms - ALERTS_RESOLVED_SECONDS * 1_000
    return tuple(each for each in resolved[-ALERTS_RESOLVED_MAX:] if each.resolved_ms >= oldest)


def _without(table: Mapping[str, T], name: str) -> Mapping[str, T]:
    left = dict(table)
    left.pop(name, None)
    return left
