"""Measures the records that a consumer hands out, and tells producers in its handlers whose pathway they continue.

Headers are found in the columns of a fetch. Only a sample of them is read, each when its record is handed out.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, NamedTuple, cast
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from braid.client.records.handled import Handled
from braid.client.records.record import Record
from braid.client.records.slices import Slice, W
from braid.client.telemetry.pathways.producing import handled
from braid.client.telemetry.pathways.recorder import Recorder
from braid.client.telemetry.pathways.sampling import Sampler
from braid.kernel.ids import DLQ_LANE, LeaseId
from braid.kernel.limits.lagmon.pathways import (
    PATHWAY_HANDLED_MAX,
    PATHWAY_HEADER_BYTES_MAX,
    PATHWAY_TAKEN_PER_S,
    PATHWAY_WAITING_MAX,
)
from braid.kernel.pathways.edges import Edge
from braid.kernel.pathways.header import PATHWAY_HEADER, Context
from braid.kernel.ports import Host
from braid.kernel.record_columns import RecordColumns

if TYPE_CHECKING:
    from braid.client.records.batch import Batch


class _Waiting(NamedTuple):
    """The header of a fetched record that waits for a handler; the record stands for `2**shift` with a header."""

    header: bytes
    shift: int


class ReceivedPathways:
    """The pathways of one consumer's records."""

    def __init__(self, recorder: Recorder, host: Host, group: str) -> None:
        self._recorder = recorder
        self._clock = host.clock
        self._group = group
        self._sampler = Sampler(PATHWAY_TAKEN_PER_S, crc32(host.ids.ulid().encode()))  # differs from others'
        self._seen = 0  # headers so far
        self._column = 0

    def asked(self, names: Sequence[str]) -> Sequence[str]:
        """Returns the headers to fetch as columns where a consumer needs these."""
        wanted = tuple(dict.fromkeys((*names, PATHWAY_HEADER)))
        self._column = wanted.index(PATHWAY_HEADER)  # the same each time
        return wanted

    def of_lease(self, lease: LeaseId) -> "Callable[[], CursorPathways] | None":
        """Returns what makes the pathways of a lease's cursors; dead letters have none, for they wait for people."""
        edge = Edge(lease.channel.stream, self._group)
        return None if lease.channel.lane == DLQ_LANE else lambda: CursorPathways(self, edge)

    def handling(self, current: Callable[[], Handled | None]) -> None:
        """Notes, in a task that runs handlers, how to learn what it handles at the moment."""
        handled.set(lambda: context_of(current()))

    @contextmanager
    def processing(self, item: Handled, work: AbstractContextManager[None]) -> Iterator[None]:
        """Wraps an application's own work on a record or batch that it took: what it sends meanwhile continues it."""
        token = handled.set(lambda: context_of(item))
        try:
            with work:
                yield
        finally:
            handled.reset(token)

    def found(self, part: RecordColumns) -> Iterator[tuple[int, _Waiting]]:
        """Yields offset and header of the sampled records among fetched ones."""
        cells = part.headers[self._column]
        rows = np.flatnonzero(cells.sizes > 0)
        if not len(rows):
            return
        first, self._seen = self._seen + 1, self._seen + len(rows)
        now_ms = self._clock.now_ms()
        at = max(first, self._sampler.next) if now_ms < self._sampler.until_ms else first
        while at <= self._seen:
            shift = self._sampler.take(at, now_ms)
            if shift is not None:
                row = int(rows[at - first])
                size = int(cells.sizes[row])
                header = part.cell(cells, row) if size <= PATHWAY_HEADER_BYTES_MAX else None
                if header is None:
                    self._recorder.count(garbage=1)
                else:
                    yield int(part.offsets[row]), _Waiting(header, shift)
            at = max(at + 1, self._sampler.next)

    def handed_out(self, edge: Edge, waiting: _Waiting) -> Context | None:
        """Measures a record that is handed out now. Returns its context; None for a header that cannot be read."""
        return self._recorder.received(edge, waiting.header, self._clock.now_ms(), waiting.shift)

    def left_out(self, waiting: _Waiting) -> None:
        """Counts a sampled record for which there is no room."""
        self._recorder.count(left_out=1 << waiting.shift)


class CursorPathways:
    """The pathways of one cursor's records: those that wait for a handler, and those that were handed out lately.

    Attributes:
        waiting: By offset, the sampled records that wait, in the order of their offsets.
    """

    __slots__ = ("_contexts", "_edge", "_owner", "waiting")

    def __init__(self, owner: ReceivedPathways, edge: Edge) -> None:
        self._owner = owner
        self._edge = edge
        self.waiting: dict[int, _Waiting] = {}
        self._contexts: dict[int, Context] = {}

    def fetched(self, part: RecordColumns) -> None:
        """Notes the sampled records among fetched ones that are for this group."""
        for offset, waiting in self._owner.found(part):
            if len(self.waiting) >= PATHWAY_WAITING_MAX:
                self._owner.left_out(waiting)
            else:
                self.waiting[offset] = waiting

    def run_length(self, queued: Slice[W], most: int) -> int:
        """Returns how many records of a slice may be taken together.

        A sampled record is taken alone, at the moment when it is handed out: those of a run wait for handlers.
        """
        offsets = queued.offsets[:most]
        first, last = int(offsets[0]), int(offsets[-1])
        for offset in self.waiting:  # those before the slice wait for their turn, if records are ordered
            if offset >= first:
                return max(1, int(offsets.searchsorted(offset))) if offset <= last else most
        return most

    def handed_out(self, offsets: Iterable[int]) -> None:
        """Measures those of some records that are sampled: a handler gets them now."""
        for offset in offsets:
            waiting = self.waiting.pop(offset, None)
            context = None if waiting is None else self._owner.handed_out(self._edge, waiting)
            if context is not None:
                while len(self._contexts) >= PATHWAY_HANDLED_MAX:
                    del self._contexts[next(iter(self._contexts))]
                self._contexts[offset] = context

    def of_record(self, offset: int) -> Context | None:
        """Returns the context of a record that was handed out; None if it has none."""
        return self._contexts.get(offset)

    def handed_out_together(self, offsets: NDArray[np.int64]) -> None:
        """Measures those of a batch's records that are sampled."""
        self.handed_out(_among(self.waiting, offsets))

    def of_batch(self, offsets: NDArray[np.int64]) -> Context | None:
        """Returns the context of one of a batch's records, each once; None when none is left.

        What is made of a batch is not made of one record: each context goes to one record that is sent.
        """
        found = _among(self._contexts, offsets)
        return self._contexts.pop(found[0]) if found else None


def context_of(item: Handled | None) -> Context | None:
    """Returns the context of what is handled: a record's own, or that of one of a batch's records."""
    if item is None or (pathways := item.work.pathways) is None:
        return None
    if isinstance(item, Record):
        return pathways.of_record(item.offset)
    return pathways.of_batch(cast("Batch", item).raw.offsets)


def _among(wanted: Iterable[int], offsets: NDArray[np.int64]) -> list[int]:
    """Returns those of some offsets that are among others, which ascend."""
    near = [offset for offset in wanted if offsets[0] <= offset <= offsets[-1]] if len(offsets) else []
    return [offset for offset in near if offsets[offsets.searchsorted(offset)] == offset]
