"""The functional core's shape: a decider turns (state, command) into events, and evolves state from events.

After Chassaing's decider pattern. A service supplies one decider per kind of history; `runtime` runs it: load →
decide → append → evolve → answer. Answers are read from the state after the events, so a repeated request gets the
same one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

S = TypeVar("S")
C_contra = TypeVar("C_contra", contravariant=True)
E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Context:
    """The context of a command (its caller, cause and time), recorded with every event that the command leads to.

    Attributes:
        now_ms: Wall clock of the deciding process, milliseconds since the epoch, read once by the shell.
        actor: Principal of the caller, or the service instance that acts by itself (`registry-0`).
        tenant: Tenant of the caller; `default` when the caller has none.
        request_id: Makes a mutation idempotent; empty when the caller gave none.
        cause: The event or signal that led to the command (`cluster/east DOWN`); empty for a person's request.
        leader_epoch: The deciding leader's epoch (store incarnation, counter), see `kernel.ids`.
        trace: W3C `traceparent` of the span that decided; empty without tracing. No decision may depend on it.
    """

    now_ms: int
    actor: str
    tenant: str = "default"
    request_id: str = ""
    cause: str = ""
    leader_epoch: int = 0
    trace: str = ""


class Decider(Protocol[S, C_contra, E]):
    """Pure rules of one kind of history. Time, ids and random choices come inside the command or the context."""

    def initial(self, history: str) -> S:
        """Returns the state of a history without events; `history` is its id within its kind."""
        ...

    def decide(self, state: S, command: C_contra, context: Context) -> Sequence[E]:
        """Returns the events that the command leads to; none when there is nothing to do.

        Raises `BraidError` to refuse.
        """
        ...

    def evolve(self, state: S, event: E, context: Context) -> S:
        """Returns the state after the event, given what was recorded beside it. Never fails for an appended event."""
        ...


class EventCodec(Protocol[S, E]):
    """Converts events of one kind of history between values in memory and protobuf at rest."""

    def encode(self, event: E, context: Context) -> bytes:
        """Returns an event with its metadata as bytes."""
        ...

    def decode(self, data: bytes) -> tuple[E, Context]:
        """Reads `encode`'s bytes. Raises `CorruptHistory` for bytes that do not decode or an unknown type of event."""
        ...

    def encode_state(self, state: S) -> bytes:
        """Returns a state as bytes, for snapshots; equal states give equal bytes."""
        ...

    def decode_state(self, data: bytes) -> S:
        """Reads `encode_state`'s bytes. Raises `CorruptHistory`."""
        ...


@runtime_checkable
class PiecewiseCodec(Protocol):
    """An `EventCodec` that can also encode a large state in pieces, so that no step holds up the event loop."""

    def state_pieces(self, state: object) -> Iterator[bytes]:
        """Yields pieces that joined give the bytes of `encode_state`; each piece is made when it is asked for."""
        ...
