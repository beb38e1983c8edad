"""The two kinds of histories that hold audit records."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from braid.kernel.audit.calls import AuditRecord
from braid.kernel.decider import Context
from braid.kernel.errors import CorruptHistory
from braid.rpc.audit_records import encoded, parse, read_record
from braid.runtime.histories.event_metadata import read_context
from braid.runtime.histories.kinds import Kind


@dataclass(frozen=True, slots=True)
class UnknownRecord:
    """A record of a later release: who and when are known, and the bytes are passed on as they are."""


class AuditDecider:
    """Rules of audit histories: a record is its own command, and nothing is folded from records."""

    def initial(self, history: str) -> None:
        """See `Decider.initial`."""

    def decide(self, state: None, command: AuditRecord, context: Context) -> Sequence[AuditRecord | UnknownRecord]:
        """See `Decider.decide`."""
        return [command]

    def evolve(self, state: None, event: AuditRecord | UnknownRecord, context: Context) -> None:
        """See `Decider.evolve`."""


class AuditCodec:
    """The `EventCodec` (`kernel.decider`) of audit records. Time, actor, tenant and request are in the metadata."""

    def encode(self, event: AuditRecord | UnknownRecord, context: Context) -> bytes:
        """A record of the instance that the context names as an `AuditEvent`."""
        if isinstance(event, UnknownRecord):
            raise CorruptHistory("a record of a later release cannot be written by this one")
        return encoded(event, context.actor)

    def decode(self, data: bytes) -> tuple[AuditRecord | UnknownRecord, Context]:
        """Reads `encode`'s bytes. Raises `CorruptHistory` for other bytes."""
        message = parse(data)
        return read_record(message) or UnknownRecord(), read_context(message.metadata)

    def encode_state(self, state: None) -> bytes:
        """See `EventCodec.encode_state`."""
        return b""

    def decode_state(self, data: bytes) -> None:
        """See `EventCodec.decode_state`."""


CHANGES: Final[Kind[None, AuditRecord, AuditRecord | UnknownRecord]] = Kind("changes", AuditDecider(), AuditCodec())
COUNTS: Final[Kind[None, AuditRecord, AuditRecord | UnknownRecord]] = Kind("counts", AuditDecider(), AuditCodec())
KINDS: Final = {kind.name: kind for kind in (CHANGES, COUNTS)}
