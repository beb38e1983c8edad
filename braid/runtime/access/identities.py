"""Revoked identities at a replica: it follows their list, refuses their calls, and ends their open streams.

The list is about who calls, not about rights: it holds in every mode of access, for every method of every service.
The event store tells it, so a replica knows it while the registry is away; with the store away, what it read last
stands. Before the first read nobody with a certificate is served.
"""

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Final

from braid.kernel.access.revocations import Revocation, find_revocation, identities_of
from braid.kernel.errors import BraidError, IdentityRevoked
from braid.kernel.ports import Caller
from braid.runtime.access.open_streams import OpenStream, OpenStreams
from braid.runtime.access.refusals import REVOKED, Refusals
from braid.runtime.access.revocation_codec import REVOCATIONS
from braid.runtime.access.revocation_history import HISTORIES, HISTORY, Command, RevocationsState
from braid.runtime.access.side_history import SideHistory
from braid.runtime.histories.aggregates import Aggregates
from braid.runtime.histories.kinds import Change, Reloaded

if TYPE_CHECKING:
    from braid.runtime.replica import Replica

_REMEDY: Final = "ask an admin why (braid get revocations); a certificate that was revoked is replaced by another"


class Identities:
    """The identities that one replica refuses, whatever they were granted. An `Authorizer` that knows no roles."""

    def __init__(self, replica: "Replica") -> None:
        """Prepares it; `run` follows the list."""
        self._replica = replica
        self._history = SideHistory(replica, REVOCATIONS, (HISTORIES, HISTORY), self._changed)
        self._streams = OpenStreams(replica.host.clock, _question, self._lost)
        self._refusals = Refusals(replica.host.clock, replica.metrics, replica.log)

    # --- what is known

    @property
    def revoked(self) -> RevocationsState:
        """All revocations, as this replica knows them."""
        return self._history.state

    @property
    def histories(self) -> Aggregates:
        """The history of revocations, as this replica follows it."""
        return self._history.aggregates

    def owns(self, history: str) -> bool:
        """Whether a history, `<kind>/<id>` or `<kind>`, is that of revocations."""
        return self._history.owns(history)

    async def known(self) -> None:
        """Waits until the list was read once."""
        await self._history.known.wait()

    def require_known(self) -> None:
        """Raises `Unavailable` before the list was read for the first time."""
        self._history.require_known("yet who is revoked")

    # --- changing it

    async def execute(self, command: Command, caller: Caller) -> RevocationsState:
        """Records a caller's command, at the registry's leader. Raises what `Aggregates.execute` does."""
        return await self._history.execute(command, caller)

    # --- its life

    async def run(self) -> None:
        """Follows the list until cancelled."""
        await self._history.follow()

    def _changed(self, change: Change | Reloaded) -> None:
        if isinstance(change, Reloaded):
            self._streams.look_at_callers(lambda caller: True)
            return
        changed = {str(getattr(each.event, "identity", "")) for each in change.events}
        self._streams.look_at_callers(lambda caller: not changed.isdisjoint(identities_of(caller)))

    # --- `Authorizer`

    def guards(self, method: str) -> bool:
        """See `Authorizer.guards`: all methods, in every mode."""
        return True

    def waits_for_hello(self, method: str) -> bool:
        """See `Authorizer.waits_for_hello`: who calls is known without it."""
        return False

    def authenticate(self, method: str, caller: Caller) -> None:
        """See `Authorizer.authenticate`: a caller in plaintext has no identity that could be revoked."""

    def authorize(self, method: str, request: object | None, caller: Caller) -> None:
        """Lets a caller through that is not revoked.

        Raises:
            IdentityRevoked: its principal or its certificate is.
            Unavailable: the list was not read yet.
        """
        if not caller.authenticated:
            return
        self.require_known()
        revocation = find_revocation(self.revoked.revocations, caller)
        if revocation is not None:
            raise self._refused(method, revocation, caller)

    def check_later(self, method: str, hello: object, message: object, caller: Caller) -> None:
        """See `Authorizer.check_later`: messages say nothing about who sends them."""

    def opened(
        self, method: str, request: object | None, caller: Caller, end: Callable[[BraidError], None]
    ) -> Callable[[], None]:
        """See `Authorizer.opened`."""
        return self._streams.add(OpenStream(method, None, caller, end))

    # --- deciding

    def _lost(self, stream: OpenStream) -> IdentityRevoked | None:
        revocation = find_revocation(self.revoked.revocations, stream.caller)
        return None if revocation is None else self._refused(stream.method, revocation, stream.caller)

    def _refused(self, method: str, revocation: Revocation, caller: Caller) -> IdentityRevoked:
        short = method.rpartition("/")[2]
        what = revocation.identity
        if what != caller.principal:
            what = f"the certificate {what} of {caller.principal}"
        message = f"{short}: {what} was revoked{f': {revocation.reason}' if revocation.reason else ''}"
        self._refusals.record(short, REVOKED, caller, message)
        facts = {"identity": revocation.identity, "principal": caller.principal, "method": short}
        return IdentityRevoked(message, remedy=_REMEDY, metadata=facts)


def _question(stream: OpenStream) -> Hashable:
    return stream.method, stream.caller.principal, stream.caller.certificate
