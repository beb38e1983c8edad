"""The rules of the history of outlets: which events each command leads to, and the state after each event. Pure.

Invariants of every prefix of the history:

- Of one firing at most one notification to an outlet is begun and not ended, and only that one ends. So a command that
  is repeated, by a new leader or after a lost answer, records nothing twice.
- At most `OUTLETS_MAX` outlets are known, and of each at most `NOTIFICATIONS_KEPT_MAX` firings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from braid.kernel.decider import Context
from braid.kernel.limits.lagmon.alert_outlets import (
    NOTIFICATION_OVER_SECONDS,
    NOTIFICATIONS_KEPT_MAX,
    OUTLET_REASON_MAX,
    OUTLETS_MAX,
)
from services.lagmon.alerts.outlets.decisions.events import (
    BeginNotification,
    Command,
    EndNotification,
    Event,
    NoteTrouble,
    NotificationBegun,
    NotificationEnded,
    OpenOutlet,
    OutletFailed,
    OutletOpened,
    OutletRecovered,
)
from services.lagmon.alerts.outlets.decisions.model import (
    Firing,
    NotificationOutcome,
    NotificationType,
    Outlet,
    Told,
)


@dataclass(frozen=True, slots=True)
class Outlets:
    """All outlets that leaders served, by name; also those that the settings do not name any more."""

    known: Mapping[str, Outlet] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OutletsDecider:
    """The `kernel.decider.Decider` of the kind `outlets`."""

    def initial(self, history: str) -> Outlets:
        """The state before any outlet."""
        return Outlets()

    def decide(self, state: Outlets, command: Command, context: Context) -> Sequence[Event]:
        """Returns the events the command leads to; none for what is recorded already."""
        outlet = state.known.get(command.outlet)
        match command:
            case OpenOutlet(name):
                return [] if outlet is not None else [OutletOpened(name)]
            case _ if outlet is None:
                return []
            case NoteTrouble(name, reason):
                if reason:
                    return [] if outlet.trouble else [OutletFailed(name, reason[:OUTLET_REASON_MAX])]
                return [OutletRecovered(name)] if outlet.trouble else []
            case BeginNotification(name, alert, fired_ms, type):
                told = outlet.told.get(Firing(alert, fired_ms), Told())
                return [NotificationBegun(name, alert, fired_ms, type)] if told.begun is None else []
            case EndNotification(name, alert, fired_ms, type, outcome):
                told = outlet.told.get(Firing(alert, fired_ms), Told())
                is_next = told == Told() if outcome is NotificationOutcome.SKIPPED else told.begun is type
                return [NotificationEnded(name, alert, fired_ms, type, outcome)] if is_next else []

    def evolve(self, state: Outlets, event: Event, context: Context) -> Outlets:
        """Returns the state after the event."""
        name, now_ms = event.outlet, context.now_ms
        outlet = state.known.get(name) or Outlet(now_ms)
        match event:
            case OutletOpened():
                pass
            case OutletFailed(_, reason):
                outlet = replace(outlet, trouble=reason, trouble_ms=now_ms)
            case OutletRecovered():
                outlet = replace(outlet, trouble="", trouble_ms=0)
            case NotificationBegun(_, alert, fired_ms, type):
                firing = Firing(alert, fired_ms)
                told = replace(outlet.told.get(firing, Told()), begun=type, at_ms=now_ms)
                outlet = replace(outlet, told=_bounded({**outlet.told, firing: told}, now_ms))
            case NotificationEnded(_, alert, fired_ms, type, outcome):
                firing = Firing(alert, fired_ms)
                skipped = outcome is NotificationOutcome.SKIPPED
                last = NotificationType.RESOLVED if skipped else type
                told = Told(last, None, outlet.told.get(firing, Told()).count + 1, now_ms)
                outlet = replace(outlet, told=_bounded({**outlet.told, firing: told}, now_ms))
        return Outlets(_newest({**state.known, name: outlet}, name))


def _bounded(told: Mapping[Firing, Told], now_ms: int) -> Mapping[Firing, Told]:
    """Forgets firings that ended long ago: nobody is told of them again. Beyond the bound the oldest go."""
    oldest = now_ms - 2 * NOTIFICATION_OVER_SECONDS * 1_000
    kept = {
        firing: each
        for firing, each in told.items()
        if each.last is not NotificationType.RESOLVED or each.begun is not None or each.at_ms > oldest
    }
    if len(kept) <= NOTIFICATIONS_KEPT_MAX:
        return kept
    order = sorted(kept.items(), key=lambda each: (each[1].last is not NotificationType.RESOLVED, each[1].at_ms))
    return dict(order[len(kept) - NOTIFICATIONS_KEPT_MAX :])


def _newest(known: Mapping[str, Outlet], kept: str) -> Mapping[str, Outlet]:
    """Forgets the outlet that was opened first if there are too many: settings changed often."""
    if len(known) <= OUTLETS_MAX:
        return known
    first = min((name for name in known if name != kept), key=lambda name: known[name].since_ms)
    return {name: each for name, each in known.items() if name != first}
