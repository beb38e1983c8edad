"""Settings of a replica's audit as values."""

from dataclasses import dataclass

from braid.kernel.audit.forms import Reads
from braid.kernel.limits.access.audit import AUDIT_DAYS, AUDIT_RECORDS


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """The settings of a service about audit records.

    Attributes:
        reads: Which reads are recorded beside changes and refusals.
        records: How many of each kind this replica keeps in the store.
        days: How long.
        log: A file to which records are appended as JSON lines, too; `-` for the standard output, empty for none.
    """

    reads: Reads = Reads.NONE
    records: int = AUDIT_RECORDS
    days: float = AUDIT_DAYS
    log: str = ""
