"""The two kinds of histories that hold audit records."""

from collections.abc import Sequence
from typing import Final

from braid.kernel.audit.calls import AuditRecord
from braid.kernel.decider import Context
from braid.kernel.errors import CorruptHistory
from braid.rpc.audit_records import encoded, parse, read_record
from braid.runtime.histories.event_metadata import read_context
from braid.runtime.histories.kinds import Kind


class AuditDecider:
    """Rules of audit histories: a record is its own command, and nothing is folded from records."""

    def initial(self, history: str) -> None:
        """See `Decider.initial`."""

    def decide(self, state: None, command: AuditRecord, context: Context) -> Sequence[AuditRecord]:
        """See `Decider.decide`."""
        return [command]

    def evolve(self, state: None, event: AuditRecord, context: Context) -> None:
        """See `Decider.evolve`."""


class AuditCodec:
    """`kernel.decider.EventCodec` for audit records. The metadata has the record's time, actor, tenant and request."""

    def encode(self, event: AuditRecord, context: Context) -> bytes:
        """A record as an `AuditEvent`; of the context only the epoch counts."""
        return encoded(event, context.actor)

    def decode(self, data: bytes) -> tuple[AuditRecord, Context]:
        """Reads `encode`'s bytes. Raises `CorruptHistory` for other bytes, or a record of a newer release."""
        message = parse(data)
        record = read_record(message)
        if record is None:
            raise CorruptHistory("the audit record is of an unknown type", remedy="run a newer release")
        return record, read_context(message.metadata)

    def encode_state(self, state: None) -> bytes:
        """See `EventCodec.encode_state`."""
        return b""

    def decode_state(self, data: bytes) -> None:
        """See `EventCodec.decode_state`."""


CHANGES: Final[Kind[None, AuditRecord, AuditRecord]] = Kind("changes", AuditDecider(), AuditCodec())
COUNTS: Final[Kind[None, AuditRecord, AuditRecord]] = Kind("counts", AuditDecider(), AuditCodec())
KINDS: Final = {kind.name: kind for kind in (CHANGES, COUNTS)}
