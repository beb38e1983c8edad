"""The rules of a replay job: the events each command leads to, and the change each event makes. Pure.

Invariants of every prefix of every history:

- The cursor only moves forward, and never past `through`.
- A batch begins only while the job runs, and at most one batch is open. An ended job begins no batch.
- A batch that was begun and not finished begins again with the same end. All letters it sends then count as repeated.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from braid.kernel.decider import Context
from braid.kernel.errors import AlreadyExists, Conflict, Invalid, NotFound, Refused
from services.dlq.model.events import (
    Advance,
    BatchBegun,
    BeginBatch,
    CancelReplay,
    Command,
    CreateReplay,
    Event,
    FailReplay,
    FinishReplay,
    PauseReplay,
    Position,
    ReplayAdvanced,
    ReplayCancelled,
    ReplayCreated,
    ReplayFailed,
    ReplayFinished,
    ReplayPaused,
    ReplayResumed,
    ReplaySpec,
    ResumeReplay,
    Skips,
)
from services.dlq.model.letters import Cursor


class State(Enum):
    """The state of a replay job, numbered as in `replay.proto`."""

    RUNNING = 1
    PAUSED = 2
    DONE = 3
    CANCELLED = 4
    FAILED = 5


ENDED: Final = frozenset({State.DONE, State.CANCELLED, State.FAILED})


@dataclass(frozen=True, slots=True)
class Replay:
    """A replay job; `spec` is None before it is created.

    Attributes:
        cursor: Last letter that is done; None before the first.
        open: The batch that was begun and not finished.
        open_again: Whether the open batch was begun more than once.
        skipped: Number of skipped letters by reason, sorted.
        tenant: Tenant of the request that created the job.
        request_id: Id of the request that created the job.
    """

    id: str
    spec: ReplaySpec | None = None
    state: State = State.RUNNING
    reason: str = ""
    matched: int = 0
    through: tuple[Position, ...] = ()
    cursor: Cursor | None = None
    open: BatchBegun | None = None
    open_again: bool = False
    sent: int = 0
    repeated: int = 0
    skipped: tuple[Skips, ...] = ()
    created_at_ms: int = 0
    updated_at_ms: int = 0
    ended_at_ms: int = 0
    tenant: str = ""
    request_id: str = ""

    @property
    def ended(self) -> bool:
        """Whether the job is finished, cancelled or failed: nothing more will happen."""
        return self.state in ENDED

    @property
    def skipped_letters(self) -> int:
        """Number of letters skipped, for any reason."""
        return sum(each.letters for each in self.skipped)


@dataclass(frozen=True, slots=True)
class ReplayDecider:
    """The `kernel.decider.Decider` of the kind `replay`."""

    def initial(self, history: str) -> Replay:
        """The state before the job is created."""
        return Replay(history)

    def decide(self, state: Replay, command: Command, context: Context) -> Sequence[Event]:
        """Returns the events the command leads to. Raises `BraidError` to refuse it; the state is unchanged then."""
        if isinstance(command, CreateReplay):
            return _create(state, command)
        created_spec(state)
        match command:
            case BeginBatch():
                return _begin(state, command)
            case Advance():
                return _advance(state, command)
            case PauseReplay():
                return _pause(state)
            case ResumeReplay():
                return _resume(state)
            case CancelReplay():
                return _cancel(state)
            case FinishReplay():
                _require_running(state)
                _require_no_batch(state)
                return [ReplayFinished()]
            case FailReplay(reason):
                _require_running(state)
                return [ReplayFailed(reason)]

    def evolve(self, state: Replay, event: Event, context: Context) -> Replay:
        """Returns the state after the event."""
        now = context.now_ms
        match event:
            case ReplayCreated(spec, matched, through):
                created = Replay(state.id, spec, matched=matched, through=through, created_at_ms=now, updated_at_ms=now)
                return replace(created, tenant=context.tenant, request_id=context.request_id)
            case BatchBegun():
                return replace(state, open=event, open_again=state.open is not None, updated_at_ms=now)
            case ReplayAdvanced():
                return _advanced(state, event, now)
            case ReplayPaused():
                return replace(state, state=State.PAUSED, updated_at_ms=now)
            case ReplayResumed():
                return replace(state, state=State.RUNNING, updated_at_ms=now)
            case ReplayCancelled():
                return _ended(state, State.CANCELLED, "cancelled", now)
            case ReplayFinished():
                return _ended(state, State.DONE, "", now)
            case ReplayFailed(reason):
                return _ended(state, State.FAILED, reason, now)


def created_spec(state: Replay) -> ReplaySpec:
    """The job's spec. Raises `NotFound` if the job was never created."""
    if state.spec is None:
        raise NotFound(f"there is no replay {state.id!r}", field="id", remedy="list them: braid get replays")
    return state.spec


def _create(state: Replay, command: CreateReplay) -> Sequence[Event]:
    if state.spec is not None:
        raise AlreadyExists(f"there is a replay {state.id}", field="id")
    if not 0 <= command.spec.rate_per_s < float("inf"):
        raise Invalid(
            f"a replay cannot send {command.spec.rate_per_s} records a second",
            field="spec.rate_per_s",
            remedy="use 0 for no cap",
        )
    return [ReplayCreated(command.spec, command.matched, tuple(sorted(command.through)))]


def _begin(state: Replay, command: BeginBatch) -> Sequence[Event]:
    _require_running(state)
    if state.open is not None and (command.end, command.letters) != (state.open.end, state.open.letters):
        raise Conflict("another batch is open", remedy="finish it first: nothing may be sent unseen")
    if state.cursor is not None and command.end <= state.cursor:
        raise Invalid(f"a batch up to {command.end} after {state.cursor}", field="end")
    return [BatchBegun(command.end, command.letters)]


def _advance(state: Replay, command: Advance) -> Sequence[Event]:
    """Records a sent batch, even if the job was paused or cancelled meanwhile: the letters were sent."""
    if state.open is None:
        raise Conflict("no batch is open", remedy="begin it first")
    skipped = sum(each.letters for each in command.skipped)
    if command.sent + skipped != state.open.letters:
        raise Invalid(f"{command.sent} sent and {skipped} skipped of {state.open.letters}", field="sent")
    repeated = command.sent if state.open_again else min(command.sent_again, command.sent)
    sent_letters = tuple(sorted(command.sent_letters))
    return [ReplayAdvanced(state.open.end, command.sent, repeated, tuple(sorted(command.skipped)), sent_letters)]


def _pause(state: Replay) -> Sequence[Event]:
    if state.state is State.PAUSED:
        return ()
    _require_running(state)
    return [ReplayPaused()]


def _resume(state: Replay) -> Sequence[Event]:
    if state.state is State.RUNNING:
        return ()
    if state.state is not State.PAUSED:
        raise _over(state)
    return [ReplayResumed()]


def _cancel(state: Replay) -> Sequence[Event]:
    if state.state is State.CANCELLED:
        return ()
    if state.ended:
        raise _over(state)
    return [ReplayCancelled()]


def _require_running(state: Replay) -> None:
    if state.state is State.PAUSED:
        raise Refused(f"replay {state.id} is paused", remedy=f"braid dlq resume {state.id}")
    if state.ended:
        raise _over(state)


def _require_no_batch(state: Replay) -> None:
    if state.open is not None:
        raise Conflict("a batch is open", remedy="finish it first")


def _over(state: Replay) -> Refused:
    return Refused(f"replay {state.id} is {state.state.name.lower()}", field="id", remedy="create another one")


def _advanced(state: Replay, event: ReplayAdvanced, now_ms: int) -> Replay:
    counts = dict(state.skipped)
    for reason, letters in event.skipped:
        counts[reason] = counts.get(reason, 0) + letters
    return replace(
        state,
        cursor=event.cursor,
        open=None,
        open_again=False,
        sent=state.sent + event.sent,
        repeated=state.repeated + event.repeated,
        skipped=tuple(Skips(reason, letters) for reason, letters in sorted(counts.items())),
        updated_at_ms=now_ms,
    )


def _ended(state: Replay, how: State, reason: str, now_ms: int) -> Replay:
    return replace(state, state=how, reason=reason, updated_at_ms=now_ms, ended_at_ms=now_ms)
