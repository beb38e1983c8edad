"""The work of `get lag`: prints how far groups are behind, in records and in time, once or as it changes."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final, TypeAlias

from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
from braid.api.assigner.v1.group_pb2 import Group
from braid.api.lagmon.v1 import lag_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as lagmon_api
from braid.cli.core.documents import Document, enum_text, to_document
from braid.cli.core.limits import (
    CLI_BEHIND_SECONDS,
    CLI_LAG_AGAIN_SECONDS,
    CLI_LAG_SECONDS,
    CLI_TO_ZERO_SECONDS_MAX,
    CLI_WATCH_SECONDS,
)
from braid.cli.core.output import API_VERSION, Column, Columns, Format, Item, render, render_line
from braid.cli.core.session import Session
from braid.cli.core.times import age_text
from braid.cli.errors import nearest
from braid.kernel.errors import Invalid, NotFound, NotLeader, Unavailable
from braid.kernel.limits.names import PAGE_SIZE_MAX
from braid.kernel.limits.registry.resources import WATCH_SILENCE_SECONDS

Detail: TypeAlias = "lag_pb2.LagDetail.ValueType"
DETAILS: Final = {
    "lane": lag_pb2.LAG_DETAIL_LANE,
    "channel": lag_pb2.LAG_DETAIL_CHANNEL,
    "partition": lag_pb2.LAG_DETAIL_PARTITION,
}
COLUMNS: Final = Columns(
    (
        Column("CLUSTER"),
        Column("RECORDS"),
        Column("SECONDS"),
        Column("STATE"),
        Column("SOURCE", wide=True),
        Column("PARTITIONS", wide=True),
        Column("COMMITTED", wide=True),
        Column("END", wide=True),
        Column("EPOCH", wide=True),
    ),
    age="COMMIT",
)
# A row over all clusters has none to name, and only such rows have a trend.
LANE_COLUMNS: Final = COLUMNS._replace(
    middle=(
        Column("CLUSTER", wide=True),
        *COLUMNS.middle[1:],
        Column("TREND", wide=True),
        Column("TO ZERO", wide=True),
    )
)
_DONE_BY_SECONDS: Final = {lag_pb2.LAG_SOURCE_ESTIMATE: "~", lag_pb2.LAG_SOURCE_UNKNOWN: "≥"}


def parse_detail(text: str) -> Detail:
    """Parses the value of `--detail`. Raises `Invalid`."""
    if text not in DETAILS:
        remedy = f"did you mean {nearest(text, DETAILS)}?" if nearest(text, DETAILS) else f"use {', '.join(DETAILS)}"
        raise Invalid(f"{text!r} is no detail of lag", field="--detail", remedy=remedy)
    return DETAILS[text]


def scope_of(name: str, stream: str) -> lagmon_api.LagFilter:
    """The rows that are requested: a group's, or those of a name as `get lag` prints it (`indexer/logs/live`)."""
    parts = name.split("/")
    if len(parts) == 3 and not stream:
        return lagmon_api.LagFilter(group=parts[0], stream=parts[1], lane=parts[2])
    return lagmon_api.LagFilter(group=name, stream=stream)


async def get_lag(session: Session, scope: lagmon_api.LagFilter, detail: Detail, format: Format) -> int:
    """Prints the lag of groups, once.

    Raises:
        NotFound: the named group has no lag.
    """
    rows, catching_up = await list_lag(session, scope, detail)
    if scope.group and not rows and await _is_registered(session, scope.group):
        rows, catching_up = await _first_heard(session, scope, detail)
    _tell_catching_up(session, catching_up)
    if scope.group and not rows:
        raise await _no_such_group(session, scope, detail)
    if not rows and format in (Format.TABLE, Format.WIDE):
        session.terminal.note("no group consumes anything yet: braid consume STREAM --group NAME makes one")
        return 0
    items = [lag_item(each) for each in rows]
    text = render(format, _columns(detail), items, session.now_ms, narrow=session.terminal.narrow)
    session.terminal.print_table(format, text)
    return 0


async def watch_lag(session: Session, scope: lagmon_api.LagFilter, detail: Detail, format: Format) -> int:
    """Prints all rows, then every row that changes or goes, until interrupted."""
    session.interrupt_code = 0
    shown: dict[str, lag_pb2.Lag] = {}
    told: tuple[str, ...] = ()
    header = True
    async for first, answer in _answers(session, lagmon_api.WatchLagRequest(filter=scope, detail=detail)):
        if told != tuple(answer.catching_up):
            told = tuple(answer.catching_up)
            _tell_catching_up(session, told)
        rows = {lag_name(each): each for each in answer.lags}
        gone = [lag_name(each) for each in answer.gone]
        if first:  # after a break the first answer holds all rows: what it lacks went meanwhile
            gone = [name for name in shown if name not in rows]
        changed = [each for name, each in rows.items() if shown.get(name) != each]
        went = [shown.pop(name) for name in gone if name in shown]
        shown |= rows
        if changed or went or header:
            beside = [lag_item(each) for each in shown.values()]
            _print_changes(session, format, _columns(detail), changed, went, beside, header)
            header = False
    raise AssertionError("a watch ends by interruption alone")


async def list_lag(
    session: Session, scope: lagmon_api.LagFilter, detail: Detail
) -> tuple[list[lag_pb2.Lag], tuple[str, ...]]:
    """Lag rows, and the clusters whose rows may be missing because the answering replica has not read them yet."""
    catching_up: set[str] = set()

    def rows(page: lagmon_api.ListLagResponse) -> Sequence[lag_pb2.Lag]:
        catching_up.update(page.catching_up)
        return page.lags

    found = await session.pages(
        "lagmon",
        "ListLag",
        lambda token: lagmon_api.ListLagRequest(filter=scope, detail=detail, page_size=PAGE_SIZE_MAX, page_token=token),
        lagmon_api.ListLagResponse,
        rows,
    )
    return found, tuple(sorted(catching_up))


def lag_name(lag: lag_pb2.Lag) -> str:
    """The name of a row: the group and the lane, channel or partition; for a topic outside the mesh also its
    cluster."""
    if lag.stream:
        parts = [lag.group, lag.stream, lag.lane, lag.topic.rpartition(".")[2]]
    else:
        parts = [lag.group, f"{lag.cluster}:{lag.topic}" if lag.topic else ""]
    if lag.partition >= 0 and lag.topic:
        parts.append(str(lag.partition))
    return "/".join(part for part in parts if part)


def lag_item(lag: lag_pb2.Lag) -> Item:
    """The table row for a lag."""
    name = lag_name(lag)
    single = lag.partition >= 0 and bool(lag.topic)
    cells = (
        lag.cluster,
        f"{lag.lag_records:,}",
        f"{_DONE_BY_SECONDS.get(lag.source, '')}{lag.lag_seconds:.1f}",
        state_text(lag),
        enum_text(lag_pb2.LagSource.DESCRIPTOR, lag.source),
        str(lag.partitions),
        str(lag.committed_offset) if single else "",
        str(lag.end_offset) if single else "",
        str(lag.epoch) if single and lag.epoch else "",
        f"{lag.trend_per_s:+,.1f}/s" if lag.HasField("trend_per_s") else "",
        age_text(1, 1 + round(min(lag.seconds_to_zero, CLI_TO_ZERO_SECONDS_MAX) * 1000))
        if lag.HasField("seconds_to_zero")
        else "",
    )
    document: Document = {"apiVersion": API_VERSION, "kind": "Lag", "name": name, **to_document(lag)}
    return Item(name, f"lag/{name}", cells, lag.commit_time_ms, document)


def state_text(lag: lag_pb2.Lag) -> str:
    """The state of a row; `OK` if nothing is wrong.

    A group has `NO MEMBER` if records wait and it has none; otherwise it is `BEHIND` from a minute on.
    """
    split = f"split (live {lag.live_lag_seconds:.1f})"
    without_member = lag.unattended and lag.lag_records > 0
    notes = (
        ("NO MEMBER", without_member),
        ("BEHIND", not without_member and lag.lag_records > 0 and lag.lag_seconds >= CLI_BEHIND_SECONDS),
        ("STALE", lag.stale),
        ("foreign", lag.foreign),
        ("detached", lag.detached),
        (split, lag.split_partitions > 0),
    )
    return ",".join(text for text, applies in notes if applies) or "OK"


async def _answers(
    session: Session, request: lagmon_api.WatchLagRequest
) -> AsyncIterator[tuple[bool, lagmon_api.WatchLagResponse]]:
    """Messages of a watch that is reopened whenever it breaks or falls silent; each says whether it is the first.

    The leader and any other replica are asked in turn: each answers from its own view.
    """
    client = session.service("lagmon")
    any_replica = False
    while True:
        first = True
        stream = client.server_stream("WatchLag", request, lagmon_api.WatchLagResponse, any_replica=any_replica)
        try:
            while True:
                async with asyncio.timeout(WATCH_SILENCE_SECONDS):
                    answer = await anext(stream, None)
                if answer is None:
                    break
                yield first, answer
                first = False
        except (Unavailable, NotLeader, TimeoutError) as error:  # a watch outlives its mesh's restarts
            client.forget_leader()
            session.terminal.progress(f"waiting: {str(error) or 'lagmon is silent'}")
        if any_replica:
            await session.ports.host.clock.sleep(CLI_WATCH_SECONDS)
        any_replica = not any_replica


def _print_changes(
    session: Session,
    format: Format,
    columns: Columns,
    changed: Sequence[lag_pb2.Lag],
    gone: Sequence[lag_pb2.Lag],
    beside: Sequence[Item],
    header: bool,
) -> None:
    items = [lag_item(each) for each in changed]
    went = [lag_item(each) for each in gone]
    if format is Format.JSON:
        for item in items:
            session.terminal.print(render_line(item.document))
        for item in went:
            session.terminal.print(render_line({**item.document, "deleted": True}))
        return
    if format in (Format.TABLE, Format.WIDE):
        items += [each._replace(cells=[each.cells[0], "gone", *[""] * (len(each.cells) - 2)]) for each in went]
    narrow = session.terminal.narrow
    text = render(format, columns, items, session.now_ms, narrow=narrow, listed=False, header=header, beside=beside)
    if text:
        session.terminal.print_table(format, text)


def _columns(detail: Detail) -> Columns:
    return LANE_COLUMNS if detail == lag_pb2.LAG_DETAIL_LANE else COLUMNS


def _tell_catching_up(session: Session, clusters: Sequence[str]) -> None:
    if clusters:
        session.terminal.note(f"offsets of {', '.join(clusters)} are still being read: rows may be missing")


async def _is_registered(session: Session, group: str) -> bool:
    try:
        await session.read("assigner", "GetGroup", assigner_api.GetGroupRequest(name=group), Group)
    except (NotFound, Unavailable):  # another's group, or nobody who could say: lagmon's word stands
        return False
    return True


async def _first_heard(
    session: Session, scope: lagmon_api.LagFilter, detail: Detail
) -> tuple[list[lag_pb2.Lag], tuple[str, ...]]:
    """Rows of a group that has just begun and is not known to lagmon yet. Empty if they do not come in time."""
    clock = session.ports.host.clock
    deadline = clock.elapsed() + CLI_LAG_SECONDS
    async with session.terminal.waiting(f"group {scope.group} is new, its lag is not known yet"):
        while True:
            await clock.sleep(CLI_LAG_AGAIN_SECONDS)
            rows, catching_up = await list_lag(session, scope, detail)
            if rows or clock.elapsed() >= deadline:
                return rows, catching_up


async def _no_such_group(session: Session, scope: lagmon_api.LagFilter, detail: Detail) -> NotFound:
    everything, _ = await list_lag(session, lagmon_api.LagFilter(stream=scope.stream), detail)
    close = nearest(scope.group, {each.group for each in everything})
    where = f" on stream {scope.stream}" if scope.stream else ""
    remedy = f"did you mean {close}?" if close else "list those that have: braid get lag"
    return NotFound(f"no lag is known of group {scope.group}{where}", remedy=remedy)
