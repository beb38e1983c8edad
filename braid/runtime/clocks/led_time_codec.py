"""Events of kind `clock` ⇄ protobuf at rest (`mesh/v1/clock.proto`); states ⇄ bytes for snapshots."""

import json
from typing import Final

from google.protobuf.message import DecodeError

from braid.api.mesh.v1 import clock_pb2 as pb
from braid.kernel.decider import Context
from braid.kernel.errors import CorruptHistory
from braid.runtime.clocks.led_time import (
    ClockDecider,
    ClocksCompared,
    ClockState,
    Command,
    Event,
    TimeCounted,
    Wait,
    WaitsChanged,
)
from braid.runtime.histories.event_metadata import metadata_message, read_context
from braid.runtime.histories.kinds import Kind


class ClockCodec:
    """The `kernel.decider.EventCodec` of the kind `clock`."""

    def encode(self, event: Event, context: Context) -> bytes:
        """Encodes an event and its metadata as a `ClockEvent`."""
        message = _message(event)
        message.metadata.CopyFrom(metadata_message(context))
        return message.SerializeToString(deterministic=True)

    def decode(self, data: bytes) -> tuple[Event, Context]:
        """Decodes `encode`'s bytes. Raises `CorruptHistory` for other bytes, or an event of a newer release."""
        try:
            message = pb.ClockEvent.FromString(data)
        except DecodeError as error:
            raise CorruptHistory("the bytes are no ClockEvent") from error
        return _event(message), read_context(message.metadata)

    def encode_state(self, state: ClockState) -> bytes:
        """Encodes a state; equal states give equal bytes."""
        document = {"led_ms": state.led_ms, "waits": dict(state.waits), "apart": dict(state.apart)}
        return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    def decode_state(self, data: bytes) -> ClockState:
        """Decodes `encode_state`'s bytes. Raises `CorruptHistory`."""
        try:
            document = json.loads(data)
            waits = {str(name): Wait(int(since), int(led)) for name, (since, led) in document["waits"].items()}
            return ClockState(int(document["led_ms"]), waits, {str(k): int(v) for k, v in document["apart"].items()})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CorruptHistory(f"no state of a clock: {error}") from error


def _message(event: Event) -> pb.ClockEvent:
    match event:
        case TimeCounted(led_ms):
            return pb.ClockEvent(time_counted=pb.TimeCounted(led_ms=led_ms))
        case WaitsChanged(led_ms, started, ended):
            waits = [pb.Wait(name=name, since_ms=since_ms) for name, since_ms in started]
            return pb.ClockEvent(waits_changed=pb.WaitsChanged(led_ms=led_ms, started=waits, ended=ended))
        case ClocksCompared(apart):
            offsets = [pb.ClockOffset(instance=name, ahead_ms=ahead_ms) for name, ahead_ms in apart]
            return pb.ClockEvent(clocks_compared=pb.ClocksCompared(apart=offsets))


def _event(message: pb.ClockEvent) -> Event:
    match message.WhichOneof("event"):
        case "time_counted":
            return TimeCounted(message.time_counted.led_ms)
        case "waits_changed":
            changed = message.waits_changed
            started = tuple((each.name, each.since_ms) for each in changed.started)
            return WaitsChanged(changed.led_ms, started, tuple(changed.ended))
        case "clocks_compared":
            return ClocksCompared(tuple((each.instance, each.ahead_ms) for each in message.clocks_compared.apart))
        case _:
            raise CorruptHistory("the event is of an unknown type", remedy="run a newer release")


CLOCK: Final[Kind[ClockState, Command, Event]] = Kind("clock", ClockDecider(), ClockCodec())
