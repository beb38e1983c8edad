"""Kind `clock`: how long a service was led, since when waits began in that time, and whose wall clocks differ. Pure.

A wait of days must not be judged by one comparison of wall clocks: a clock that steps forward would end it at once. It
is measured in time that the service's leaders led, all together, each by its own clock that never steps. Time without a
leader, or without a record of it, does not count: waiting longer than promised loses nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple

from braid.kernel.decider import Context
from braid.kernel.limits.runtime import CLOCKS_APART_SECONDS, LED_GAP_SECONDS, WAITS_PER_EVENT_MAX


class Wait(NamedTuple):
    """A wait, counted in led time.

    Attributes:
        since_ms: Distinguishes it from an earlier wait of the same name.
        led_ms: The led time at which it was first seen.
    """

    since_ms: int
    led_ms: int


@dataclass(frozen=True, slots=True)
class ClockState:
    """The state of a history of kind `clock`.

    Attributes:
        led_ms: How long the service was led, as far as recorded.
        waits: Waits by name.
        apart: How far wall clocks are ahead of the median, by instance, where that is too far.
    """

    led_ms: int = 0
    waits: Mapping[str, Wait] = field(default_factory=lambda: MappingProxyType({}))
    apart: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    def waited_ms(self, name: str, since_ms: int, led_ms: int) -> int:
        """How long something has waited at a led time of `led_ms`; 0 if that is not recorded."""
        wait = self.waits.get(name)
        return max(0, led_ms - wait.led_ms) if wait is not None and wait.since_ms == since_ms else 0


# --- events


@dataclass(frozen=True, slots=True)
class TimeCounted:
    """The service's led time has reached this value."""

    led_ms: int


@dataclass(frozen=True, slots=True)
class WaitsChanged:
    """Waits began, each with the time that distinguishes it from earlier ones, or ended."""

    led_ms: int
    started: tuple[tuple[str, int], ...]
    ended: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClocksCompared:
    """Wall clocks far from the median, by instance; empty once all agree again."""

    apart: tuple[tuple[str, int], ...]


Event = TimeCounted | WaitsChanged | ClocksCompared


# --- commands


@dataclass(frozen=True, slots=True)
class CountTime:
    """Records the service's led time."""

    led_ms: int


@dataclass(frozen=True, slots=True)
class KeepWaits:
    """Records the present waits by name, each with the time it began, which distinguishes it from earlier waits."""

    led_ms: int
    going: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TellClocks:
    """Records a comparison of wall clocks."""

    apart: Mapping[str, int]


Command = CountTime | KeepWaits | TellClocks


@dataclass(frozen=True, slots=True)
class ClockDecider:
    """Rules of the kind `clock`. A command without effect leads to no event, so every command may be repeated."""

    def initial(self, history: str) -> ClockState:
        """The state of a service that was never led."""
        return ClockState()

    def decide(self, state: ClockState, command: Command, context: Context) -> Sequence[Event]:
        """See `Decider.decide`. Led time only grows; clocks are recorded again when other instances are affected."""
        match command:
            case CountTime(led_ms):
                return [TimeCounted(led_ms)] if led_ms > state.led_ms else []
            case KeepWaits():
                return list(_changes(state, command))
            case TellClocks(apart):
                known = state.apart.keys() == apart.keys()
                return [] if known else [ClocksCompared(tuple(sorted(apart.items())))]

    def evolve(self, state: ClockState, event: Event, context: Context) -> ClockState:
        """See `Decider.evolve`."""
        match event:
            case TimeCounted(led_ms):
                return replace(state, led_ms=max(state.led_ms, led_ms))
            case WaitsChanged(led_ms, started, ended):
                waits = {name: wait for name, wait in state.waits.items() if name not in ended}
                waits |= {name: Wait(since_ms, led_ms) for name, since_ms in started}
                return replace(state, led_ms=max(state.led_ms, led_ms), waits=waits)
            case ClocksCompared(apart):
                return replace(state, apart=dict(apart))


def _changes(state: ClockState, command: KeepWaits) -> Iterator[WaitsChanged]:
    known = {name: wait.since_ms for name, wait in state.waits.items()}
    started = iter([(name, at) for name, at in sorted(command.going.items()) if known.get(name) != at])
    ended = iter([name for name in sorted(known) if name not in command.going])
    while True:
        begin, end = tuple(islice(started, WAITS_PER_EVENT_MAX)), tuple(islice(ended, WAITS_PER_EVENT_MAX))
        if not begin and not end:
            return
        yield WaitsChanged(command.led_ms, begin, end)


# --- measuring


class LedTime:
    """The service's led time: the recorded part, and what this leader adds by a clock that never steps."""

    def __init__(self, recorded_ms: int, now: float) -> None:
        """Starts counting; `now` is that clock's time in seconds."""
        self._counted_ms = float(recorded_ms)
        self._looked_at = now

    def look(self, now: float) -> int:
        """Led time until now, in milliseconds. A long gap since the last call counts only a little: the process may
        have been stopped."""
        passed = min(max(0.0, now - self._looked_at), LED_GAP_SECONDS)
        self._looked_at = max(now, self._looked_at)
        self._counted_ms += passed * 1_000
        return int(self._counted_ms)


class ClockOffset(NamedTuple):
    """How far a replica's wall clock is ahead of another's, give or take `doubt_ms`."""

    ahead_ms: float
    doubt_ms: float = 0.0


def apart(offsets: Mapping[str, ClockOffset]) -> Mapping[str, int]:
    """Instances whose clock is too far from the median, and how far ahead of it. Of two, the later one is named."""
    ordered = sorted(each.ahead_ms for each in offsets.values())
    if not ordered:
        return {}
    median = ordered[(len(ordered) - 1) // 2]
    far = {name: each.ahead_ms - median for name, each in offsets.items()}
    return {
        name: round(ahead_ms)
        for name, ahead_ms in far.items()
        if abs(ahead_ms) - offsets[name].doubt_ms > CLOCKS_APART_SECONDS * 1_000
    }


HISTORIES: Final = "clock"  # the name in the store under which these histories lie, whichever service's they are
