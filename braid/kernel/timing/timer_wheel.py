"""A timing wheel: keys and when they are due, on a clock that the caller reads.

It never sleeps and never reads a clock itself. It is a hashed wheel after Varghese and Lauck ("Hashed and Hierarchical
Timing Wheels", 1987, scheme 6): scheduling and cancelling are O(1), advancing costs what is due plus one visit of each
slot passed. Timers further away than one turn stay in their slot and are checked once a turn.
"""

from collections.abc import Hashable
from typing import Final, Generic, NamedTuple, TypeVar

from braid.kernel.errors import Exhausted, Invalid
from braid.kernel.limits.envelope import TIMERS_MAX

Key = TypeVar("Key", bound=Hashable)

_SLOTS: Final = 512


class _Timer(NamedTuple):
    due_ms: int
    order: int  # of scheduling, among equal due times
    tick: int  # names the slot


class TimerWheel(Generic[Key]):
    """Keys with one due time each. Times are milliseconds on any one clock; due times are kept exactly."""

    __slots__ = ("_now_ms", "_scheduled", "_slots", "_tick_ms", "_timers", "_timers_max")

    def __init__(self, now_ms: int, *, tick_ms: int = 10, timers_max: int = TIMERS_MAX) -> None:
        """Begins at `now_ms`.

        Args:
            now_ms: The present time.
            tick_ms: Width of a slot; a turn of the wheel takes 512 of them.
            timers_max: How many keys may wait at once.

        Raises:
            Invalid: `tick_ms` or `timers_max` is below 1.
        """
        if tick_ms < 1 or timers_max < 1:
            raise Invalid("a wheel needs a tick and room of at least 1", field="tick_ms")
        self._now_ms = now_ms
        self._tick_ms = tick_ms
        self._timers_max = timers_max
        self._scheduled = 0
        self._timers: dict[Key, _Timer] = {}
        self._slots: list[set[Key]] = [set() for _ in range(_SLOTS)]

    def __len__(self) -> int:
        """The number of keys that wait."""
        return len(self._timers)

    def __contains__(self, key: Key) -> bool:
        return key in self._timers

    def schedule(self, key: Key, due_ms: int) -> None:
        """Makes a key due at a time; one that waits already is moved. A time that has passed is due at once.

        Raises:
            Exhausted: `timers_max` keys wait already; nothing has changed.
        """
        if not self.cancel(key) and len(self._timers) >= self._timers_max:
            raise Exhausted(f"{self._timers_max} timers wait already", remedy="take in no more work until some are due")
        self._scheduled += 1
        tick = max(due_ms, self._now_ms) // self._tick_ms
        self._timers[key] = _Timer(due_ms, self._scheduled, tick)
        self._slots[tick % _SLOTS].add(key)

    def cancel(self, key: Key) -> bool:
        """Removes a key; returns whether it was waiting."""
        timer = self._timers.pop(key, None)
        if timer is None:
            return False
        self._slots[timer.tick % _SLOTS].discard(key)
        return True

    def advance(self, now_ms: int) -> list[Key]:
        """Moves the wheel to `now_ms` (it never turns back) and takes out what is due.

        Returns:
            The keys due at or before that time, by due time, then in the order they were scheduled.
        """
        first = self._now_ms // self._tick_ms
        self._now_ms = max(self._now_ms, now_ms)
        last = min(self._now_ms // self._tick_ms, first + _SLOTS - 1)
        due: list[Key] = []
        for tick in range(first, last + 1):
            slot = self._slots[tick % _SLOTS]
            due += [key for key in slot if self._timers[key].due_ms <= self._now_ms]
        due.sort(key=self._timers.__getitem__)
        for key in due:
            self.cancel(key)
        return due

    def next_due_ms(self) -> int | None:
        """Returns the earliest due time, None when no key waits: the caller may sleep until then.

        Costs up to one turn.
        """
        if not self._timers:
            return None
        first = self._now_ms // self._tick_ms
        for tick in range(first, first + _SLOTS):
            near = [timer.due_ms for key in self._slots[tick % _SLOTS] if (timer := self._timers[key]).tick == tick]
            if near:
                return min(near)
        return min(timer.due_ms for timer in self._timers.values())
