"""Puts the pathway header on records that a producer sends: a new pathway, or that of the record being handled."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final
from zlib import crc32

from braid.client.telemetry.pathways.recorder import Recorder
from braid.client.telemetry.pathways.sampling import Sampler
from braid.kernel.limits.lagmon.pathways import PATHWAY_ADDED_BYTES_MAX, PATHWAY_SENT_PER_S
from braid.kernel.pathways.edges import Edge
from braid.kernel.pathways.header import PATHWAY_HEADER, Context, encode_context

# Within a handler: returns the pathway of what it handles, None if that record was not sampled.
handled: Final[ContextVar[Callable[[], Context | None] | None]] = ContextVar("braid_handled_pathway", default=None)


class SentPathways:
    """The pathways of one producer's records."""

    __slots__ = ("_edge", "_recorder", "_sampler")

    def __init__(self, recorder: Recorder, stream: str, producer_id: str) -> None:
        self._recorder = recorder
        self._edge = Edge(stream)
        self._sampler = Sampler(PATHWAY_SENT_PER_S, crc32(producer_id.encode()))

    def stamp(self, headers: list[tuple[str, bytes]], sequence: int, now_ms: int, room_bytes: int) -> bool:
        """Adds the header to a record, if the record is sampled. Returns whether it did.

        What a handler sends continues the pathway of what it handles: with that record's weight, or not at all.

        Args:
            headers: The record's.
            sequence: Counts the producer's records from 1.
            now_ms: Wall clock, milliseconds since the epoch.
            room_bytes: How much may be added to the record. No record is refused because it was sampled.
        """
        handling = handled.get()
        if handling is None:
            sampler = self._sampler
            if sequence < sampler.next and now_ms < sampler.until_ms:  # most records end here
                return False
            shift = sampler.take(sequence, now_ms)
            if shift is None:
                return False
            if room_bytes < PATHWAY_ADDED_BYTES_MAX:
                self._recorder.count(left_out=1 << shift)
                return False
            context = self._recorder.sent(self._edge, None, now_ms, shift)
        else:
            before = handling()
            if before is None:
                return False
            if room_bytes < PATHWAY_ADDED_BYTES_MAX:
                self._recorder.count(left_out=1 << before.shift)
                return False
            context = self._recorder.sent(self._edge, before, now_ms, 0)
        # An application may pass on the headers of a record that it received.
        headers[:] = [header for header in headers if header[0] != PATHWAY_HEADER]
        headers.append((PATHWAY_HEADER, encode_context(context)))
        return True
