"""Events of kind `revocations` ⇄ protobuf at rest (`registry/v1/revocation.proto`); states ⇄ bytes for snapshots."""

from typing import Final

from braid.api.registry.v1 import revocation_pb2 as pb
from braid.kernel.access.revocations import Revocation
from braid.kernel.errors import CorruptHistory
from braid.runtime.access.revocation_history import (
    Command,
    Event,
    IdentityRevoked,
    RevocationLifted,
    RevocationsDecider,
    RevocationsState,
)
from braid.runtime.histories.kinds import Kind
from braid.runtime.histories.message_codec import MessageCodec


def revocation_message(revocation: Revocation, now_ms: int = 0) -> pb.Revocation:
    """A revocation as a message; with the present time it says whether the certificate has ended."""
    return pb.Revocation(
        identity=revocation.identity,
        principal=revocation.principal,
        reason=revocation.reason,
        expire_time_ms=revocation.expire_ms,
        revoked_by=revocation.revoked_by,
        revoke_time_ms=revocation.revoked_ms,
        ended=bool(now_ms) and revocation.ended(now_ms),
    )


def _read(message: pb.Revocation) -> Revocation:
    return Revocation(
        message.identity,
        message.principal,
        message.reason,
        message.expire_time_ms,
        message.revoked_by,
        message.revoke_time_ms,
    )


def _message(event: Event) -> pb.RevocationEvent:
    match event:
        case IdentityRevoked(identity, principal, reason, expire_ms):
            revoked = pb.IdentityRevoked(
                identity=identity, principal=principal, reason=reason, expire_time_ms=expire_ms
            )
            return pb.RevocationEvent(identity_revoked=revoked)
        case RevocationLifted(identity, reason):
            return pb.RevocationEvent(revocation_lifted=pb.RevocationLifted(identity=identity, reason=reason))


def _event(message: pb.RevocationEvent) -> Event:
    match message.WhichOneof("event"):
        case "identity_revoked":
            revoked = message.identity_revoked
            return IdentityRevoked(revoked.identity, revoked.principal, revoked.reason, revoked.expire_time_ms)
        case "revocation_lifted":
            return RevocationLifted(message.revocation_lifted.identity, message.revocation_lifted.reason)
        case _:
            raise CorruptHistory("the event is of an unknown type", remedy="run a newer release")


def _state_message(state: RevocationsState) -> pb.ListRevocationsResponse:
    return pb.ListRevocationsResponse(revocations=map(revocation_message, state.all()))


def _state(message: pb.ListRevocationsResponse) -> RevocationsState:
    return RevocationsState({each.identity: _read(each) for each in message.revocations})


REVOCATIONS: Final[Kind[RevocationsState, Command, Event]] = Kind(
    "revocations",
    RevocationsDecider(),
    MessageCodec(pb.RevocationEvent, _message, _event, pb.ListRevocationsResponse, _state_message, _state),
)
