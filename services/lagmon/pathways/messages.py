"""Reads reports of pathways from messages, and writes pathways as messages. No rules."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.api.lagmon.v1 import pathway_pb2 as pb
from braid.kernel.errors import Invalid
from braid.kernel.ids import check_name
from braid.kernel.limits.lagmon.pathways import PATHWAY_REPORT_EDGES_MAX, SKETCH_BINS_MAX, SKETCH_COUNT_MAX
from braid.kernel.pathways.edges import Edge, point_hash
from braid.kernel.pathways.sketches import Sketch
from services.lagmon.pathways.store import Kept, Latencies, LeftOut, Point, Report, merged

_QUANTILES: Final = (0.5, 0.95, 0.99)
_REPORTER_CHARS_MAX: Final = 64  # a ULID has 26


def read_report(request: api.ReportPathwaysRequest, principal: str) -> Report:
    """Reads a report of a principal. Its hashes are computed here: nobody reports about points of another service.

    Raises:
        Invalid: a name, a count or a sketch cannot be, or there is too much.
    """
    check_name(request.service, "service")
    if not 0 < len(request.reporter) <= _REPORTER_CHARS_MAX:
        raise Invalid("names no process", field="reporter", remedy=f"use 1 to {_REPORTER_CHARS_MAX} characters")
    if request.sequence <= 0:
        raise Invalid(f"a report cannot have number {request.sequence}", field="sequence", remedy="count from 1")
    told = request.left_out
    left_out = LeftOut(told.garbage_headers, told.records, told.lost_reports)
    if min(left_out) < 0 or max(left_out) > SKETCH_COUNT_MAX:
        raise Invalid("counts something below 0 or beyond all bounds", field="left_out", remedy="leave it out")
    measured = [*_sent(request), *_received(request)]
    return Report(f"{principal}/{request.reporter}", request.sequence, measured, left_out)


def _sent(request: api.ReportPathwaysRequest) -> Iterator[tuple[Point, Latencies]]:
    _check_count(len(request.sent), "sent")
    streams = _names(request.sent_streams, "sent_streams")
    for each in request.sent:
        edge = Edge(_at(streams, each.stream, "sent.stream"))
        yield _point(request.service, edge, each.parent_hash), _latencies(each, "sent")


def _received(request: api.ReportPathwaysRequest) -> Iterator[tuple[Point, Latencies]]:
    _check_count(len(request.received), "received")
    streams, groups = _names(request.received_streams, "received_streams"), _names(request.groups, "groups")
    for each in request.received:
        edge = Edge(_at(streams, each.stream, "received.stream"), _at(groups, each.group, "received.group"))
        yield _point(request.service, edge, each.parent_hash), _latencies(each, "received")


def _names(names: Sequence[str], field: str) -> Sequence[str]:
    _check_count(len(names), field)
    return [check_name(each, field) for each in names]


def _at(names: Sequence[str], index: int, field: str) -> str:
    if not 0 <= index < len(names):
        raise Invalid(f"there is no name at place {index}", field=field, remedy="count the places from 0")
    return names[index]


def _check_count(count: int, field: str) -> None:
    if count > PATHWAY_REPORT_EDGES_MAX:
        remedy = f"a report has at most {PATHWAY_REPORT_EDGES_MAX}; count the others in left_out"
        raise Invalid(f"{count} are too many", field=field, remedy=remedy)


def _point(service: str, edge: Edge, parent: int) -> Point:
    return Point(point_hash(service, edge, parent), parent, service, edge)


def _latencies(message: pb.SentEdge | pb.ReceivedEdge, field: str) -> Latencies:
    full, edge = read_sketch(message.full, f"{field}.full"), read_sketch(message.edge, f"{field}.edge")
    if full.count != edge.count or not edge.count:
        raise Invalid(
            f"{full.count} and {edge.count} latencies", field=f"{field}.edge", remedy="measure both, each time"
        )
    return Latencies(full, edge)


def read_sketch(message: pb.LatencySketch, field: str) -> Sketch:
    """Reads a sketch. Raises `Invalid`."""
    bins, counts = list(message.bins), list(message.counts)
    if len(bins) != len(counts) or len(bins) > SKETCH_BINS_MAX:
        raise Invalid(f"{len(bins)} bins with {len(counts)} counts", field=field, remedy="give each bin one count")
    if any(one >= two for one, two in pairwise(bins)):
        raise Invalid("bins do not ascend", field=f"{field}.bins", remedy="sort them")
    if bins and not 0 <= bins[0] <= bins[-1] < SKETCH_BINS_MAX:
        raise Invalid("a bin of no latency", field=f"{field}.bins", remedy=f"use 0 to {SKETCH_BINS_MAX - 1}")
    if message.zeros < 0 or min(counts, default=1) <= 0 or message.zeros + sum(counts) > SKETCH_COUNT_MAX:
        raise Invalid("a count of no records, or of too many", field=f"{field}.counts", remedy="leave empty bins out")
    return Sketch(message.zeros, dict(zip(bins, counts, strict=True)))


def left_out_message(left_out: LeftOut) -> pb.PathwaysLeftOut:
    """Builds the message of what is missing."""
    return pb.PathwaysLeftOut(garbage_headers=left_out.garbage, records=left_out.records, lost_reports=left_out.reports)


def point_message(point: Point, kept: Kept, report_time_ms: int) -> pb.PathwayPoint:
    """Builds the message of a point, with its latencies over a stretch of time."""
    found = merged(kept, point.hash)
    received = bool(point.edge.group)
    return pb.PathwayPoint(
        hash=point.hash,
        parent_hash=point.parent,
        direction=pb.PATHWAY_DIRECTION_RECEIVED if received else pb.PATHWAY_DIRECTION_SENT,
        service=point.service,
        stream=point.edge.stream,
        group=point.edge.group,
        full=_quantiles(found.full),
        edge=_quantiles(found.edge),
        records_per_s=found.edge.count * 1000 / kept.window_ms,
        report_time_ms=report_time_ms,
    )


def _quantiles(sketch: Sketch) -> pb.LatencyQuantiles:
    p50, p95, p99 = sketch.quantiles(*_QUANTILES)
    return pb.LatencyQuantiles(p50_ms=p50, p95_ms=p95, p99_ms=p99)
