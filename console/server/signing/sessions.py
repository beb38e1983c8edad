"""Sessions of browsers: who is signed in, with which rights, until when. Kept in memory; they end with the process."""

from dataclasses import dataclass, field

from braid.kernel.ports import Host
from console.server.limits import SESSION_SECONDS, SESSIONS_MAX
from console.server.reads.reader import Reader

_ID_BYTES = 32


@dataclass(eq=False)
class Identity:
    """The rights that sessions read and act with.

    Attributes:
        key: The same for sessions that may share what was read: those of one token, or those of the console's own user.
        how: `link` or `token`.
        reader: Clients of the services that show this identity.
        principal: The caller as the mesh names it; empty where it does not.
        expire_ms: When it ends by itself, by the wall clock; 0 for never.
        sessions: How many sessions use it.
        sign_ins: How many requests are about to open a session of it, and wait for the mesh.
    """

    key: str
    how: str
    reader: Reader
    principal: str = ""
    expire_ms: int = 0
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
        return self.closed or now_ms >= self.expire_ms


class Sessions:
    """All sessions of one console, a bounded number."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._sessions: dict[str, Session] = {}

    def open(self, identity: Identity) -> Session:
        """Begins a session; at the bound the oldest one ends."""
        while len(self._sessions) >= SESSIONS_MAX:
            self.close(next(iter(self._sessions.values())))
        now_ms = self._host.clock.now_ms()
        expire_ms = now_ms + int(SESSION_SECONDS * 1_000)
        if identity.expire_ms:
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
            self.close(session)
            return None
        return session

    def close(self, session: Session) -> None:
        """Ends a session, and its open streams with it."""
        if self._sessions.pop(session.id, None) is not None:
            session.identity.sessions -= 1
        session.closed = True

    def close_ended(self) -> None:
        """Ends sessions whose time is up."""
        now_ms = self._host.clock.now_ms()
        for session in [each for each in self._sessions.values() if each.ended(now_ms)]:
            self.close(session)
