"""A group's spec ⇄ its message, at rest and in the API alike."""

from typing import cast

from braid.api.assigner.v1 import group_pb2
from services.assigner.model.group import Fencing, GroupSpec, Ownership, StartKind, StartPosition


def spec_message(spec: GroupSpec) -> group_pb2.GroupSpec:
    """A group's spec, as a message."""
    start = group_pb2.StartPosition()
    match spec.start.kind:
        case StartKind.EARLIEST:
            start.earliest = True
        case StartKind.LATEST:
            start.latest = True
        case StartKind.TIME:
            start.time_ms = spec.start.time_ms
    return group_pb2.GroupSpec(
        streams=spec.streams,
        lanes=dict(spec.lanes),
        ownership=cast("group_pb2.Ownership.ValueType", spec.ownership.value),
        lease_ms=spec.lease_ms,
        start=start,
        fencing=cast("group_pb2.Fencing.ValueType", spec.fencing.value),
    )


def decode_spec(message: group_pb2.GroupSpec) -> GroupSpec:
    """Reads `spec_message`'s message. Raises `ValueError` for an unknown ownership or fencing."""
    return GroupSpec(
        tuple(message.streams),
        tuple(sorted(message.lanes.items())),
        Ownership(message.ownership),
        message.lease_ms,
        decode_start(message.start),
        Fencing(message.fencing or Fencing.NONE.value),
    )


def decode_start(message: group_pb2.StartPosition) -> StartPosition:
    """A start position; the earliest when none is set."""
    match message.WhichOneof("position"):
        case "latest":
            return StartPosition(StartKind.LATEST)
        case "time_ms":
            return StartPosition(StartKind.TIME, message.time_ms)
        case _:
            return StartPosition()
