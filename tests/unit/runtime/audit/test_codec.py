"""Audit records at rest: what is written is read, and what a later release wrote is passed on."""

import pytest

from braid.api.mesh.v1.audit_pb2 import AuditEvent, CallOutcome
from braid.api.mesh.v1.audit_pb2 import CallRecorded as Message
from braid.api.mesh.v1.event_pb2 import EventMetadata
from braid.kernel.audit.calls import AuditRecord, Call, CallRecorded, CallsLost, Outcome, host_of, shown
from braid.kernel.decider import Context
from braid.kernel.errors import CorruptHistory
from braid.runtime.audit.codec import AuditCodec, UnknownRecord
from tests.unit.kernel.audit.test_counting import refused

CONTEXT = Context(0, "registry-0")


@pytest.mark.parametrize(
    "record",
    [
        CallRecorded(refused(time_ms=7, command="braid cordon cluster east", request_id="r"), 3, 5),
        CallRecorded(Call(1, "web-1", False, "acme", "", "dlq", "Join", "group/a", "", Outcome.OPENED), 1, 1),
        CallsLost(9, 2, 4),
    ],
)
def test_a_record_comes_back_as_it_was(record: AuditRecord) -> None:
    data = AuditCodec().encode(record, CONTEXT)
    found, context = AuditCodec().decode(data)
    assert found == record
    assert context.now_ms == (4 if isinstance(record, CallsLost) else record.call.time_ms)


def test_every_outcome_has_its_number() -> None:
    found = [AuditCodec().encode(CallRecorded(refused(outcome=each), 1, 1), CONTEXT) for each in Outcome]
    assert len(set(found)) == len(Outcome) == len(CallOutcome.keys()) - 1


@pytest.mark.parametrize("event", [AuditEvent(), AuditEvent(call_recorded=Message(outcome=17))])  # type: ignore[arg-type]
def test_a_later_releases_record_is_passed_on_with_who_and_when(event: AuditEvent) -> None:
    event.metadata.CopyFrom(EventMetadata(time_ms=5, actor="ann"))
    found, context = AuditCodec().decode(event.SerializeToString())
    assert isinstance(found, UnknownRecord) and (context.now_ms, context.actor) == (5, "ann")


def test_other_bytes_are_a_corrupt_history() -> None:
    with pytest.raises(CorruptHistory):
        AuditCodec().decode(b"\xff\xff")


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("ipv4:10.0.0.7:4711", "10.0.0.7"),
        ("ipv6:%5B::1%5D:4711", "::1"),
        ("ipv6:[2001:db8::7]:4711", "2001:db8::7"),
        ("unix:/run/braid.sock", "unix:/run/braid.sock"),
        ("web-1", "web-1"),
    ],
)
def test_an_address_is_recorded_without_its_port(peer: str, host: str) -> None:
    assert host_of(peer) == host


def test_what_callers_send_is_cut_and_printable() -> None:
    assert shown("a\nb\x1b[31m\ud800") == "a?b?[31m?"
    assert len(shown("x" * 10_000)) == 200
