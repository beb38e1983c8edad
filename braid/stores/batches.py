"""Rules about batches that every adapter shares: what an append may contain, and when a tail is complete. Pure."""

from collections.abc import Iterable, Sequence

from braid.kernel.errors import CorruptHistory, Exhausted, Invalid
from braid.kernel.limits.store import APPEND_BYTES_MAX, APPEND_EVENTS_MAX
from braid.kernel.ports import HistoryId, Snapshot


def check_append(history: HistoryId, events: Sequence[bytes]) -> None:
    """Checks that one append may carry these events, before anything is sent.

    Raises:
        Invalid: there are none.
        Exhausted: there are more than `APPEND_EVENTS_MAX`, or more than `APPEND_BYTES_MAX` bytes.
    """
    if not events:
        raise Invalid(f"an append to {history} carries no event", field="events")
    size = sum(map(len, events))
    if len(events) > APPEND_EVENTS_MAX or size > APPEND_BYTES_MAX:
        raise Exhausted(
            f"{len(events)} events of {size} bytes are too much for one append to {history}",
            field="events",
            remedy=f"split them into batches of {APPEND_EVENTS_MAX} events and {APPEND_BYTES_MAX} bytes",
        )


def whole_tail(
    history: HistoryId, snapshot: Snapshot | None, batches: Iterable[tuple[int, Sequence[bytes]]], sequence: int
) -> list[bytes]:
    """Joins batches, each (sequence of its first event, events) and in order, into the events after a snapshot.

    The first batch may begin before the snapshot's end; what the snapshot covers is left out.

    Raises:
        CorruptHistory: events are missing or double between the snapshot and the last `sequence`.
    """
    start = expected = snapshot.sequence + 1 if snapshot else 1
    tail: list[bytes] = []
    for first, events in batches:
        covered = expected - first if expected == start else 0
        if first + covered != expected or covered < 0:
            raise _broken(history, expected, f"the next batch begins at {first}")
        tail.extend(events[covered:])
        expected = max(expected, first + len(events))
    if expected != sequence + 1:
        raise _broken(history, expected, f"the head says {sequence}")
    return tail


def _broken(history: HistoryId, expected: int, found: str) -> CorruptHistory:
    return CorruptHistory(
        f"history {history} is not whole: event {expected} should follow, but {found}",
        remedy="restore the store from a backup; until then no decision is made on this history",
        metadata={"history": str(history), "sequence": str(expected)},
    )
