"""`doctor`'s findings on archives: failed writes, an archive that lags, missing events. Pure."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from braid.api.mesh.v1.archive_pb2 import ArchiveStatus
from braid.api.mesh.v1.event_pb2 import EventGap
from braid.cli.core.times import age_text
from braid.cli.doctor.findings import Finding, Level
from braid.cli.resources.clusters.loads import bytes_text
from braid.kernel.limits.archive import ARCHIVE_BACKLOG_EVENTS_MAX
from braid.kernel.limits.store import SNAPSHOT_EVERY_EVENTS

LAGGING_EVENTS: Final = 4 * SNAPSHOT_EVERY_EVENTS  # up to two intervals wait at any time
_NAMED_MAX: Final = 5
_FAILING_REMEDY: Final = (
    "see to its disk, owner or bucket: events wait in the store meanwhile, "
    f"and beyond {ARCHIVE_BACKLOG_EVENTS_MAX} of one history the oldest are lost"
)
_HOLE_REMEDY: Final = "put the objects back from another replica's archive or a backup; check it: braid archive verify"


class ArchiveFacts(NamedTuple):
    """One replica's answer about its archive. `problems` are events that no replica has."""

    service: str
    instance: str
    leader: bool
    status: ArchiveStatus
    problems: Sequence[EventGap] = ()


def check_archive(facts: ArchiveFacts, now_ms: int) -> list[Finding]:
    """Checks one replica's archive; no finding if none is set."""
    status = facts.status
    if not status.location:
        return []
    found = [*_writes(facts, now_ms), *_holes(facts)]
    if not found:
        size = f"{bytes_text(status.size_bytes)}, kept for {status.retention_days:g} days"
        found.append(Finding(facts.instance, "archive", Level.OK, f"its archive {status.location} is whole: {size}"))
    return found


def _writes(facts: ArchiveFacts, now_ms: int) -> list[Finding]:
    status = facts.status
    waiting = f"{status.waiting_events} events of {status.waiting_history} are in the store alone"
    if facts.leader and status.failing_reason:
        since = age_text(status.failing_since_ms, now_ms)
        message = f"its archive takes nothing for {since}: {status.failing_reason}; {waiting}"
        return [Finding(facts.instance, "archive", Level.FAIL, message, _FAILING_REMEDY)]
    if status.replica_failing_reason:
        message = f"its archive takes nothing: {status.replica_failing_reason}"
        return [Finding(facts.instance, "archive", Level.WARN, message, "see to its disk, owner or bucket")]
    if status.waiting_events > LAGGING_EVENTS:
        remedy = "complete it from its peers: braid archive verify"
        return [Finding(facts.instance, "archive", Level.WARN, f"its archive lags: {waiting}", remedy)]
    return []


def _holes(facts: ArchiveFacts) -> list[Finding]:
    if not facts.leader:
        return []
    found = [
        Finding(facts.service, "history", Level.WARN, gap_text(each), _HOLE_REMEDY)
        for each in facts.problems[:_NAMED_MAX]
    ]
    if more := len(facts.problems) - len(found):
        message = f"its histories have {more} holes more"
        found.append(Finding(facts.service, "history", Level.WARN, message, "list them: braid archive verify"))
    return found


def gap_text(gap: EventGap) -> str:
    """The events that are not kept undamaged, and the reason."""
    which = f"event {gap.first}" if gap.first == gap.last else f"events {gap.first} to {gap.last}"
    return f"{which} of {gap.history}: {gap.reason}"
