"""`EventCodec` of a kind whose events are one protobuf message, and whose states are another."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

from google.protobuf.message import DecodeError

from braid.api.mesh.v1.event_pb2 import EventMetadata
from braid.kernel.decider import Context
from braid.kernel.errors import CorruptHistory, Invalid
from braid.runtime.histories.event_metadata import metadata_message, read_context

S = TypeVar("S")
E = TypeVar("E")


class _Message(Protocol):
    """The part of protobuf's `Message` that is used of states."""

    @classmethod
    def FromString(cls, s: bytes) -> Self: ...

    def SerializeToString(self, *, deterministic: bool = ...) -> bytes: ...


class _EventMessage(_Message, Protocol):
    """The part that is used of events."""

    @property
    def metadata(self) -> EventMetadata: ...


M = TypeVar("M", bound=_EventMessage)
N = TypeVar("N", bound=_Message)


@dataclass(frozen=True, slots=True)
class MessageCodec(Generic[S, E, M, N]):
    """The codec of a kind, made of four conversions; the ones that read may raise `Invalid` for what they do not know.

    Attributes:
        event_type: The message of all events of the kind, with a field `metadata`.
        message: Makes it of an event.
        event: Reads it. Raises `CorruptHistory` for an event of an unknown type.
        state_type: The message of states.
        state_message: Makes it of a state.
        state: Reads it.
    """

    event_type: type[M]
    message: Callable[[E], M]
    event: Callable[[M], E]
    state_type: type[N]
    state_message: Callable[[S], N]
    state: Callable[[N], S]

    def encode(self, event: E, context: Context) -> bytes:
        """See `EventCodec.encode`; equal inputs give equal bytes."""
        message = self.message(event)
        message.metadata.CopyFrom(metadata_message(context))
        return message.SerializeToString(deterministic=True)

    def decode(self, data: bytes) -> tuple[E, Context]:
        """See `EventCodec.decode`."""
        try:
            message = self.event_type.FromString(data)
            return self.event(message), read_context(message.metadata)
        except DecodeError as error:
            raise CorruptHistory(f"the bytes are no {self.event_type.__name__}") from error
        except Invalid as error:
            what = f"{self.event_type.__name__}: {error.message}"
            raise CorruptHistory(what, remedy="run a newer release") from error

    def encode_state(self, state: S) -> bytes:
        """See `EventCodec.encode_state`."""
        return self.state_message(state).SerializeToString(deterministic=True)

    def decode_state(self, data: bytes) -> S:
        """See `EventCodec.decode_state`."""
        try:
            return self.state(self.state_type.FromString(data))
        except (DecodeError, Invalid) as error:
            raise CorruptHistory(f"the bytes are no state as {self.state_type.__name__}: {error}") from error
