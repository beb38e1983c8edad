"""Turns to ask for records: so many answers at once, of everybody and of one session, and so many in a time."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from braid.kernel.errors import Exhausted
from braid.kernel.ports import Clock
from console.server.limits import (
    MESSAGES_ASKED_MAX,
    MESSAGES_ASKED_SECONDS,
    MESSAGES_AT_ONCE_MAX,
    MESSAGES_AT_ONCE_PER_SESSION,
)

_LATER: Final = "try again in a moment"


class Turns:
    """The answers that are being made, and those of the last seconds, by session."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._busy: dict[str, int] = {}
        self._asked: dict[str, deque[float]] = {}

    @contextmanager
    def turn(self, session: str) -> Iterator[None]:
        """A turn of a session for the duration of the block. Raises `Exhausted` where none is free."""
        self._check(session)
        self._asked.setdefault(session, deque()).append(self._clock.elapsed())
        self._busy[session] = self._busy.get(session, 0) + 1
        try:
            yield
        finally:
            self._busy[session] -= 1
            if not self._busy[session]:
                del self._busy[session]

    def _check(self, session: str) -> None:
        self._forget()
        if sum(self._busy.values()) >= MESSAGES_AT_ONCE_MAX:
            raise Exhausted("the console reads records for other people", remedy=_LATER)
        if self._busy.get(session, 0) >= MESSAGES_AT_ONCE_PER_SESSION:
            raise Exhausted("this browser waits for records already", field="session", remedy="wait for its answer")
        if len(self._asked.get(session, ())) >= MESSAGES_ASKED_MAX:
            message = f"this browser asked {MESSAGES_ASKED_MAX} times within {MESSAGES_ASKED_SECONDS:g} s"
            raise Exhausted(message, field="session", remedy=_LATER)

    def _forget(self) -> None:
        since = self._clock.elapsed() - MESSAGES_ASKED_SECONDS
        for session, times in list(self._asked.items()):
            while times and times[0] <= since:
                times.popleft()
            if not times:
                del self._asked[session]
