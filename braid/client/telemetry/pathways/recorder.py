"""Measures the pathways of one process: at each point the latency since the point before, and since the beginning.

Points of a bucket of 10 seconds are kept by their hash, a bounded number of them. `take` empties the bucket.
"""

from typing import NamedTuple

from braid.client.telemetry.metrics import Instruments, instruments
from braid.kernel.limits.lagmon.pathways import PATHWAY_NODES_MAX
from braid.kernel.pathways.edges import Edge, point_hash
from braid.kernel.pathways.header import Context, decode_context
from braid.kernel.pathways.sketches import Sketch


class Place(NamedTuple):
    """A point of a pathway, without its service."""

    edge: Edge
    parent: int


class Measured(NamedTuple):
    """Latencies at one point, in milliseconds.

    Attributes:
        full: Since the pathway began.
        edge: Since the record passed the point before.
    """

    full: Sketch
    edge: Sketch


class Counts(NamedTuple):
    """Counts of what was not measured, since the process began.

    Attributes:
        garbage: Headers that could not be read.
        left_out: Records beyond the bounds of one process.
        lost: Reports that did not arrive.
    """

    garbage: int = 0
    left_out: int = 0
    lost: int = 0


class Recorder:
    """The measurements of one process."""

    def __init__(self, service: str) -> None:
        """`service` names the application, in the hashes of its points."""
        self.service = service
        self.counts = Counts()
        self._measured: dict[Place, Measured] = {}
        self._instruments: Instruments | None = instruments()

    def sent(self, edge: Edge, before: Context | None, now_ms: int, shift: int) -> Context:
        """Measures a record that is sent, after the point `before` or as a pathway's first. Returns its context."""
        if before is None:
            found = point_hash(self.service, edge, 0)
            self._measure(Place(edge, 0), 0, 0, 1 << shift)
            return Context(found, now_ms, now_ms, shift)
        return self._passed(edge, before, now_ms)

    def received(self, edge: Edge, header: bytes, now_ms: int, shift: int) -> Context | None:
        """Measures a record that a handler is handed; `shift` is added to its own. Returns None for garbage."""
        before = decode_context(header, now_ms)
        if before is None:
            self.count(garbage=1)
            return None
        return self._passed(edge, before._replace(shift=min(before.shift + shift, 31)), now_ms)

    def count(self, *, garbage: int = 0, left_out: int = 0, lost: int = 0) -> None:
        """Counts what is not measured."""
        known = self.counts
        self.counts = Counts(known.garbage + garbage, known.left_out + left_out, known.lost + lost)
        if self._instruments is not None:
            for reason, count in (("garbage", garbage), ("left out", left_out), ("lost report", lost)):
                if count:
                    self._instruments.pathways_dropped.add(count, {"braid.reason": reason})

    def take(self) -> dict[Place, Measured]:
        """Returns what was measured since the last call."""
        measured, self._measured = self._measured, {}
        return measured

    def _passed(self, edge: Edge, before: Context, now_ms: int) -> Context:
        """Measures a record that passes a point after another. Clocks that differ never make a latency negative."""
        latest_ms = max(now_ms, before.passed_ms)
        self._measure(
            Place(edge, before.hash), latest_ms - before.began_ms, latest_ms - before.passed_ms, 1 << before.shift
        )
        return Context(point_hash(self.service, edge, before.hash), before.began_ms, now_ms, before.shift)

    def _measure(self, place: Place, full_ms: int, edge_ms: int, weight: int) -> None:
        measured = self._measured.get(place)
        if measured is None:
            if len(self._measured) >= PATHWAY_NODES_MAX:
                self.count(left_out=weight)
                return
            measured = self._measured[place] = Measured(Sketch(), Sketch())
        measured.full.add(full_ms, weight)
        measured.edge.add(edge_ms, weight)
