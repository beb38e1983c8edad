"""Events of a replay ⇄ protobuf at rest (`events.proto`); states ⇄ bytes for snapshots. No rules, no API messages."""

from typing import Final, cast, get_args

from braid.api.dlq.v1 import events_pb2 as pb
from braid.api.dlq.v1 import replay_pb2
from braid.kernel.decider import Context
from braid.runtime.histories.event_messages import EventMessages, conversion
from braid.runtime.histories.kinds import Kind
from services.dlq.codec import snapshots
from services.dlq.codec.sent_letters import read_sent_letters, sent_letters_message
from services.dlq.domain.replay import Replay, ReplayDecider
from services.dlq.model.events import Command, Event, Position, ReplaySpec, Skips
from services.dlq.model.letters import Cursor


class ReplayCodec:
    """The `kernel.decider.EventCodec` of the kind `replay`."""

    def encode(self, event: Event, context: Context) -> bytes:
        """Encodes an event and its metadata as a `DlqEvent`; equal inputs give equal bytes."""
        return _EVENTS.encode(event, context)

    def decode(self, data: bytes) -> tuple[Event, Context]:
        """Decodes `encode`'s bytes. Raises `CorruptHistory` for damaged bytes or an unknown event type."""
        event, context = _EVENTS.decode(data)
        return cast("Event", event), context

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


def _position_message(position: Position) -> pb.LetterPosition:
    return pb.LetterPosition(**position._asdict())


def _read_position(message: pb.LetterPosition) -> Position:
    return Position(message.generation, message.partition, message.next_offset)


def _cursor_message(cursor: Cursor) -> pb.LetterCursor:
    return pb.LetterCursor(**cursor._asdict())


def _read_cursor(message: pb.LetterCursor) -> Cursor:
    return Cursor(message.generation, message.partition, message.offset)


def _skips_message(skips: Skips) -> pb.SkippedLetters:
    return pb.SkippedLetters(**skips._asdict())


def _read_skips(message: pb.SkippedLetters) -> Skips:
    return Skips(message.reason, message.letters)


_EVENTS: Final = EventMessages(
    pb.DlqEvent,
    get_args(Event),
    {
        "ReplaySpec": conversion(spec_message, decode_spec),
        "LetterPosition": conversion(_position_message, _read_position),
        "LetterCursor": conversion(_cursor_message, _read_cursor),
        "SkippedLetters": conversion(_skips_message, _read_skips),
        "SentLetters": conversion(sent_letters_message, read_sent_letters),
    },
)
