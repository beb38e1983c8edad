"""Connected members of one group with the same client id, so that each can be told of the others."""

from collections.abc import Sequence
from itertools import islice

from braid.kernel.limits.assigner.leases import NAMESAKES_MAX
from services.assigner.servicer.member_session import MemberSession


class Namesakes:
    """Open sessions by group and client id; members without a client id are left out."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], dict[str, MemberSession]] = {}

    def enter(self, client_id: str, session: MemberSession) -> Sequence[MemberSession]:
        """Adds a session. Returns those of other members with its client id; the first ones if there are many."""
        if not client_id:
            return ()
        same = self._sessions.setdefault((session.key.group, client_id), {})
        others = (each for member, each in same.items() if member != session.key.member)
        found = list(islice(others, NAMESAKES_MAX))
        same[session.key.member] = session
        return found

    def leave(self, client_id: str, session: MemberSession) -> None:
        """Removes a session that is over; a newer one of the same member stays."""
        key = session.key.group, client_id
        same = self._sessions.get(key, {})
        if same.get(session.key.member) is session:
            del same[session.key.member]
            if not same:
                del self._sessions[key]
