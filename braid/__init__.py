"""Braid: streams that outlive Kafka clusters. The only name applications import.

async with braid.connect() as mesh:
    async with mesh.producer("logs") as producer:
        receipt = await producer.send(b"hello", key=b"host-1")
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from braid.client.consumer_settings import Backlog, Circuit, DeadLetterLimits, Retry, RetryBudget
    from braid.client.consuming.consumer import Consumer
    from braid.client.consuming.explanations import Explained, Lease
    from braid.client.mesh import Mesh, connect
    from braid.client.producing.lane_rules import LaneRule, Late
    from braid.client.producing.producer import Producer
    from braid.client.records.batch import Batch
    from braid.client.records.outgoing import Outgoing, Receipt
    from braid.client.records.record import HeldLease, Record
    from braid.client.records.where import Where
    from braid.client.telemetry.zone_bytes import ZoneBytes, zone_bytes
    from braid.host.endpoints import find_endpoint
    from braid.host.tls.paths import Tls
    from braid.host.tokens import Token
    from braid.kernel.errors import (
        AccessDenied,
        AlreadyExists,
        BatchTooLarge,
        BraidError,
        ClusterAutoCreatesTopics,
        ClusterUnavailable,
        Conflict,
        DeadlineExceeded,
        DeliveryUnknown,
        EvidenceRefused,
        Exhausted,
        FailoverBlocked,
        Fenced,
        GroupOccupied,
        HandlerTimeout,
        IdentityRevoked,
        Invalid,
        LeaseLost,
        NotFound,
        NotLeader,
        RecordTooLarge,
        Refused,
        Reject,
        Retryable,
        TopicSealed,
        Unauthenticated,
        Unavailable,
        Unsupported,
    )

__all__ = [
    "AccessDenied",
    "AlreadyExists",
    "Backlog",
    "Batch",
    "BatchTooLarge",
    "BraidError",
    "Circuit",
    "ClusterAutoCreatesTopics",
    "ClusterUnavailable",
    "Conflict",
    "Consumer",
    "DeadLetterLimits",
    "DeadlineExceeded",
    "DeliveryUnknown",
    "EvidenceRefused",
    "Exhausted",
    "Explained",
    "FailoverBlocked",
    "Fenced",
    "GroupOccupied",
    "HandlerTimeout",
    "HeldLease",
    "IdentityRevoked",
    "Invalid",
    "LaneRule",
    "Late",
    "Lease",
    "LeaseLost",
    "Mesh",
    "NotFound",
    "NotLeader",
    "Outgoing",
    "Producer",
    "Receipt",
    "Record",
    "RecordTooLarge",
    "Refused",
    "Reject",
    "Retry",
    "RetryBudget",
    "Retryable",
    "Tls",
    "Token",
    "TopicSealed",
    "Unauthenticated",
    "Unavailable",
    "Unsupported",
    "Where",
    "ZoneBytes",
    "connect",
    "find_endpoint",
    "zone_bytes",
]

_HOMES = {
    "braid.client.records.batch": ("Batch",),
    "braid.client.consuming.consumer": ("Consumer",),
    "braid.client.consuming.explanations": ("Explained", "Lease"),
    "braid.client.producing.lane_rules": ("LaneRule", "Late"),
    "braid.client.mesh": (
        "Mesh",
        "connect",
    ),
    "braid.client.producing.producer": ("Producer",),
    "braid.client.records.outgoing": ("Outgoing", "Receipt"),
    "braid.client.records.record": ("HeldLease", "Record"),
    "braid.client.consumer_settings": ("Backlog", "Circuit", "DeadLetterLimits", "Retry", "RetryBudget"),
    "braid.client.records.where": ("Where",),
    "braid.client.telemetry.zone_bytes": ("ZoneBytes", "zone_bytes"),
    "braid.host.endpoints": ("find_endpoint",),
    "braid.host.tls.paths": ("Tls",),
    "braid.host.tokens": ("Token",),
    "braid.kernel.errors": (
        "AccessDenied",
        "AlreadyExists",
        "BatchTooLarge",
        "BraidError",
        "ClusterAutoCreatesTopics",
        "ClusterUnavailable",
        "Conflict",
        "DeadlineExceeded",
        "DeliveryUnknown",
        "EvidenceRefused",
        "Exhausted",
        "FailoverBlocked",
        "Fenced",
        "GroupOccupied",
        "HandlerTimeout",
        "IdentityRevoked",
        "Invalid",
        "LeaseLost",
        "NotFound",
        "NotLeader",
        "RecordTooLarge",
        "Refused",
        "Reject",
        "Retryable",
        "TopicSealed",
        "Unauthenticated",
        "Unavailable",
        "Unsupported",
    ),
}


def __getattr__(name: str) -> object:
    """Imports a public name when it is first used, so that `braid --help` loads neither Kafka nor gRPC."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(home), name)
    raise AttributeError(f"module 'braid' has no attribute {name!r}")
