"""Mutants of what histories remember, each red on I19: see `mutants`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from braid.archive.segment import Segment, cut
from braid.kernel.ports import HistoryId, Snapshot
from braid.runtime.archive import writer
from braid.runtime.archive.kept import Kept
from braid.runtime.archive.shelf import Index, Shelf
from braid.runtime.archive.writer import SnapshotWriter
from braid.runtime.histories.fold import Fold, PinnedState
from braid.runtime.histories.past import PastReader
from tests.simulation.histories import KINDS
from tests.simulation.mutants import Mutant
from tests.simulation.remembering import ARCHIVE_FAULTS

PAST_FAULTS: Final = (
    *("kill-service",) * 2,
    *("operate",) * 3,
    *("kill-member", "pause-service", "cut-store", "late-append", "lose-answers", "compact-store"),
    *("move-stream", "share-stream"),
    *ARCHIVE_FAULTS,
)
FULL_FAULTS: Final = (*("fill-archive",) * 8, *("operate",) * 4, "move-stream", "kill-member")
PAST: Final = {"fault_seconds": 45.0, "fault_interval_seconds": 1.5, "remembers": True}

_base, _ask_peers = Kept.base, Shelf.ask_peers


async def _empty_base(self: Kept, start: int, window: int, target: int) -> Snapshot | None:
    """A defect: past states are folded from an empty state onto which the store's remaining events are applied."""
    first = self.loaded.first
    if first == 1 or target < first:
        return await _base(self, start, window, target)
    kind = KINDS[self.history.service, self.history.kind].erased()
    empty = PinnedState(kind, first - 1, Fold(self.history, kind).state, ())
    return empty.framed(list(empty.pieces()))


async def _one_left_out(self: Kept, start: int, window: int, target: int) -> Snapshot | None:
    """The first event after a snapshot is taken for one that the snapshot has."""
    found = await _base(self, start, window, target)
    return replace(found, sequence=found.sequence + 1) if found and found.sequence < target else found


def _without_first(
    history: HistoryId,
    before: bytes,
    first: int,
    events: Sequence[bytes],
    times_ms: Sequence[int],
    incarnation: int,
) -> Sequence[Segment]:
    """The first events of an interval go into no segment."""
    made = cut(history, before, first, events, times_ms, incarnation)
    return made[1:] or made


async def _saves_anyway(self: SnapshotWriter, *arguments: object) -> bool:
    """A defect: events that no archive holds are compacted, and nobody notes it."""
    return True


async def _asks_peers_once(self: Shelf, history: HistoryId) -> Index:
    """A defect: of two missing ranges in one history, peers are asked only for the newer one."""
    known = self._at_peers.get(history)
    return await _ask_peers(self, history) if known is None else Index()


async def _no_other_copy(*arguments: object) -> None:
    """A defect: the events of a damaged object are looked for only under its own name."""


PAST_MUTANTS: Final = (
    Mutant("a compacted past is folded from nothing", "I19", [(Kept, "base", _empty_base)], PAST_FAULTS, PAST),
    Mutant("the event after a snapshot is left out", "I19", [(Kept, "base", _one_left_out)], PAST_FAULTS, PAST),
    Mutant("an archive leaves events out", "I19", [(writer, "cut", _without_first)], PAST_FAULTS, PAST),
    Mutant("compacted though not archived", "I19", [(SnapshotWriter, "_failed", _saves_anyway)], FULL_FAULTS, PAST),
    Mutant("peers are asked for one gap alone", "I19", [(Shelf, "ask_peers", _asks_peers_once)], PAST_FAULTS, PAST, 8),
    Mutant("a damaged object has one name", "I19", [(PastReader, "_replaced", _no_other_copy)], PAST_FAULTS, PAST, 10),
)
