"""Rules of a channel's copies: the events that commands about them lead to. Pure."""

from collections.abc import Sequence

from braid.kernel.errors import Invalid, Refused
from braid.kernel.limits.registry.resources import REPLICATION_MAX
from services.registry.model.channels import IN_USE
from services.registry.model.stream_commands import IntendReassignment, RecordCopies
from services.registry.model.stream_events import CopiesSettled, ReassignmentIntended, StreamEvent
from services.registry.model.streams import Stream


def intend_reassignment(state: Stream, command: IntendReassignment) -> Sequence[StreamEvent]:
    channel = state.channel(command.ref)
    if command.copies == channel.copies_intended:
        return []
    if channel.state not in IN_USE or channel.retiring:
        raise Refused(f"channel {channel.ref} is {channel.state.name}: its copies stay as they are")
    within_copies(command.copies)
    # A second intent of one reassignment keeps the throttle: whoever ends it must know that it is there.
    throttle = max(command.throttle_bytes_per_s, channel.throttle_bytes_per_s)
    return [ReassignmentIntended(command.ref, command.copies, throttle, state.spec)]


def settle_copies(state: Stream, command: RecordCopies) -> Sequence[StreamEvent]:
    """Records the end of a reassignment; for a deleted stream too, before its topic is deleted."""
    channel = state.channel(command.ref)
    settled = command.copies == channel.copies and not channel.copies_intended
    return [] if settled else [CopiesSettled(command.ref, command.copies, state.spec)]


def within_copies(copies: int) -> None:
    if not 1 <= copies <= REPLICATION_MAX:
        raise Invalid(f"{copies} is not between 1 and {REPLICATION_MAX}", field="copies")
