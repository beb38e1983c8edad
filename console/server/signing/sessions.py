"""Sessions of browsers: who is signed in, with which rights, until when. Kept in memory; they end with the process."""

from dataclasses import dataclass, field

from braid.kernel.ports import Host
from console.server.limits import SESSION_SECONDS, SESSIONS_ENDED_MAX, SESSIONS_MAX
from console.server.problems import Problem
from console.server.reads.reader import Reader

_ID_BYTES = 32


@dataclass(eq=False)
class Identity:
    """The rights that sessions read and act with.

    Attributes:
        key: The same for sessions that may share what was read: those of one token, or those of the console's own user.
        how: `link`, `token` or `oidc`.
        reader: Clients of the services that show this identity.
        principal: The caller as the mesh names it; empty where it does not.
        expire_ms: When it ends by itself, by the wall clock; 0 for never.
        renewable: Whether that moment is moved while somebody uses it.
        problem: Why it could not be renewed when that was tried last.
        sessions: How many sessions use it.
        sign_ins: How many requests are about to open a session of it, and wait for the mesh.
    """

    key: str
    how: str
    reader: Reader
    principal: str = ""
    expire_ms: int = 0
    renewable: bool = False
    problem: Problem | None = None
    sessions: int = 0
    sign_ins: int = 0

    @property
    def in_use(self) -> bool:
        """Whether its connections must stay open."""
        return bool(self.sessions or self.sign_ins)


@dataclass(eq=False)
class Session:
    """A browser that signed in. `csrf` proves that a request comes from our own page."""

    id: str = field(repr=False)
    csrf: str = field(repr=False)
    identity: Identity
    expire_ms: int
    closed: bool = False

    def ended(self, now_ms: int) -> bool:
        """Whether it counts no more."""
        over = self.identity.expire_ms
        return self.closed or now_ms >= self.expire_ms or (0 < over <= now_ms)


class Sessions:
    """All sessions of one console, a bounded number."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._sessions: dict[str, Session] = {}
        self._why_ended: dict[str, Problem] = {}  # by the session's id, the latest at the end

    def open(self, identity: Identity) -> Session:
        """Begins a session; at the bound the oldest one ends."""
        while len(self._sessions) >= SESSIONS_MAX:
            self.close(next(iter(self._sessions.values())))
        now_ms = self._host.clock.now_ms()
        expire_ms = now_ms + int(SESSION_SECONDS * 1_000)
        if identity.expire_ms and not identity.renewable:
            expire_ms = min(expire_ms, identity.expire_ms)
        random = self._host.randomness.entropy
        session = Session(random(_ID_BYTES).hex(), random(_ID_BYTES).hex(), identity, expire_ms)
        self._sessions[session.id] = session
        identity.sessions += 1
        return session

    def find(self, id: str) -> Session | None:
        """The session of a cookie; None where there is none, or it has ended."""
        session = self._sessions.get(id)
        if session is not None and session.ended(self._host.clock.now_ms()):
            self._end(session)
            return None
        return session

    def why_ended(self, id: str) -> Problem | None:
        """Why the session of a cookie ended before its time; None where that is not known."""
        return self._why_ended.get(id)

    def close(self, session: Session) -> None:
        """Ends a session, and its open streams with it."""
        if self._sessions.pop(session.id, None) is not None:
            session.identity.sessions -= 1
        session.closed = True

    def close_ended(self) -> None:
        """Ends sessions whose time is up."""
        now_ms = self._host.clock.now_ms()
        for session in [each for each in self._sessions.values() if each.ended(now_ms)]:
            self._end(session)

    def end_of(self, identity: Identity, why: Problem) -> None:
        """Ends all sessions of an identity that counts no more."""
        identity.problem = why
        for session in [each for each in self._sessions.values() if each.identity is identity]:
            self._end(session)

    def _end(self, session: Session) -> None:
        """Ends a session whose person did not sign out: its page may ask why."""
        self.close(session)
        if session.identity.problem is not None:
            while len(self._why_ended) >= SESSIONS_ENDED_MAX:
                del self._why_ended[next(iter(self._why_ended))]
            self._why_ended[session.id] = session.identity.problem
