"""Pathways of records as items to show, with how long records take on them."""

from collections.abc import Iterator, Sequence
from typing import Final

from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.api.lagmon.v1 import pathway_pb2 as pb
from braid.cli.core.documents import Document, to_document
from braid.cli.core.kinds import Scope
from braid.cli.core.output import API_VERSION, Column, Columns, Format, Item, render
from braid.cli.core.session import Session
from braid.cli.core.times import age_text, parse_time, to_ms
from braid.kernel.errors import Invalid, NotFound
from braid.kernel.limits.lagmon.pathways import PATHWAY_WINDOW_MS_MAX

COLUMNS: Final = Columns(
    (
        Column("PATHWAY", shrinks=True),
        Column("P50"),
        Column("P95"),
        Column("P99"),
        Column("RECORDS/S"),
        Column("EDGES P50/P95/P99", wide=True),
    ),
    age="AS OF",
)
_ARROW: Final = " → "


async def list_pathways(session: Session, scope: Scope) -> list[Item]:
    """Pathways of the last minute, or since a time, by name."""
    return [pathway_item(each) for answer in await _answers(session, scope) for each in answer.pathways]


async def get_pathways(session: Session, scope: Scope, format: Format) -> int:
    """Prints pathways of the last minute, or since a time, and says what they leave out.

    Raises:
        Invalid: the time is not within the last hour.
        NotFound: no pathway has the given name.
    """
    answers = await _answers(session, scope)
    items = [pathway_item(each) for answer in answers for each in answer.pathways if scope.name in ("", each.name)]
    for text in _notes(answers[0]):
        session.terminal.note(text)
    if scope.name and not items:
        raise NotFound(f"there is no pathway {scope.name}", remedy="list what there is: braid get pathways")
    if not items and format in (Format.TABLE, Format.WIDE):
        session.terminal.note("there are no pathways: connect applications with pathways=NAME")
        return 0
    text = render(format, COLUMNS, items, session.now_ms, narrow=session.terminal.narrow, listed=not scope.name)
    session.terminal.print_table(format, text)
    return 0


def pathway_item(pathway: pb.Pathway) -> Item:
    """The row of a pathway: latencies from its beginning to its last point, and those of each edge."""
    last = pathway.points[-1]
    cells = (
        way_text(pathway),
        *(latency_text(each) for each in (last.full.p50_ms, last.full.p95_ms, last.full.p99_ms)),
        f"{last.records_per_s:,.1f}",
        ", ".join(_edges(pathway.points)),
    )
    document: Document = {"apiVersion": API_VERSION, "kind": "Pathway", "way": cells[0], **to_document(pathway)}
    return Item(pathway.name, f"pathway/{pathway.name}", cells, last.report_time_ms, document)


def way_text(pathway: pb.Pathway) -> str:
    """The names along a pathway: a service, then streams and groups in turn."""
    names = ["…"] if pathway.partial else [pathway.points[0].service]
    stream = ""
    for point in pathway.points:
        if point.stream != stream or not point.group:
            names.append(point.stream)
        if point.group:
            names.append(point.group)
        stream = "" if point.group else point.stream
    return _ARROW.join(names)


def latency_text(ms: float) -> str:
    """A latency with three digits, as `0ms`, `198ms`, `1.24s` or `5m10s`."""
    if ms < 1_000:
        return f"{ms:.0f}ms"
    if ms < 100_000:
        return f"{ms / 1_000:.3g}s"
    return age_text(1, 1 + round(ms))


def _edges(points: Sequence[pb.PathwayPoint]) -> Iterator[str]:
    """Yields what each edge takes; the first point of a pathway has no edge before it."""
    for point in points:
        if point.parent_hash:
            edge = point.edge
            figures = "/".join(latency_text(each) for each in (edge.p50_ms, edge.p95_ms, edge.p99_ms))
            yield f"{point.group or point.stream} {figures}"


def _window_ms(session: Session, since: str) -> int:
    if not since:
        return 0
    window_ms = session.now_ms - to_ms(parse_time(since, session.now, "--since"))
    if not 0 < window_ms <= PATHWAY_WINDOW_MS_MAX:
        raise Invalid("pathways are kept for an hour", field="--since", remedy="for example 5m or 1h (ago)")
    return window_ms


def _notes(answer: api.ListPathwaysResponse) -> Iterator[str]:
    """Yields what makes the figures doubtful."""
    left_out = answer.left_out
    if left_out.garbage_headers:
        yield f"{left_out.garbage_headers} pathway headers could not be read"
    if left_out.records:
        yield f"about {left_out.records} records are left out: too many different pathways"
    if left_out.lost_reports:
        yield f"{left_out.lost_reports} reports did not arrive: what they measured is missing"
    if answer.kept_since_ms and answer.time_ms - answer.kept_since_ms < answer.window_ms:
        yield f"the leader of lagmon has reports of {age_text(answer.kept_since_ms, answer.time_ms)} only"


async def _answers(session: Session, scope: Scope) -> list[api.ListPathwaysResponse]:
    window_ms = _window_ms(session, scope.since)
    return await session.pages(
        "lagmon",
        "ListPathways",
        lambda token: api.ListPathwaysRequest(stream=scope.stream, window_ms=window_ms, page_token=token),
        api.ListPathwaysResponse,
        lambda answer: [answer],
    )
