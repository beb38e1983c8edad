"""Decides commands on one history, one after the other, and splits their events into appends. No I/O.

Decisions change no state yet: `aggregates.py` appends them first.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias, TypeVar, cast

from braid.kernel.decider import Context
from braid.kernel.errors import BraidError
from braid.kernel.limits.store import APPEND_BYTES_MAX, APPEND_EVENTS_MAX
from braid.runtime.histories.fold import Fold
from braid.runtime.histories.kinds import Asked, Outcome, RecordedEvent

S = TypeVar("S")
C = TypeVar("C")

_EVENT_OVERHEAD_BYTES: Final = 64  # what an adapter may write around an event


Decision: TypeAlias = tuple[Sequence[object], Context]  # events, and the context that they are recorded with


class Decided(NamedTuple):
    """The decision on one of several commands, not appended yet."""

    context: Context
    events: Sequence[object] = ()
    refusal: BraidError | None = None
    repeated: bool = False

    def outcome(self, fold: Fold, recorded: Sequence[RecordedEvent]) -> Outcome[S] | BraidError:
        """The command's outcome, once all are appended and folded."""
        state = cast("S", fold.state)
        return self.refusal or Outcome(state, fold.revision, fold.sequence, recorded, self.repeated)


def decide_all(
    fold: Fold,
    asked: Sequence[Asked[C]],
    now_ms: int,
    epoch: int,
    decide: Callable[[Fold, object, C, Context], Decision],
) -> Sequence[Decided]:
    """Decides each command on the state that the previous ones lead to."""
    state = fold.state
    decided: list[Decided] = []
    known: set[tuple[str, str]] = set()
    for number, each in enumerate(asked, 1):
        context = Context(now_ms, each.actor, each.tenant, each.request_id, each.cause, epoch, each.trace)
        request = (each.tenant, each.request_id)
        if each.request_id and (request in known or fold.knows(*request)):
            decided.append(Decided(context, repeated=True))
            continue
        try:
            events, context = decide(fold, state, each.command, context)
        except BraidError as refusal:
            decided.append(Decided(context, refusal=refusal))
            continue
        decided.append(Decided(context, events))
        if events:
            known.add(request)
        if number < len(asked):
            for event in events:
                state = fold.kind.decider.evolve(state, event, context)
    return decided


def encoded_batches(fold: Fold, events: Sequence[tuple[object, Context]]) -> Sequence[Sequence[bytes]]:
    """Splits decisions into appends.

    A repeated request is recognised only by the last append of its decision: in earlier ones, the events carry a marked
    request id. So a decision that was interrupted halfway is decided again, on the state it reached.
    """
    encode = fold.kind.codec.encode
    batches: list[list[tuple[object, Context, bytes]]] = [[]]
    size = 0
    last: dict[int, int] = {}  # by a decision's context, the append that holds its last event
    for event, context in events:
        data = encode(event, context)
        weight = len(data) + _EVENT_OVERHEAD_BYTES
        if batches[-1] and (len(batches[-1]) == APPEND_EVENTS_MAX or size + weight > APPEND_BYTES_MAX):
            batches.append([])
            size = 0
        batches[-1].append((event, context, data))
        last[id(context)] = len(batches) - 1
        size += weight

    def whole(number: int, event: object, context: Context, data: bytes) -> bytes:
        if not context.request_id or number == last[id(context)]:
            return data
        return encode(event, replace(context, request_id=f"{context.request_id}#part"))

    return [[whole(number, *each) for each in batch] for number, batch in enumerate(batches) if batch]
