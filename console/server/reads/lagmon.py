"""Reads of lagmon: lag, its history, alerts and pathways."""

from collections.abc import Mapping

from google.protobuf.message import Message

from braid.api.lagmon.v1 import lag_pb2, pathway_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.rpc.documents import Document, to_document
from console.server.limits import FAST_POLL_SECONDS, HISTORY_SECONDS, SLOW_POLL_SECONDS
from console.server.live.parts import Content, Single, Table
from console.server.reads.listing import name_of
from console.server.reads.reader import Memo, Reader
from console.server.reads.view import Params, Read, whole_number

LAGMON = "lagmon"
_WINDOW_SECONDS_MAX = 3_600
_WINDOW_SECONDS = 60
_TIME_MS_MAX = 1 << 52


def lag_of_stream() -> Read:
    """The lag of groups on the stream that the page is about, by channel."""
    return _lag(lag_pb2.LAG_DETAIL_CHANNEL, "name", "")


def lag_of_group() -> Read:
    """The lag of the group that the page is about, by partition."""
    return _lag(lag_pb2.LAG_DETAIL_PARTITION, "", "name")


def _lag(detail: lag_pb2.LagDetail.ValueType, stream_param: str, group_param: str) -> Read:
    memo = Memo()

    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        filter = api.LagFilter(stream=params.get(stream_param, ""), group=params.get(group_param, ""))
        found, more = await lags(reader, filter, detail)
        return {"lag": memo.table(found, lambda each: lag_key(each, detail), more)}

    return Read(("lag",), take, FAST_POLL_SECONDS)


async def lags(
    reader: Reader, filter: api.LagFilter, detail: lag_pb2.LagDetail.ValueType
) -> tuple[list[lag_pb2.Lag], bool]:
    """Lag of what a filter lets through, and whether there is more. Raises lagmon's error."""
    return await reader.pages(
        LAGMON,
        "ListLag",
        api.ListLagRequest(filter=filter, detail=detail),
        api.ListLagResponse,
        lambda page: page.lags,
        any_replica=True,
    )


def lag_key(lag: lag_pb2.Lag, detail: int) -> str:
    """The key of a row of lag among those of its detail."""
    parts = [lag.group, lag.stream, lag.lane]
    if detail != lag_pb2.LAG_DETAIL_LANE:
        parts += [lag.cluster, lag.topic]
    if detail == lag_pb2.LAG_DETAIL_PARTITION:
        parts.append(str(lag.partition))
    return "/".join(parts)


def lag_history() -> Read:
    """The group's lag over the last two hours, as one replica kept it."""

    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        since_ms = reader.host.clock.now_ms() - HISTORY_SECONDS * 1_000
        filter = api.LagHistoryFilter(group=params["name"])
        found, more = await reader.pages(
            LAGMON,
            "ListLagHistory",
            api.ListLagHistoryRequest(filter=filter, since_ms=since_ms, page_size=100),
            api.ListLagHistoryResponse,
            lambda page: page.histories,
            1_000,
            any_replica=True,
        )
        rows = {f"{each.group}/{each.stream}/{each.lane}": to_document(each) for each in found}
        return {"history": Table(rows, more)}

    return Read(("history",), take, SLOW_POLL_SECONDS)


async def kept_lag(reader: Reader, params: Params) -> Document:
    """One page of lag over time, in the range and steps that are asked for. Raises lagmon's error."""
    filter = api.LagHistoryFilter(
        group=params.get("group", ""), stream=params.get("stream", ""), lane=params.get("lane", "")
    )
    request = api.ListLagHistoryRequest(
        filter=filter,
        since_ms=whole_number(params, "since_ms", _TIME_MS_MAX),
        until_ms=whole_number(params, "until_ms", _TIME_MS_MAX),
        step_ms=whole_number(params, "step_ms", _TIME_MS_MAX),
        page_size=100,
    )
    found = await reader.one(LAGMON, "ListLagHistory", request, api.ListLagHistoryResponse, any_replica=True)
    return {
        "histories": [to_document(each) for each in found.histories],
        "step_ms": found.step_ms,
        "kept_since_ms": found.kept_since_ms,
        "damaged": found.damaged,
        "more": bool(found.next_page_token),
    }


def alerts(stream_param: str = "", cluster_param: str = "", group_param: str = "") -> Read:
    """Alerts about the whole mesh with where they are sent, or those about what a parameter names."""
    memo, outlets = Memo(), Memo()
    whole = not (stream_param or cluster_param or group_param)

    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        sent: list[Message] = []

        def items(page: api.ListAlertsResponse) -> list[Message]:
            sent.extend(page.outlets)
            wanted = params.get(group_param, "")
            return [each for each in page.alerts if wanted in ("", each.group)]

        found, more = await reader.pages(
            LAGMON,
            "ListAlerts",
            api.ListAlertsRequest(
                stream=params.get(stream_param, ""),
                cluster=params.get(cluster_param, ""),
                include_resolved=bool(params.get("resolved")),
            ),
            api.ListAlertsResponse,
            items,
        )
        shown: dict[str, Content] = {"alerts": memo.table(found, name_of, more)}
        return {**shown, "outlets": outlets.table(sent, name_of)} if whole else shown

    return Read(("alerts", "outlets") if whole else ("alerts",), take)


def pathways() -> Read:
    """Ways of records over streams, in the time that the page asks for."""

    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        seconds = whole_number(params, "window_seconds", _WINDOW_SECONDS_MAX) or _WINDOW_SECONDS
        last: list[api.ListPathwaysResponse] = []

        def items(page: api.ListPathwaysResponse) -> list[pathway_pb2.Pathway]:
            last[:] = [page]
            return list(page.pathways)

        found, more = await reader.pages(
            LAGMON,
            "ListPathways",
            api.ListPathwaysRequest(stream=params.get("stream", ""), window_ms=seconds * 1_000),
            api.ListPathwaysResponse,
            items,
        )
        summary: Document = {
            "window_seconds": last[0].window_ms / 1_000,
            "kept_since_ms": last[0].kept_since_ms,
            "left_out": to_document(last[0].left_out),
        }
        rows = {each.name: _pathway(each) for each in found}
        return {"pathways": Table(rows, more), "summary": Single(summary)}

    return Read(("pathways", "summary"), take, SLOW_POLL_SECONDS / 2)


def _pathway(pathway: pathway_pb2.Pathway) -> Document:
    """A pathway with its hashes as text: numbers of browsers have 53 bits."""
    return {
        **to_document(pathway),
        "points": [
            {**to_document(each), "hash": f"{each.hash:016x}", "parent_hash": f"{each.parent_hash:016x}"}
            for each in pathway.points
        ],
    }
