"""Which counts are kept when there are more than may be: the newest of each principal; none pushes others out."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from braid.kernel.audit.calls import AuditRecord, CallsLost
from braid.kernel.limits.access.audit import AUDIT_KEPT_PER_PRINCIPAL


def last_of_each(records: Iterable[AuditRecord]) -> Sequence[AuditRecord]:
    """Records without those that later ones replace, in the order of their last times."""
    kept: dict[object, AuditRecord] = {}
    for record in records:
        kept[record if isinstance(record, CallsLost) else record.key] = record
    return sorted(kept.values(), key=last_ms)


def kept(records: Iterable[AuditRecord], most: int, oldest_ms: int) -> Sequence[AuditRecord]:
    """Selects the counts to keep: nothing that is too old, and where room is short the newest of each principal.

    Args:
        records: In the order in which they were written.
        most: How many there may be.
        oldest_ms: Records whose last call was earlier go, milliseconds since the epoch.
    """
    found = [record for record in last_of_each(records) if last_ms(record) >= oldest_ms]
    if len(found) <= most:
        return found
    share = max(1, int(most * AUDIT_KEPT_PER_PRINCIPAL))
    ranks: dict[str, int] = defaultdict(int)
    ranked: list[tuple[bool, int, AuditRecord]] = []
    for place, record in enumerate(reversed(found)):
        owner = "" if isinstance(record, CallsLost) else record.call.owner
        ranks[owner] += 1
        ranked.append((ranks[owner] > share, place, record))
    return sorted((record for _, _, record in sorted(ranked, key=lambda each: each[:2])[:most]), key=last_ms)


def last_ms(record: AuditRecord) -> int:
    """When the last of a record's calls came, milliseconds since the epoch."""
    return record.last_ms if isinstance(record, CallsLost) else record.call.time_ms
