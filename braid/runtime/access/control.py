"""`Authorizer` of a replica: it follows the grants, decides by the kernel's table, and ends streams without a right.

Grants are told by the event store, so a replica knows them while the registry is away; with the store away, what it
read last stands. Before the first read it admits services and the admins that settings name, and nobody else.
"""

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from braid.kernel.access.decisions import Decision, decide, first_refused, grant_command
from braid.kernel.access.grants import Rights
from braid.kernel.access.refusals import REFUSAL_FACT
from braid.kernel.access.requests import Lookup, Need, asks_about_itself, needs_of, says_hello, stated_needs, strays
from braid.kernel.access.roles import Action
from braid.kernel.access.table import Row, row_of
from braid.kernel.errors import AccessDenied, BraidError, Invalid, Unauthenticated
from braid.kernel.limits.access.rights import ACCESS_RECHECK_SECONDS
from braid.kernel.ports import Caller
from braid.runtime.access.grant_codec import GRANTS
from braid.runtime.access.grant_history import HISTORIES, HISTORY, Command, GrantsState
from braid.runtime.access.open_streams import OpenStream, OpenStreams
from braid.runtime.access.refusals import DENIED, ENDED, UNAUTHENTICATED, Refusals
from braid.runtime.access.settings import AccessMode, AccessSettings, read_admins
from braid.runtime.access.side_history import SideHistory
from braid.runtime.histories.aggregates import Aggregates
from braid.runtime.histories.kinds import Change, Reloaded

if TYPE_CHECKING:
    from braid.runtime.replica import Replica

_OWNER: Final = "registry"  # writes the grants, and serves them whatever the mode


@runtime_checkable
class KnowsResources(Protocol):
    """A service that knows which streams its groups or replays are about."""

    def resources(self, replica: "Replica") -> Lookup:
        """Answers from the replica's own view, leading or not."""
        ...


class AccessControl:
    """Access control of one replica."""

    def __init__(self, replica: "Replica", service: object, settings: AccessSettings) -> None:
        """Prepares it; `run` follows the grants. Raises `Invalid` where the file of admins cannot be read."""
        self._replica = replica
        self._settings = settings
        self._clock = replica.host.clock
        self._history = SideHistory(replica, GRANTS, (HISTORIES, HISTORY), self._changed)
        self._lookup = service.resources(replica) if isinstance(service, KnowsResources) else Lookup()
        self._streams = OpenStreams(self._clock, self._question, self._lost)
        self._refusals = Refusals(self._clock, replica.metrics, replica.log)
        named = read_admins(settings.admins_file) if settings.admins_file else ()
        self._admins = frozenset((*settings.admins, *named))

    # --- what is known

    @property
    def enforced(self) -> bool:
        """Whether what is not granted is refused."""
        return self._settings.mode is AccessMode.ENFORCED

    @property
    def admins(self) -> Collection[str]:
        """Principals that are admins by the settings."""
        return self._admins

    def require_known(self) -> None:
        """Raises `Unavailable` before the grants were read for the first time."""
        self._history.require_known("the grants yet")

    @property
    def grants(self) -> GrantsState:
        """All grants, as this replica knows them."""
        return self._history.state

    @property
    def histories(self) -> Aggregates:
        """The history of the grants, as this replica follows it."""
        return self._history.aggregates

    @property
    def lookup(self) -> Lookup:
        """This replica's view of the resources that requests are about."""
        return self._lookup

    def owns(self, history: str) -> bool:
        """Whether a history, `<kind>/<id>` or `<kind>`, is that of the grants."""
        return self._history.owns(history)

    def decide(self, principal: str, need: Need) -> Decision:
        """Decides on one need of a principal, as it is enforced."""
        return decide(self._rights(), principal, need.action, need.resource, self._clock.now_ms())

    def _rights(self) -> Rights:
        return Rights(self.grants.principals, self.admins, self._settings.services)

    # --- changing it

    async def execute(self, command: Command, caller: Caller) -> GrantsState:
        """Records a caller's command, at the registry's leader. Raises what `Aggregates.execute` does."""
        return await self._history.execute(command, caller)

    # --- its life

    @property
    def needs_grants(self) -> bool:
        """Whether this replica follows the grants: it enforces them, or is the registry."""
        return self.enforced or self._replica.name == _OWNER

    async def run(self) -> None:
        """Follows the grants, and looks at open streams again and again, until cancelled."""
        looking = self._replica.host.tasks.spawn(self._look_again(), f"{self._replica.instance} open streams")
        try:
            await self._history.follow()
        finally:
            looking.cancel()
            await looking.ended()

    async def _look_again(self) -> None:
        """Grants end by the clock, groups get streams, and admins leave the file: nobody tells, so it is looked for."""
        while True:
            await self._clock.sleep(ACCESS_RECHECK_SECONDS)
            self._read_admins()
            await self._streams.look_at_all()

    def _read_admins(self) -> None:
        if self._settings.admins_file is None:
            return
        try:
            self._admins = frozenset((*self._settings.admins, *read_admins(self._settings.admins_file)))
        except Invalid as error:
            self._replica.log.warning("the admins file cannot be read: those read before stand", error=str(error))

    def _changed(self, change: Change | Reloaded) -> None:
        if isinstance(change, Change):
            for principal in {str(getattr(each.event, "principal", "")) for each in change.events}:
                self._streams.look_at(principal)

    # --- `Authorizer`

    def guards(self, method: str) -> bool:
        """See `Authorizer.guards`. Grants are guarded in every mode: else anybody could prepare rights for later."""
        row = self._row(method)
        return self.enforced or (row is not None and row.action is Action.GRANT)

    def waits_for_hello(self, method: str) -> bool:
        """See `Authorizer.waits_for_hello`."""
        row = self._row(method)
        return row is not None and bool(row.names)

    def authenticate(self, method: str, caller: Caller) -> None:
        """See `Authorizer.authenticate`."""
        if caller.authenticated and caller.principal:
            return
        message = f"{_short(method)} takes a caller that has proved who it is"
        self._refusals.record(_short(method), UNAUTHENTICATED, caller, message)
        remedy = "connect by mutual TLS with a certificate of the mesh (BRAID_TLS_CERTIFICATE, _KEY, _CA)"
        raise Unauthenticated(message, remedy=remedy)

    def authorize(self, method: str, request: object | None, caller: Caller) -> None:
        """See `Authorizer.authorize`."""
        self.authenticate(method, caller)
        if refusal := self._refusal(method, request, caller):
            self._refusals.record(_short(method), DENIED, caller, refusal.message)
            raise refusal

    def check_later(self, method: str, hello: object, message: object, caller: Caller) -> None:
        """See `Authorizer.check_later`."""
        row = self._row(method)
        if row is None or not row.hello:
            return
        if says_hello(row, message):
            raise AccessDenied(f"{_short(method)}: only the first message says hello", remedy="open another stream")
        if row.later and (others := strays(row, message, needs_of(row, hello, self._lookup))):
            text = f"{_short(method)}: the stream was opened for something else than {others[0]}"
            self._refusals.record(_short(method), DENIED, caller, text)
            raise AccessDenied(text, remedy="open another stream", metadata={"resource": str(others[0])})

    def opened(
        self, method: str, request: object | None, caller: Caller, end: Callable[[BraidError], None]
    ) -> Callable[[], None]:
        """See `Authorizer.opened`."""
        return self._streams.add(OpenStream(method, request, caller, end))

    # --- deciding

    def _row(self, method: str) -> Row | None:
        return row_of(self._replica.name, _short(method))

    def _question(self, stream: OpenStream) -> Hashable:
        row, request, principal = self._row(stream.method), stream.request, stream.caller.principal
        if row is None or request is None:
            return stream.method, principal
        return stream.method, principal, asks_about_itself(row, request, principal), stated_needs(row, request)

    def _lost(self, stream: OpenStream) -> AccessDenied | None:
        if not self._history.known.is_set():  # what is not known is no loss
            return None
        refusal = self._refusal(stream.method, stream.request, stream.caller)
        if refusal is not None:
            refusal.metadata[REFUSAL_FACT] = ENDED
            self._refusals.record(_short(stream.method), ENDED, stream.caller, refusal.message)
        return refusal

    def _refusal(self, method: str, request: object | None, caller: Caller) -> AccessDenied | None:
        """Why a verified caller may not do something; None when it may. Raises `Unavailable`."""
        row = self._row(method)
        if row is None:
            return AccessDenied(f"{_short(method)}: no rule lets anybody call it", metadata={"method": _short(method)})
        if request is not None and asks_about_itself(row, request, caller.principal):
            return None
        needs: Sequence[Need] = (
            (Need(row.action, row.unnamed),) if request is None else needs_of(row, request, self._lookup)
        )
        rights, now_ms = self._rights(), self._clock.now_ms()
        decisions = [decide(rights, caller.principal, each.action, each.resource, now_ms) for each in needs]
        refused = first_refused(decisions)
        if refused is None:
            return None
        self.require_known()
        return _denied(_short(method), caller.principal, needs[decisions.index(refused)], refused)


def _denied(method: str, principal: str, need: Need, refused: Decision) -> AccessDenied:
    remedy = "only services of the mesh call it"
    if refused.missing is not None:
        remedy = f"an admin can allow it: {grant_command(refused.missing)}"
    facts = {"principal": principal, "action": need.action.value, "resource": str(need.resource), "method": method}
    return AccessDenied(f"{method}: {refused.why}", remedy=remedy, metadata=facts)


def _short(method: str) -> str:
    return method.rpartition("/")[2]
