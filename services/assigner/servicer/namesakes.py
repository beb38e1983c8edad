"""Connected members of one group that carry the same client id, so that they can be told of each other."""

from collections.abc import Sequence
from itertools import islice

from braid.kernel.limits.leases import NAMESAKES_MAX
from services.assigner.servicer.member_session import MemberSession


class Namesakes:
    """Open sessions by group and client id. Members that give none are nobody's namesakes."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], dict[str, MemberSession]] = {}

    def enter(self, client_id: str, session: MemberSession) -> Sequence[MemberSession]:
        """A session begins. Returns those of other members under its client id; of many, the first."""
        if not client_id:
            return ()
        same = self._sessions.setdefault((session.key.group, client_id), {})
        others = (each for member, each in same.items() if member != session.key.member)
        found = list(islice(others, NAMESAKES_MAX))
        same[session.key.member] = session
        return found

    def leave(self, client_id: str, session: MemberSession) -> None:
        """A session is over; a newer one of the same member stays."""
        key = session.key.group, client_id
        same = self._sessions.get(key, {})
        if same.get(session.key.member) is session:
            del same[session.key.member]
            if not same:
                del self._sessions[key]
