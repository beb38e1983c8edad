"""The columns of each type's table. Rows are in `listing.py`, and beside the types of `access` and `dlq`."""

from collections.abc import Mapping
from typing import Final

from braid.cli.core.kinds import (
    ALERT,
    APPROVAL,
    APPROVAL_POLICY,
    CHANNEL,
    CLUSTER,
    DEADLETTER,
    GRANT,
    GROUP,
    LEASE,
    MEMBER,
    PATHWAY,
    REPLAY,
    REVOCATION,
    STREAM,
    TENANT,
    Kind,
)
from braid.cli.core.output import Column, Columns
from braid.cli.resources.access import approvals, grants, revocations, tenants
from braid.cli.resources.alerts import listing as alerts
from braid.cli.resources.dlq import dead_letters, replays
from braid.cli.resources.pathways import listing as pathways

COLUMNS: Final[Mapping[Kind, Columns]] = {
    STREAM: Columns(
        (
            Column("LANES", shrinks=True),
            Column("ON", shrinks=True),
            Column("STATE"),
            Column("CLUSTERS", wide=True),
            Column("FAILOVER", wide=True),
            Column("COPIES", wide=True),
            Column("RETENTION", wide=True),
            Column("REASON", wide=True),
        )
    ),
    CHANNEL: Columns(
        (
            Column("CLUSTER"),
            Column("STATE"),
            Column("PARTITIONS"),
            Column("WAITS FOR", shrinks=True),
            Column("WEIGHT", wide=True),
            Column("ZONE", wide=True),
            Column("TOPIC", wide=True),
        ),
    ),
    CLUSTER: Columns(
        (
            Column("ZONE"),
            Column("HEALTH"),
            Column("BOOTSTRAP", shrinks=True),
            Column("ACTIVE"),
            Column("DRAINING"),
            Column("CAPACITY", wide=True),
            Column("DISK FREE", wide=True),
            Column("TAKES", wide=True),
            Column("KAFKA-ID", wide=True),
            Column("PROFILE", wide=True),
            Column("REASON", wide=True),
        )
    ),
    GROUP: Columns(
        (
            Column("STREAMS", shrinks=True),
            Column("MEMBERS"),
            Column("LEASES"),
            Column("FREE"),
            Column("STATE"),
            Column("LANES", wide=True),
            Column("OWNERSHIP", wide=True),
            Column("LEASE", wide=True),
            Column("DESIRED", wide=True),
        )
    ),
    MEMBER: Columns(
        (
            Column("GROUP", shrinks=True),
            Column("CLIENT", shrinks=True),
            Column("ZONE"),
            Column("STATE"),
            Column("LEASES"),
            Column("PEER", wide=True),
            Column("CAPACITY", wide=True),
            Column("CPU", wide=True),
            Column("WAIT", wide=True),
            Column("STOPPED", wide=True),
        )
    ),
    LEASE: Columns(
        (
            Column("GROUP", shrinks=True),
            Column("CLUSTER"),
            Column("CLIENT", shrinks=True),
            Column("STATE"),
            Column("EPOCH"),
            Column("MEMBER", wide=True),
            Column("TOPIC", wide=True),
            Column("RULE", wide=True),
        )
    ),
    DEADLETTER: dead_letters.COLUMNS,
    REPLAY: replays.COLUMNS,
    GRANT: grants.COLUMNS,
    REVOCATION: revocations.COLUMNS,
    TENANT: tenants.COLUMNS,
    APPROVAL: approvals.COLUMNS,
    APPROVAL_POLICY: approvals.POLICY_COLUMNS,
    ALERT: alerts.COLUMNS,
    PATHWAY: pathways.COLUMNS,
}
