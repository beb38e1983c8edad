"""The declaration of a group, as a consumer's settings state it."""

from datetime import datetime

from braid.api.assigner.v1 import group_pb2
from braid.client.consumer_settings import ConsumerSettings, Start


def group_spec(settings: ConsumerSettings) -> group_pb2.GroupSpec:
    """Builds the declaration of a consumer's group."""
    return group_pb2.GroupSpec(
        streams=settings.streams,
        lanes=dict(settings.lanes),
        ownership=group_pb2.Ownership.Value(f"OWNERSHIP_{settings.ownership.upper()}"),
        fencing=group_pb2.Fencing.Value(f"FENCING_{(settings.fencing or 'unspecified').upper()}"),
        lease_ms=int(settings.lease_seconds * 1000),
        start=_start(settings.start),
    )


def _start(start: Start) -> group_pb2.StartPosition:
    if isinstance(start, datetime):
        return group_pb2.StartPosition(time_ms=int(start.timestamp() * 1000))
    return group_pb2.StartPosition(earliest=True) if start == "earliest" else group_pb2.StartPosition(latest=True)
