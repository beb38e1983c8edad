"""Whether replicas refuse what is not granted, or let every caller do everything. Pure."""

from collections.abc import Sequence

from braid.api.mesh.v1.endpoint_pb2 import ACCESS_MODE_ENFORCED, ACCESS_MODE_OPEN
from braid.cli.doctor.findings import Finding, Level, ReplicaFacts

_NAME = "services"
_CHECK = "access"


def check_access(replicas: Sequence[ReplicaFacts]) -> list[Finding]:
    """One finding about all replicas that say how they control access; those of older releases do not."""
    open_ones = sorted(each.instance for each in replicas if each.access == ACCESS_MODE_OPEN)
    if open_ones:
        message = f"{', '.join(open_ones)}: access is open, so every caller may do nearly everything"
        remedy = (
            "grant what callers need, then set BRAID_ACCESS=enforced: docs/guides/rights.md; "
            "`braid dev` without --insecure does"
        )
        return [Finding(_NAME, _CHECK, Level.WARN, message, remedy)]
    if any(each.access == ACCESS_MODE_ENFORCED for each in replicas):
        return [Finding(_NAME, _CHECK, Level.OK, "rights are enforced: what is not granted is refused")]
    return []
