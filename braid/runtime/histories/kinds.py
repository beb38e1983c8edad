"""The values around the aggregate loop: kinds of histories, outcomes of commands, what subscribers are told. No I/O."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar, cast

from braid.kernel.decider import Context, Decider, EventCodec
from braid.kernel.ports import HistoryId, Leader, Session

S = TypeVar("S")
C = TypeVar("C")
E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Kind(Generic[S, C, E]):
    """One kind of history of a service (`stream`, `group`): its name, its rules, its bytes.

    A module constant (`STREAMS: Kind[Stream, StreamCommand, StreamEvent]`) keeps every call of `Aggregates` typed.
    """

    name: str
    decider: Decider[S, C, E]
    codec: EventCodec[S, E]

    def erased(self) -> "Kind[object, object, object]":
        """The same kind for code that handles all kinds alike."""
        return cast("Kind[object, object, object]", self)


class AnyKind(Protocol):
    """A `Kind` of whatever types."""

    @property
    def name(self) -> str: ...

    def erased(self) -> Kind[object, object, object]: ...


@dataclass(frozen=True, slots=True)
class Leadership:
    """One replica's time as leader; `epoch` is (store incarnation, the fence's revision), see `ids.make_epoch`."""

    leader: Leader
    session: Session
    epoch: int


class Authority(Protocol):
    """Who may append: asked before every append and again before every answer."""

    def require_leader(self) -> Leadership:
        """The leadership held now. Raises `NotLeader`, from the session's own deadline on at the latest."""
        ...

    def step_down(self, reason: str) -> None:
        """Ends the leadership, because the store says it is over or its state cannot be trusted."""
        ...


class SideAuthority(NamedTuple):
    """`Authority` over a history that lies beside a service's own: what is wrong with it ends no leadership.

    Attributes:
        require_leader: As in `Authority`, of the service's own histories, which say when its leadership is over.
        step_down: Gets the reason why the history is not followed any more, for a log.
    """

    require_leader: Callable[[], Leadership]
    step_down: Callable[[str], None]


class RecordedEvent(NamedTuple):
    """An event as recorded: where, who, when, why, and its bytes at rest."""

    history: HistoryId
    sequence: int
    revision: int
    event: object
    context: Context
    data: bytes


@dataclass(frozen=True, slots=True)
class Change:
    """One history moved on: the new state, and the events that led there, in order."""

    history: HistoryId
    state: object
    events: Sequence[RecordedEvent]
    revision: int


@dataclass(frozen=True, slots=True)
class Reloaded:
    """Everything was read again (the store compacted or was restored): forget what was derived, read all states."""

    revision: int


@dataclass(frozen=True, slots=True)
class Asked(Generic[C]):
    """A command, with who asks and why: see `kernel.decider.Context`."""

    command: C
    actor: str
    tenant: str = "default"
    request_id: str = ""
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[S]):
    """What a command led to.

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
