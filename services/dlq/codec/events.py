"""Events of a replay ⇄ protobuf at rest (`events.proto`); states ⇄ bytes for snapshots. No rules, no API messages."""

from collections.abc import Callable, Mapping
from typing import Final, cast

from google.protobuf.message import DecodeError

from braid.api.dlq.v1 import events_pb2 as pb
from braid.api.dlq.v1 import replay_pb2
from braid.kernel.decider import Context
from braid.kernel.errors import CorruptHistory
from braid.runtime.event_metadata import metadata_message, read_context
from braid.runtime.kinds import Kind
from services.dlq.codec import snapshots
from services.dlq.domain.replay import Replay, ReplayDecider
from services.dlq.model.events import (
    BatchBegun,
    Command,
    Event,
    Position,
    ReplayAdvanced,
    ReplayCancelled,
    ReplayCreated,
    ReplayFailed,
    ReplayFinished,
    ReplayPaused,
    ReplayResumed,
    ReplaySpec,
    Skips,
)
from services.dlq.model.letters import Cursor


class ReplayCodec:
    """`kernel.decider.EventCodec` for kind `replay`."""

    def encode(self, event: Event, context: Context) -> bytes:
        """An event with its metadata, as a `DlqEvent`; equal inputs give equal bytes."""
        message = _encode_event(event)
        message.metadata.CopyFrom(metadata_message(context))
        return message.SerializeToString(deterministic=True)

    def decode(self, data: bytes) -> tuple[Event, Context]:
        """Reads `encode`'s bytes. Raises `CorruptHistory` for bytes that do not decode or an unknown type of event."""
        try:
            message = pb.DlqEvent.FromString(data)
        except DecodeError as error:
            raise CorruptHistory("the bytes are no DlqEvent") from error
        name = message.WhichOneof("event")
        if name is None:
            raise CorruptHistory("the event is of an unknown type", remedy="run a newer release")
        return _DECODERS[name](getattr(message, name)), read_context(message.metadata)

    def encode_state(self, state: Replay) -> bytes:
        """A state as bytes; equal states give equal bytes."""
        return snapshots.encode(state)

    def decode_state(self, data: bytes) -> Replay:
        """Reads `encode_state`'s bytes. Raises `CorruptHistory`."""
        return snapshots.decode(data)


REPLAYS: Final[Kind[Replay, Command, Event]] = Kind("replay", ReplayDecider(), ReplayCodec())


def spec_message(spec: ReplaySpec) -> replay_pb2.ReplaySpec:
    """A spec as a message."""
    return replay_pb2.ReplaySpec(
        stream=spec.stream,
        filter=spec.filter,
        destination=spec.destination,
        rate_per_s=spec.rate_per_s,
        broadcast=spec.broadcast,
    )


def decode_spec(message: replay_pb2.ReplaySpec) -> ReplaySpec:
    """Reads `spec_message`'s message."""
    return ReplaySpec(message.stream, message.filter, message.destination, message.rate_per_s, message.broadcast)


def _encode_event(event: Event) -> pb.DlqEvent:
    match event:
        case ReplayCreated():
            return pb.DlqEvent(replay_created=_created_message(event))
        case BatchBegun(end, letters):
            return pb.DlqEvent(batch_begun=pb.BatchBegun(end=_cursor_message(end), letters=letters))
        case ReplayAdvanced():
            return pb.DlqEvent(replay_advanced=_advanced_message(event))
        case ReplayPaused():
            return pb.DlqEvent(replay_paused=pb.ReplayPaused())
        case ReplayResumed():
            return pb.DlqEvent(replay_resumed=pb.ReplayResumed())
        case ReplayCancelled():
            return pb.DlqEvent(replay_cancelled=pb.ReplayCancelled())
        case ReplayFinished():
            return pb.DlqEvent(replay_finished=pb.ReplayFinished())
        case ReplayFailed(reason):
            return pb.DlqEvent(replay_failed=pb.ReplayFailed(reason=reason))


def _created_message(event: ReplayCreated) -> pb.ReplayCreated:
    through = [
        pb.LetterPosition(generation=each.generation, partition=each.partition, next_offset=each.next_offset)
        for each in event.through
    ]
    return pb.ReplayCreated(spec=spec_message(event.spec), matched=event.matched, through=through)


def _advanced_message(event: ReplayAdvanced) -> pb.ReplayAdvanced:
    skipped = [pb.SkippedLetters(reason=each.reason, letters=each.letters) for each in event.skipped]
    return pb.ReplayAdvanced(
        cursor=_cursor_message(event.cursor), sent=event.sent, repeated=event.repeated, skipped=skipped
    )


def _cursor_message(cursor: Cursor) -> pb.LetterCursor:
    return pb.LetterCursor(generation=cursor.generation, partition=cursor.partition, offset=cursor.offset)


def _decode_cursor(message: pb.LetterCursor) -> Cursor:
    return Cursor(message.generation, message.partition, message.offset)


def _decode_created(message: pb.ReplayCreated) -> Event:
    through = tuple(Position(each.generation, each.partition, each.next_offset) for each in message.through)
    return ReplayCreated(decode_spec(message.spec), message.matched, through)


def _decode_advanced(message: pb.ReplayAdvanced) -> Event:
    skipped = tuple(Skips(each.reason, each.letters) for each in message.skipped)
    return ReplayAdvanced(_decode_cursor(message.cursor), message.sent, message.repeated, skipped)


# By name of the field in `DlqEvent`. Each takes the message of that field, which no type can say.
_DECODERS: Final = cast(
    "Mapping[str, Callable[[object], Event]]",
    {
        "replay_created": _decode_created,
        "batch_begun": lambda m: BatchBegun(_decode_cursor(m.end), m.letters),
        "replay_advanced": _decode_advanced,
        "replay_paused": lambda m: ReplayPaused(),
        "replay_resumed": lambda m: ReplayResumed(),
        "replay_cancelled": lambda m: ReplayCancelled(),
        "replay_finished": lambda m: ReplayFinished(),
        "replay_failed": lambda m: ReplayFailed(m.reason),
    },
)
