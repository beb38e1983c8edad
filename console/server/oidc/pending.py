"""Sign-ins that were begun and not finished, each bound to the browser that began it. Pure: times are given.

A record lives on the server. The browser has a cookie with the record's id, which sites elsewhere cannot set or read.
"""

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from console.server.limits import LOGIN_SECONDS, LOGINS_MAX, LOGINS_PER_BROWSER_MAX
from console.server.problems import Problem

_BYTES = 32


class Pending(NamedTuple):
    """One sign-in under way: its secrets, the path to return to, and when it ends."""

    state: str
    nonce: str
    verifier: str
    to: str
    expire_ms: int

    @property
    def challenge(self) -> str:
        """The digest of the verifier that the provider gets (RFC 7636, S256)."""
        return _text(hashlib.sha256(self.verifier.encode()).digest())


@dataclass(eq=False)
class _Browser:
    expire_ms: int
    pending: dict[str, Pending] = field(default_factory=dict)  # by state
    problem: Problem | None = None


class PendingLogins:
    """The sign-ins that browsers have begun, a bounded number; at the bound the oldest are forgotten."""

    def __init__(self, entropy: Callable[[int], bytes]) -> None:
        self._entropy = entropy
        self._browsers: dict[str, _Browser] = {}  # by the id in the cookie, the one that began last at the end

    def begin(self, id: str, to: str, now_ms: int) -> tuple[str, Pending]:
        """Begins a sign-in for the browser of a cookie, or for one without; returns the id for its cookie."""
        browser = self._browser(id, now_ms)
        if browser is None:
            id, browser = _text(self._entropy(_BYTES)), _Browser(0)
        self._browsers.pop(id, None)
        while len(self._browsers) >= LOGINS_MAX:
            del self._browsers[next(iter(self._browsers))]
        self._browsers[id] = browser
        state, nonce, verifier = (_text(self._entropy(_BYTES)) for _ in range(3))
        browser.expire_ms = now_ms + int(LOGIN_SECONDS * 1_000)
        browser.problem = None
        while len(browser.pending) >= LOGINS_PER_BROWSER_MAX:
            del browser.pending[next(iter(browser.pending))]
        browser.pending[state] = Pending(state, nonce, verifier, to, browser.expire_ms)
        return id, browser.pending[state]

    def take(self, id: str, state: str, now_ms: int) -> Pending | None:
        """The sign-in of an answer, once; None where this browser began none, or too long ago."""
        browser = self._browser(id, now_ms)
        found = browser.pending.pop(state, None) if browser is not None else None
        return found if found is not None and now_ms < found.expire_ms else None

    def fail(self, id: str, problem: Problem) -> None:
        """Keeps why a sign-in failed, for the page that tells it."""
        if id in self._browsers:
            self._browsers[id].problem = problem

    def problem(self, id: str, now_ms: int) -> Problem | None:
        """Why the browser's last sign-in failed; None where it did not."""
        browser = self._browser(id, now_ms)
        return browser.problem if browser is not None else None

    def finish(self, id: str) -> bool:
        """Forgets a browser that is signed in, unless it has begun another; returns whether it did."""
        browser = self._browsers.get(id)
        if browser is not None and browser.pending:
            return False
        self._browsers.pop(id, None)
        return True

    def close_ended(self, now_ms: int) -> None:
        """Forgets what is too old."""
        for id in [each for each, browser in self._browsers.items() if now_ms >= browser.expire_ms]:
            del self._browsers[id]

    def _browser(self, id: str, now_ms: int) -> _Browser | None:
        browser = self._browsers.get(id)
        return browser if browser is not None and now_ms < browser.expire_ms else None


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
