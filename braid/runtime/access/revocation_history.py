"""Kind `revocations`: which identities are refused, and since when. Pure.

One history for the mesh, under a name of its own in the store, as the grants have one: a release that does not know
it passes it over.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from braid.kernel.access.grants import check_principal
from braid.kernel.access.revocations import Revocation, check_identity, is_certificate
from braid.kernel.decider import Context
from braid.kernel.errors import Exhausted, Invalid, NotFound
from braid.kernel.limits.access.rights import GRANT_REASON_CHARS_MAX, REVOCATION_KEPT_SECONDS, REVOCATIONS_MAX

HISTORIES: Final = "identities"  # the name in the store under which the history lies
HISTORY: Final = "mesh"  # its id: there is one
_KEPT_MS: Final = int(REVOCATION_KEPT_SECONDS * 1_000)


@dataclass(frozen=True, slots=True)
class RevocationsState:
    """State of a history of kind `revocations`.

    Attributes:
        revocations: Those that were not lifted, by identity; those of certificates until a day after these have ended.
    """

    revocations: Mapping[str, Revocation] = field(default_factory=lambda: MappingProxyType({}))

    def all(self) -> Iterator[Revocation]:
        """All of them, in the order of their identities."""
        return (self.revocations[each] for each in sorted(self.revocations))


# --- events


@dataclass(frozen=True, slots=True)
class IdentityRevoked:
    """An identity is refused from now on."""

    identity: str
    principal: str = ""
    reason: str = ""
    expire_ms: int = 0


@dataclass(frozen=True, slots=True)
class RevocationLifted:
    """The identity is accepted again from now on."""

    identity: str
    reason: str = ""


Event = IdentityRevoked | RevocationLifted


# --- commands


@dataclass(frozen=True, slots=True)
class RevokeIdentity:
    """Refuse an identity; the fields are those of `Revocation`."""

    identity: str
    principal: str = ""
    reason: str = ""
    expire_ms: int = 0


@dataclass(frozen=True, slots=True)
class LiftRevocation:
    """Asks to accept an identity again."""

    identity: str
    reason: str = ""


Command = RevokeIdentity | LiftRevocation


@dataclass(frozen=True, slots=True)
class RevocationsDecider:
    """Rules of the kind `revocations`."""

    def initial(self, history: str) -> RevocationsState:
        """A mesh in which nothing is revoked."""
        return RevocationsState()

    def decide(self, state: RevocationsState, command: Command, context: Context) -> Sequence[Event]:
        """See `Decider.decide`. What is revoked already, alike, leads to nothing.

        Raises:
            Invalid: an identity, a principal, an end or a reason out of form.
            NotFound: there is no such revocation to lift.
            Exhausted: the mesh has as many revocations as there may be.
        """
        identity = check_identity(command.identity, "identity")
        if len(command.reason) > GRANT_REASON_CHARS_MAX:
            raise Invalid(f"a reason has at most {GRANT_REASON_CHARS_MAX} characters", field="reason")
        match command:
            case RevokeIdentity():
                return _revoked(state, command, identity, context.now_ms)
            case LiftRevocation(reason=reason):
                if identity not in state.revocations:
                    raise NotFound(f"{identity} is not revoked", field="identity", remedy="see: braid get revocations")
                return [RevocationLifted(identity, reason)]

    def evolve(self, state: RevocationsState, event: Event, context: Context) -> RevocationsState:
        """See `Decider.evolve`. What has ended long enough is forgotten on the way."""
        kept = {name: each for name, each in state.revocations.items() if not each.ended(context.now_ms - _KEPT_MS)}
        match event:
            case IdentityRevoked(identity, principal, reason, expire_ms):
                kept[identity] = Revocation(identity, principal, reason, expire_ms, context.actor, context.now_ms)
            case RevocationLifted(identity):
                kept.pop(identity, None)
        return RevocationsState(kept)


def _revoked(state: RevocationsState, command: RevokeIdentity, identity: str, now_ms: int) -> Sequence[Event]:
    if command.principal:
        check_principal(command.principal, "principal")
    if not is_certificate(identity) and (command.principal or command.expire_ms):
        field = "principal" if command.principal else "expire_time_ms"
        raise Invalid("only a certificate names a principal, and ends", field=field, remedy="leave it out")
    if command.expire_ms < 0 or 0 < command.expire_ms <= now_ms:
        remedy = "nobody accepts it any more: there is nothing to revoke"
        raise Invalid("the certificate has ended already", field="expire_time_ms", remedy=remedy)
    event = IdentityRevoked(identity, command.principal, command.reason, command.expire_ms)
    known = state.revocations.get(identity)
    if known is not None and IdentityRevoked(identity, known.principal, known.reason, known.expire_ms) == event:
        return []
    if known is None and sum(not each.ended(now_ms - _KEPT_MS) for each in state.all()) >= REVOCATIONS_MAX:
        message = f"the mesh has {REVOCATIONS_MAX} revocations, which is the most"
        raise Exhausted(
            message, remedy="lift some; or move to another CA (braid certs rotate --ca), which ends them all"
        )
    return [event]
