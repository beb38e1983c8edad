"""Audit records ⇄ protobuf (`mesh/v1/audit.proto`): at rest in the store, and as events are listed."""

from collections.abc import Mapping
from typing import Final

from google.protobuf.message import DecodeError

from braid.api.mesh.v1 import audit_pb2 as pb
from braid.api.mesh.v1.event_pb2 import EventMetadata
from braid.kernel.audit.calls import AuditRecord, Call, CallRecorded, CallsLost, Outcome
from braid.kernel.errors import CorruptHistory

_OUTCOMES: Final[Mapping[Outcome, "pb.CallOutcome.ValueType"]] = {
    Outcome.OK: pb.CALL_OUTCOME_OK,
    Outcome.OPENED: pb.CALL_OUTCOME_OPENED,
    Outcome.REFUSED: pb.CALL_OUTCOME_REFUSED,
    Outcome.FAILED: pb.CALL_OUTCOME_FAILED,
}
_BY_NUMBER: Final = {number: outcome for outcome, number in _OUTCOMES.items()}


def parse(data: bytes) -> pb.AuditEvent:
    """Reads an event. Raises `CorruptHistory`."""
    try:
        return pb.AuditEvent.FromString(data)
    except DecodeError as error:
        raise CorruptHistory("the bytes are no AuditEvent") from error


def encoded(record: AuditRecord, instance: str) -> bytes:
    """A record of a replica as bytes; equal inputs give equal bytes."""
    match record:
        case CallRecorded(call, count, first_ms):
            metadata = EventMetadata(
                time_ms=call.time_ms, actor=call.principal, tenant=call.tenant, request_id=call.request_id
            )
            recorded = pb.CallRecorded(
                service=call.service,
                rpc=call.rpc,
                resource=call.resource,
                authenticated=call.authenticated,
                address=call.address,
                outcome=_OUTCOMES[call.outcome],
                reason=call.reason,
                command=call.command,
                count=count,
                first_time_ms=first_ms,
            )
            event = pb.AuditEvent(metadata=metadata, call_recorded=recorded)
        case CallsLost(count, first_ms, until_ms):
            lost = pb.CallsLost(count=count, first_time_ms=first_ms, last_time_ms=until_ms)
            event = pb.AuditEvent(metadata=EventMetadata(time_ms=until_ms, actor=instance), calls_lost=lost)
    return event.SerializeToString(deterministic=True)


def read_record(message: pb.AuditEvent) -> AuditRecord | None:
    """The record of an event; None for one of a later release."""
    metadata = message.metadata
    match message.WhichOneof("event"):
        case "call_recorded":
            told = message.call_recorded
            outcome = _BY_NUMBER.get(told.outcome)
            if outcome is None:
                return None
            call = Call(
                metadata.time_ms,
                metadata.actor,
                told.authenticated,
                metadata.tenant,
                told.address,
                told.service,
                told.rpc,
                told.resource,
                metadata.request_id,
                outcome,
                told.reason,
                told.command,
            )
            return CallRecorded(call, told.count, told.first_time_ms)
        case "calls_lost":
            lost = message.calls_lost
            return CallsLost(lost.count, lost.first_time_ms, lost.last_time_ms)
    return None
