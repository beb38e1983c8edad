"""Braid: streams that outlive Kafka clusters. The only name applications import.

async with braid.connect("127.0.0.1:7401") as mesh:
    async with mesh.producer("logs") as producer:
        receipt = await producer.send(b"hello", key=b"host-1")
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from braid.client.columns import Batch
    from braid.client.consumer import Consumer
    from braid.client.explaining import Explained
    from braid.client.lane_rules import LaneRule, Late
    from braid.client.lease_view import Lease
    from braid.client.mesh import Mesh, connect
    from braid.client.outbox import Receipt
    from braid.client.producer import Outgoing, Producer
    from braid.client.record import HeldLease, Record
    from braid.client.settings import Backlog, Circuit, DeadLetterLimits, Retry, RetryBudget
    from braid.client.where import Where
    from braid.client.zone_bytes import ZoneBytes, zone_bytes
    from braid.kernel.errors import (
        AlreadyExists,
        BatchTooLarge,
        BraidError,
        ClusterAutoCreatesTopics,
        ClusterUnavailable,
        Conflict,
        DeadlineExceeded,
        DeliveryUnknown,
        Exhausted,
        FailoverBlocked,
        Fenced,
        GroupOccupied,
        HandlerTimeout,
        Invalid,
        LeaseLost,
        NotFound,
        NotLeader,
        RecordTooLarge,
        Refused,
        Reject,
        Retryable,
        TopicSealed,
        Unavailable,
        Unsupported,
    )

__all__ = [
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
    "Exhausted",
    "Explained",
    "FailoverBlocked",
    "Fenced",
    "GroupOccupied",
    "HandlerTimeout",
    "HeldLease",
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
    "TopicSealed",
    "Unavailable",
    "Unsupported",
    "Where",
    "ZoneBytes",
    "connect",
    "zone_bytes",
]

_HOMES = {
    "braid.client.columns": ("Batch",),
    "braid.client.consumer": ("Consumer",),
    "braid.client.explaining": ("Explained",),
    "braid.client.lane_rules": ("LaneRule", "Late"),
    "braid.client.lease_view": ("Lease",),
    "braid.client.mesh": (
        "Mesh",
        "connect",
    ),
    "braid.client.outbox": ("Receipt",),
    "braid.client.producer": (
        "Outgoing",
        "Producer",
    ),
    "braid.client.record": ("HeldLease", "Record"),
    "braid.client.settings": ("Backlog", "Circuit", "DeadLetterLimits", "Retry", "RetryBudget"),
    "braid.client.where": ("Where",),
    "braid.client.zone_bytes": ("ZoneBytes", "zone_bytes"),
    "braid.kernel.errors": (
        "AlreadyExists",
        "BatchTooLarge",
        "BraidError",
        "ClusterAutoCreatesTopics",
        "ClusterUnavailable",
        "Conflict",
        "DeadlineExceeded",
        "DeliveryUnknown",
        "Exhausted",
        "FailoverBlocked",
        "Fenced",
        "GroupOccupied",
        "HandlerTimeout",
        "Invalid",
        "LeaseLost",
        "NotFound",
        "NotLeader",
        "RecordTooLarge",
        "Refused",
        "Reject",
        "Retryable",
        "TopicSealed",
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
