"""Converts an event's context to the metadata stored beside it, and back, for all services."""

from braid.api.mesh.v1.event_pb2 import EventMetadata
from braid.kernel.decider import Context


def metadata_message(context: Context) -> EventMetadata:
    """A context as a message."""
    return EventMetadata(
        time_ms=context.now_ms,
        actor=context.actor,
        tenant=context.tenant,
        request_id=context.request_id,
        cause=context.cause,
        leader_epoch=context.leader_epoch,
        traceparent=context.trace,
    )


def read_context(message: EventMetadata) -> Context:
    """Reads `metadata_message`'s message."""
    return Context(
        message.time_ms,
        message.actor,
        message.tenant,
        message.request_id,
        message.cause,
        message.leader_epoch,
        message.traceparent,
    )
