"""Merges reports of pathways into buckets, for two minutes in buckets of 10 seconds and for an hour in 5 minutes. Pure.

Buckets follow the clock of lagmon: a report counts when it comes, whatever the clock of its process says.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from braid.kernel.limits.lagmon.pathways import (
    PATHWAY_BUCKET_MS,
    PATHWAY_COARSE_BUCKETS,
    PATHWAY_COARSE_MS,
    PATHWAY_FINE_BUCKETS,
    PATHWAY_REPORTERS_MAX,
    PATHWAY_STORE_BINS_MAX,
    PATHWAY_STORE_NODES_MAX,
    SKETCH_COUNT_MAX,
)
from braid.kernel.pathways.edges import Edge
from braid.kernel.pathways.sketches import Sketch


class Point(NamedTuple):
    """A point of a pathway."""

    hash: int
    parent: int
    service: str
    edge: Edge


class Latencies(NamedTuple):
    """Latencies at a point: since the pathway began, and since the point before."""

    full: Sketch
    edge: Sketch

    def merge(self, other: "Latencies") -> None:
        """Adds those of other records."""
        self.full.merge(other.full)
        self.edge.merge(other.edge)

    @property
    def size(self) -> int:
        """How many bins they take."""
        return len(self.full.bins) + len(self.edge.bins)


class LeftOut(NamedTuple):
    """Counts of what is missing: unreadable headers, records beyond bounds, and reports that were lost."""

    garbage: int = 0
    records: int = 0
    reports: int = 0

    def plus(self, other: "LeftOut") -> "LeftOut":
        """Returns the sums, within what a message holds: a report may say any number."""
        return LeftOut(*(min(one + two, SKETCH_COUNT_MAX) for one, two in zip(self, other, strict=True)))


class Report(NamedTuple):
    """A report of one process; `sequence` counts those of one `reporter`."""

    reporter: str
    sequence: int
    measured: Sequence[tuple[Point, Latencies]]
    left_out: LeftOut


class Bucket:
    """Everything that came in one stretch of time."""

    __slots__ = ("left_out", "points", "size")

    def __init__(self) -> None:
        self.points: dict[int, Latencies] = {}
        self.left_out = LeftOut()
        self.size = 0  # bins, in all sketches

    def add(self, hash: int, latencies: Latencies) -> None:
        """Adds latencies at a point."""
        known = self.points.get(hash)
        if known is None:
            known = self.points[hash] = Latencies(Sketch(), Sketch())
        self.size -= known.size
        known.merge(latencies)
        self.size += known.size


class Kept(NamedTuple):
    """The buckets of a stretch of time up to now.

    Attributes:
        buckets: Those of the stretch.
        window_ms: How long it is.
    """

    buckets: Sequence[Bucket]
    window_ms: int


class PathwayStore:
    """The pathways that one replica of lagmon knows.

    Attributes:
        points: All points that are kept, by their hash.
        newest_ms: When the newest report about each came.
        since_ms: Since when reports are kept; 0 before the first.
    """

    def __init__(self) -> None:
        self.points: dict[int, Point] = {}
        self.newest_ms: dict[int, int] = {}
        self.since_ms = 0
        self._fine: OrderedDict[int, Bucket] = OrderedDict()
        self._coarse: OrderedDict[int, Bucket] = OrderedDict()
        self._sequences: OrderedDict[str, int] = OrderedDict()

    def add(self, report: Report, now_ms: int) -> bool:
        """Merges a report. Returns whether it is new: one that comes twice counts once."""
        if report.sequence <= self._sequences.get(report.reporter, 0):
            return False
        self._sequences[report.reporter] = report.sequence
        self._sequences.move_to_end(report.reporter)
        while len(self._sequences) > PATHWAY_REPORTERS_MAX:
            self._sequences.popitem(last=False)
        self.since_ms = self.since_ms or now_ms
        self._forget(now_ms)
        buckets = [
            self._fine.setdefault(now_ms // PATHWAY_BUCKET_MS, Bucket()),
            self._coarse.setdefault(now_ms // PATHWAY_COARSE_MS, Bucket()),
        ]
        left_out, full = report.left_out, self._size() > PATHWAY_STORE_BINS_MAX
        for point, latencies in report.measured:
            if full or (point.hash not in self.points and len(self.points) >= PATHWAY_STORE_NODES_MAX):
                left_out = left_out.plus(LeftOut(records=latencies.edge.count))
                continue
            self.points[point.hash] = point
            self.newest_ms[point.hash] = now_ms
            for bucket in buckets:
                bucket.add(point.hash, latencies)
        for bucket in buckets:
            bucket.left_out = bucket.left_out.plus(left_out)
        self._make_room()
        return True

    def kept(self, window_ms: int, now_ms: int) -> Kept:
        """Returns what came in the last `window_ms`, in whole buckets."""
        fine_ms = PATHWAY_BUCKET_MS * (PATHWAY_FINE_BUCKETS - 1)
        buckets, length_ms = (
            (self._fine, PATHWAY_BUCKET_MS) if window_ms <= fine_ms else (self._coarse, PATHWAY_COARSE_MS)
        )
        count = -(-window_ms // length_ms)
        newest = now_ms // length_ms
        found = [bucket for at, bucket in buckets.items() if newest - count <= at <= newest]
        begins_ms = max((newest - count) * length_ms, self.since_ms)
        return Kept(found, max(now_ms - begins_ms, PATHWAY_BUCKET_MS))

    def _forget(self, now_ms: int) -> None:
        """Drops buckets that are too old, or from a time to come: the clock was set back; then points without any."""
        gone = False
        for buckets, length_ms, most in (
            (self._fine, PATHWAY_BUCKET_MS, PATHWAY_FINE_BUCKETS),
            (self._coarse, PATHWAY_COARSE_MS, PATHWAY_COARSE_BUCKETS),
        ):
            newest = now_ms // length_ms
            for at in [at for at in buckets if not newest - most < at <= newest]:
                del buckets[at]
                gone = True
        if gone:
            self._forget_points()

    def _make_room(self) -> None:
        """Drops the oldest buckets while all sketches take too much, the longer ones first; the newest ones stay."""
        for buckets in (self._coarse, self._fine):
            while len(buckets) > 1 and self._size() > PATHWAY_STORE_BINS_MAX:
                buckets.popitem(last=False)
                self._forget_points()

    def _size(self) -> int:
        return sum(bucket.size for bucket in self._buckets())

    def _buckets(self) -> Iterator[Bucket]:
        yield from self._fine.values()
        yield from self._coarse.values()

    def _forget_points(self) -> None:
        present = {hash for bucket in self._buckets() for hash in bucket.points}
        for hash in [hash for hash in self.points if hash not in present]:
            del self.points[hash], self.newest_ms[hash]


def merged(kept: Kept, hash: int) -> Latencies:
    """Returns the latencies at a point over a stretch of time."""
    found = Latencies(Sketch(), Sketch())
    for bucket in kept.buckets:
        latencies = bucket.points.get(hash)
        if latencies is not None:
            found.merge(latencies)
    return found


def chain(points: Mapping[int, Point], last: int, most: int) -> tuple[Sequence[Point], bool]:
    """Returns the points of a pathway up to its last, `most` at most, and whether some before the first are missing."""
    found: list[Point] = []
    at = last
    while len(found) < most and (point := points.get(at)) is not None:
        found.append(point)
        at = point.parent
        if not at:
            break
    return found[::-1], at != 0


def ends(points: Mapping[int, Point], kept: Kept) -> list[int]:
    """Returns the last points of pathways, sorted: records passed them, and none was seen to go on from there."""
    passed = {hash for bucket in kept.buckets for hash in bucket.points if hash in points}
    inner = {points[hash].parent for hash in passed}
    return sorted(passed - inner)
