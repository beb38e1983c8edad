"""Kind `grants`: who has which role where, and since when. Pure.

One history for the mesh. The registry's leader writes it; every replica of every service follows it, so that rights
are known while the registry is away.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from braid.kernel.access.grants import Grant, check_principal
from braid.kernel.access.roles import Resource, Role, check_scope
from braid.kernel.decider import Context
from braid.kernel.errors import Exhausted, Invalid, NotFound
from braid.kernel.limits.access.rights import (
    GRANT_REASON_CHARS_MAX,
    GRANT_SECONDS_MAX,
    GRANTS_MAX,
    GRANTS_PER_PRINCIPAL_MAX,
)

HISTORIES: Final = "access"  # the name in the store under which the history lies
HISTORY: Final = "mesh"  # its id: there is one


@dataclass(frozen=True, slots=True)
class GrantsState:
    """State of a history of kind `grants`: grants that were not revoked, some of which may have ended.

    Attributes:
        principals: By principal, its grants in the order of role and resource.
        total: How many grants there are.
    """

    principals: Mapping[str, tuple[Grant, ...]] = field(default_factory=lambda: MappingProxyType({}))
    total: int = 0

    def find(self, principal: str, role: Role, resource: Resource) -> Grant | None:
        """The grant of these three, if there is one."""
        held = self.principals.get(principal, ())
        return next((each for each in held if each.role is role and each.resource == resource), None)

    def all(self) -> Iterator[Grant]:
        """All of them, in the order of principal, role and resource."""
        for principal in sorted(self.principals):
            yield from self.principals[principal]

    def held(self, principal: str, grants: tuple[Grant, ...]) -> "GrantsState":
        """The state in which a principal has these grants and no others."""
        principals = {**self.principals, principal: grants}
        if not grants:
            del principals[principal]
        return GrantsState(principals, self.total + len(grants) - len(self.principals.get(principal, ())))


# --- events


@dataclass(frozen=True, slots=True)
class AccessGranted:
    """A principal has a role on a resource, until it ends or is revoked."""

    principal: str
    role: Role
    resource: Resource
    expire_ms: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class AccessRevoked:
    """A principal no longer has a role."""

    principal: str
    role: Role
    resource: Resource
    reason: str = ""


Event = AccessGranted | AccessRevoked


# --- commands


@dataclass(frozen=True, slots=True)
class GrantRole:
    """Gives a principal a role. It ends at `expire_ms`, or `lasting_ms` after it is decided; with neither it does not
    end."""

    principal: str
    role: Role
    resource: Resource
    expire_ms: int = 0
    lasting_ms: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RevokeRole:
    """Takes a role back from a principal."""

    principal: str
    role: Role
    resource: Resource
    reason: str = ""


Command = GrantRole | RevokeRole


@dataclass(frozen=True, slots=True)
class GrantsDecider:
    """Rules of the kind `grants`."""

    def initial(self, history: str) -> GrantsState:
        """A mesh in which nothing is granted."""
        return GrantsState()

    def decide(self, state: GrantsState, command: Command, context: Context) -> Sequence[Event]:
        """See `Decider.decide`. What is granted already, alike, leads to nothing.

        Raises:
            Invalid: a principal, a role on such a resource, an end or a reason out of form.
            NotFound: there is no such grant to revoke.
            Exhausted: the mesh or the principal has as many grants as there may be.
        """
        check_principal(command.principal, "principal")
        if len(command.reason) > GRANT_REASON_CHARS_MAX:
            raise Invalid(f"a reason has at most {GRANT_REASON_CHARS_MAX} characters", field="reason")
        match command:
            case GrantRole():
                return _granted(state, command, context.now_ms)
            case RevokeRole(principal, role, resource, reason):
                if state.find(principal, role, resource) is None:
                    message = f"{principal} has no grant as {Grant(principal, role, resource)}"
                    raise NotFound(message, field="principal", remedy=f"see: braid get grants {principal}")
                return [AccessRevoked(principal, role, resource, reason)]

    def evolve(self, state: GrantsState, event: Event, context: Context) -> GrantsState:
        """See `Decider.evolve`."""
        others = tuple(
            each
            for each in state.principals.get(event.principal, ())
            if (each.role, each.resource) != (event.role, event.resource)
        )
        match event:
            case AccessGranted(principal, role, resource, expire_ms, reason):
                grant = Grant(principal, role, resource, expire_ms, reason, context.actor, context.now_ms)
                grown = state.held(principal, tuple(sorted((*others, grant), key=lambda each: each.key)))
                return grown if grown.total <= GRANTS_MAX else _without_ended(grown, context.now_ms)
            case AccessRevoked(principal):
                return state.held(principal, others)


def _granted(state: GrantsState, command: GrantRole, now_ms: int) -> Sequence[Event]:
    check_scope(command.role, command.resource, "resource")
    expire_ms = _end(command, now_ms)
    known = state.find(command.principal, command.role, command.resource)
    if known is not None and (known.expire_ms, known.reason) == (expire_ms, command.reason):
        return []
    if known is None:
        if len(state.principals.get(command.principal, ())) >= GRANTS_PER_PRINCIPAL_MAX:
            message = f"{command.principal} has {GRANTS_PER_PRINCIPAL_MAX} grants, which is the most"
            raise Exhausted(message, field="principal", remedy="revoke some, or grant on a pattern: stream/pay-*")
        if sum(each.holds(now_ms) for each in state.all()) >= GRANTS_MAX:
            message = f"the mesh has {GRANTS_MAX} grants, which is the most"
            raise Exhausted(message, remedy="revoke some, or grant on patterns: stream/pay-*")
    return [AccessGranted(command.principal, command.role, command.resource, expire_ms, command.reason)]


def _end(command: GrantRole, now_ms: int) -> int:
    """When a grant ends. Raises `Invalid`."""
    if command.expire_ms and command.lasting_ms:
        raise Invalid("a grant ends at a time or after a time", field="lasting_ms", remedy="leave one of them out")
    if command.expire_ms < 0 or command.lasting_ms < 0 or command.lasting_ms > GRANT_SECONDS_MAX * 1_000:
        raise Invalid("a grant ends later than it begins", field="lasting_ms", remedy="give a time of up to ten years")
    end_ms = now_ms + command.lasting_ms if command.lasting_ms else command.expire_ms
    if end_ms and end_ms <= now_ms:
        raise Invalid("the grant would have ended already", field="expire_time_ms", remedy="give a time to come")
    return end_ms


def _without_ended(state: GrantsState, now_ms: int) -> GrantsState:
    """Forgets what has ended: there is no room to list it."""
    kept = {name: tuple(each for each in held if each.holds(now_ms)) for name, held in state.principals.items()}
    return GrantsState({name: held for name, held in kept.items() if held}, sum(map(len, kept.values())))
