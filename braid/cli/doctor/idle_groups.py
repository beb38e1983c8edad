"""`doctor`'s findings on groups without members: when drains stop waiting for them, and when brokers forget them. Pure.

A group that is fenced by generations stays a member of its Kafka groups through the assigner, so brokers keep its
progress. Progress of any other group is deleted one offsets retention after its last member left.
"""

from collections.abc import Sequence
from typing import Final

from braid.api.assigner.v1.group_pb2 import FENCING_NONE, Group
from braid.cli.core.times import age_text
from braid.cli.doctor.cluster_findings import ClusterFacts
from braid.cli.doctor.findings import Finding, Level
from braid.kernel.limits.assigner.leases import GROUP_IDLE_EXPIRY_SECONDS

_SHARE_TOLD: Final = 0.5  # of the time it has left when its last member goes: then there is time to do something
_MINUTE_MS: Final = 60_000


def check_groups(groups: Sequence[Group], clusters: Sequence[ClusterFacts], now_ms: int) -> list[Finding]:
    """Checks groups whose members have been gone for long.

    Args:
        groups: Groups from the assigner.
        clusters: Clusters' descriptions of themselves; those that do not answer are ignored.
        now_ms: Wall clock.
    """
    found = _held(groups)
    for group in groups:
        if group.status.members or not group.status.idle_since_ms:
            continue
        found += _forgotten(group, clusters, now_ms)
        found += _not_waited_for(group, now_ms)
    return found


def _forgotten(group: Group, clusters: Sequence[ClusterFacts], now_ms: int) -> list[Finding]:
    """When brokers delete its progress, on the cluster that does so first."""
    known = [(each.description.offsets_retention_minutes, each.cluster.name) for each in clusters if each.description]
    if group.spec.fencing != FENCING_NONE or not known:
        return []
    minutes, cluster = min(known)
    retention_ms, idle_ms = minutes * _MINUTE_MS, now_ms - group.status.idle_since_ms
    since = age_text(group.status.idle_since_ms, now_ms)
    if idle_ms < _SHARE_TOLD * retention_ms:
        return []
    name, remedy = f"group/{group.name}", _remedy(group)
    if idle_ms >= retention_ms:
        message = f"without members for {since}: cluster {cluster} may have forgotten its progress"
        return [Finding(name, "progress", Level.FAIL, message, remedy)]
    left = age_text(now_ms, now_ms + retention_ms - idle_ms)
    message = f"without members for {since}: cluster {cluster} forgets its progress in {left}"
    return [Finding(name, "progress", Level.WARN, message, remedy)]


def _not_waited_for(group: Group, now_ms: int) -> list[Finding]:
    """When drains stop waiting for the group."""
    status, since = group.status, age_text(group.status.idle_since_ms, now_ms)
    name, remedy = f"group/{group.name}", _remedy(group)
    if status.idle_expired:
        message = f"without members for {since}: drains do not wait for it any more"
        return [Finding(name, "idle", Level.WARN, message, remedy)]
    left_ms = status.idle_left_ms if status.idle_left_ms or status.idle_alerted else _left_by_wall_clocks(group, now_ms)
    if not status.idle_alerted and left_ms >= _SHARE_TOLD * GROUP_IDLE_EXPIRY_SECONDS * 1_000:
        return []
    left = age_text(now_ms, now_ms + left_ms)
    message = f"without members for {since}: drains stop waiting for it in {left}"
    return [Finding(name, "idle", Level.WARN, message, remedy)]


def _left_by_wall_clocks(group: Group, now_ms: int) -> int:
    """How much longer drains wait for a group, for an older assigner that does not report it."""
    return max(0, GROUP_IDLE_EXPIRY_SECONDS * 1_000 - (now_ms - group.status.idle_since_ms))


def _held(groups: Sequence[Group]) -> list[Finding]:
    """Why drains wait for idle groups without limit, if they do."""
    why = next((group.status.idle_held for group in groups if group.status.idle_held), "")
    if not why:
        return []
    message = f"nothing that waits expires or is deleted: {why}"
    return [Finding("assigner", "waits", Level.FAIL, message, "synchronise the clocks of all machines (NTP)")]


def _remedy(group: Group) -> str:
    return f"start a member of it, or forget it: braid delete group {group.name}"
