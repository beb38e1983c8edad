"""Values around the aggregate loop: kinds of histories, outcomes of commands, notifications. No I/O."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar, cast

from braid.kernel.decider import Context, Decider, EventCodec
from braid.kernel.ports import HistoryId, Leader, Session
from braid.telemetry.tracing import current_traceparent

S = TypeVar("S")
C = TypeVar("C")
E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Kind(Generic[S, C, E]):
    """One kind of history of a service (`stream`, `group`): its name, its decider, its codec.

    A module constant (`STREAMS: Kind[Stream, StreamCommand, StreamEvent]`) keeps every call of `Aggregates` typed.
    """

    name: str
    decider: Decider[S, C, E]
    codec: EventCodec[S, E]

    def erased(self) -> "Kind[object, object, object]":
        """The same kind without its type parameters, for code that handles all kinds alike."""
        return cast("Kind[object, object, object]", self)


class AnyKind(Protocol):
    """A `Kind` without its type parameters."""

    @property
    def name(self) -> str: ...

    def erased(self) -> Kind[object, object, object]: ...


@dataclass(frozen=True, slots=True)
class Leadership:
    """One replica's leadership; `epoch` is (store incarnation, the fence's revision), see `ids.make_epoch`."""

    leader: Leader
    session: Session
    epoch: int


class Authority(Protocol):
    """The right to append, checked before every append and again before every answer."""

    def require_leader(self) -> Leadership:
        """The present leadership. Raises `NotLeader`, from the session's own deadline on at the latest."""
        ...

    def step_down(self, reason: str) -> None:
        """Ends the leadership, because the store ended it or its state cannot be trusted."""
        ...


class SideAuthority(NamedTuple):
    """The `Authority` over a history beside a service's own: its errors end no leadership.

    Attributes:
        require_leader: As in `Authority`, of the service's own histories, which end the leadership.
        step_down: Receives the reason why the history is no longer followed, for a log.
    """

    require_leader: Callable[[], Leadership]
    step_down: Callable[[str], None]


class RecordedEvent(NamedTuple):
    """An event as recorded: its place, time, actor, cause and bytes."""

    history: HistoryId
    sequence: int
    revision: int
    event: object
    context: Context
    data: bytes


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one history: the new state, and the events that led to it, in order."""

    history: HistoryId
    state: object
    events: Sequence[RecordedEvent]
    revision: int


@dataclass(frozen=True, slots=True)
class Reloaded:
    """All histories were read again (the store compacted or was restored): discard derived state, read all states."""

    revision: int


@dataclass(frozen=True, slots=True)
class Asked(Generic[C]):
    """A command with its caller and cause: see `kernel.decider.Context`.

    Attributes:
        trace: `traceparent` of the span in which it was asked: by default the current one.
    """

    command: C
    actor: str
    tenant: str = "default"
    request_id: str = ""
    cause: str = ""
    trace: str = field(default_factory=current_traceparent)


@dataclass(frozen=True, slots=True)
class Outcome(Generic[S]):
    """The result of a command.

    Attributes:
        state: The history's state after the command.
        revision: The store's revision of the last append the state contains.
        sequence: Sequence of the history's last event.
        events: The events this command led to; empty when there was nothing to do or the request is a repeat.
        repeated: The request id was recorded before; nothing was decided again.
    """

    state: S
    revision: int
    sequence: int
    events: Sequence[RecordedEvent]
    repeated: bool


def within(history: HistoryId, prefix: str) -> bool:
    """Returns whether a history lies under `<kind>/<id>`, `<kind>`, or '' for all."""
    kind, _, id = prefix.partition("/")
    return (not kind or history.kind == kind) and (not id or history.id == id)
