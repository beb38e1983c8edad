"""Events of kind `revocations` ⇄ protobuf at rest (`registry/v1/revocation.proto`); states ⇄ bytes for snapshots."""

from typing import Final

from google.protobuf.message import DecodeError

from braid.api.registry.v1 import revocation_pb2 as pb
from braid.kernel.access.revocations import Revocation
from braid.kernel.decider import Context
from braid.kernel.errors import CorruptHistory
from braid.runtime.access.revocation_history import (
    Command,
    Event,
    IdentityRevoked,
    RevocationLifted,
    RevocationsDecider,
    RevocationsState,
)
from braid.runtime.histories.event_metadata import metadata_message, read_context
from braid.runtime.histories.kinds import Kind


class RevocationsCodec:
    """The `EventCodec` (`kernel.decider`) of kind `revocations`."""

    def encode(self, event: Event, context: Context) -> bytes:
        """An event with its metadata, as a `RevocationEvent`; equal inputs give equal bytes."""
        message = _message(event)
        message.metadata.CopyFrom(metadata_message(context))
        return message.SerializeToString(deterministic=True)

    def decode(self, data: bytes) -> tuple[Event, Context]:
        """Reads `encode`'s bytes. Raises `CorruptHistory` for other bytes, or an event of a newer release."""
        try:
            message = pb.RevocationEvent.FromString(data)
        except DecodeError as error:
            raise CorruptHistory("the bytes are no RevocationEvent") from error
        return _event(message), read_context(message.metadata)

    def encode_state(self, state: RevocationsState) -> bytes:
        """A state as bytes; equal states give equal bytes."""
        found = [revocation_message(each) for each in state.all()]
        return pb.ListRevocationsResponse(revocations=found).SerializeToString(deterministic=True)

    def decode_state(self, data: bytes) -> RevocationsState:
        """Reads `encode_state`'s bytes. Raises `CorruptHistory`."""
        try:
            found = pb.ListRevocationsResponse.FromString(data).revocations
        except DecodeError as error:
            raise CorruptHistory(f"no state of revocations: {error}") from error
        return RevocationsState({each.identity: _read(each) for each in found})


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


REVOCATIONS: Final[Kind[RevocationsState, Command, Event]] = Kind(
    "revocations", RevocationsDecider(), RevocationsCodec()
)
