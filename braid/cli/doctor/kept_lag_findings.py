"""`doctor`'s findings on kept lag: no directory, one that takes nothing, and one whose bound is reached. Pure."""

from typing import Final, NamedTuple

from braid.api.lagmon.v1.lag_history_pb2 import KeptLagStatus
from braid.cli.doctor.findings import Finding, Level

_MB: Final = 1_000_000


class KeptLagFacts(NamedTuple):
    """How one replica of lagmon keeps lag.

    Attributes:
        trouble: Why its directory takes nothing; empty if it does.
    """

    instance: str
    status: KeptLagStatus
    trouble: str = ""


def check_kept_lag(facts: KeptLagFacts) -> Finding:
    """Checks that lag outlives the process, for as long as it should. The first thing that is wrong is told."""
    status = facts.status
    size = f"{status.size_bytes / _MB:,.1f} of {status.limit_bytes / _MB:,.0f} MB"
    if facts.trouble:
        remedy = "let its user write the directory that BRAID_KEPT_LAG names, and make room on that disk"
        return _finding(facts, Level.WARN, facts.trouble, remedy)
    if status.dropped_files:
        message = f"the oldest lag goes before its time: {status.dropped_files} files went for want of room ({size})"
        remedy = "set BRAID_KEPT_LAG to a directory" if status.in_memory else "raise BRAID_KEPT_LAG_BYTES"
        return _finding(facts, Level.WARN, message, remedy)
    if status.in_memory:
        message = "lag is kept in memory, and ends with the process: alerts and histories begin anew with each restart"
        return _finding(facts, Level.WARN, message, "set BRAID_KEPT_LAG to a directory")
    return _finding(facts, Level.OK, f"lag is kept on disk ({size})")


def _finding(facts: KeptLagFacts, level: Level, message: str, remedy: str = "") -> Finding:
    return Finding(facts.instance, "kept lag", level, message, remedy)
