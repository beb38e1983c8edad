"""Reads of the past: streams, clusters and groups as histories tell them, and lag as lagmon kept it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar, cast

from google.protobuf.message import Message

from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
from braid.api.assigner.v1 import group_pb2
from braid.api.lagmon.v1 import lag_history_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as lagmon_api
from braid.api.mesh.v1.event_pb2 import EventGap
from braid.api.registry.v1 import registry_service_pb2 as registry_api
from braid.api.registry.v1 import stream_pb2
from braid.kernel.errors import HistoryHole, Invalid, NotFound
from braid.rpc.documents import Document, to_document
from braid.rpc.pages import ListRequest, Page
from console.server.limits import HISTORY_SECONDS, PAST_SECONDS, ROWS_MAX
from console.server.live.parts import Content, Single, Table
from console.server.reads.assigner import ASSIGNER, counts_of
from console.server.reads.lagmon import LAGMON
from console.server.reads.listing import name_of
from console.server.reads.reader import Reader
from console.server.reads.registry import REGISTRY
from console.server.reads.view import AT, Params, Read, whole_number

T = TypeVar("T")
P = TypeVar("P", bound=Page)
M = TypeVar("M", bound=Message)

_TIME_MS_MAX: Final = 1 << 52
_LAG_STEP_MS: Final = 10_000  # lagmon's shortest
_LAG_LOOK_BACK_MS: Final = 600_000  # twice its longest: the last step that had ended began at most so long before
_PAGE: Final = 100  # histories of lag in an answer


def moment(reader: Reader, params: Params) -> int:
    """The moment that a page shows, milliseconds since the epoch. Raises `Invalid` for one that has not been."""
    at_ms = whole_number(params, AT, _TIME_MS_MAX)
    if at_ms > reader.host.clock.now_ms():
        raise Invalid("this moment has not been yet", field=AT, remedy="leave it out for the present")
    return at_ms


def not_kept(*parts: str, why: str) -> Read:
    """The read of parts that nobody keeps as of a moment: they say so, and show nothing."""

    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        moment(reader, params)
        raise HistoryHole(why, field=AT, remedy="its events tell what happened")

    return Read(parts, take, once=True)


def past_streams() -> Read:
    """Every stream as it was, and those that are not known."""

    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        gaps: list[EventGap] = []

        def items(page: registry_api.ListPastStreamsResponse) -> Sequence[stream_pb2.Stream]:
            gaps.extend(page.gaps)
            return page.streams

        request = registry_api.ListPastStreamsRequest(at_ms=moment(reader, params))
        found, more = await _pages(
            reader,
            REGISTRY,
            "ListPastStreams",
            request,
            registry_api.ListPastStreamsResponse,
            items,
        )
        return {"streams": _table(found, more), "unknown_streams": _gaps(gaps)}

    return Read(("streams", "unknown_streams"), take, once=True)


def past_clusters() -> Read:
    """Every cluster as it was, and those that are not known."""

    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        request = registry_api.ListPastClustersRequest(at_ms=moment(reader, params))
        found = await _one(
            reader,
            REGISTRY,
            "ListPastClusters",
            request,
            registry_api.ListPastClustersResponse,
        )
        return {"clusters": _table(found.clusters), "unknown_clusters": _gaps(found.gaps)}

    return Read(("clusters", "unknown_clusters"), take, once=True)


def past_groups(counted: bool = False) -> Read:
    """Every group as it was, and those that are not known; or only their counts."""

    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        gaps: list[EventGap] = []

        def items(page: assigner_api.ListPastGroupsResponse) -> Sequence[group_pb2.Group]:
            gaps.extend(page.gaps)
            return page.groups

        request = assigner_api.ListPastGroupsRequest(at_ms=moment(reader, params))
        found, more = await _pages(
            reader,
            ASSIGNER,
            "ListPastGroups",
            request,
            assigner_api.ListPastGroupsResponse,
            items,
        )
        shown: Mapping[str, Content] = (
            {"group_counts": Single(counts_of(found))} if counted else {"groups": _table(found, more)}
        )
        return {**shown, "unknown_groups": _gaps(gaps)}

    return Read(("group_counts" if counted else "groups", "unknown_groups"), take, once=True)


def past_stream() -> Read:
    """The page's stream as it was."""

    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        request = registry_api.DescribePastRequest(stream=params["name"], at_ms=moment(reader, params))
        found = await _one(reader, REGISTRY, "DescribePast", request, registry_api.DescribePastResponse)
        return {"stream": Single(to_document(found.stream))}

    return Read(("stream",), take, once=True)


def past_groups_of_stream() -> Read:
    """The groups that were subscribed to the page's stream."""

    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        request = assigner_api.DescribePastRequest(stream=params["name"], at_ms=moment(reader, params))
        found = await _one(reader, ASSIGNER, "DescribePast", request, assigner_api.DescribePastResponse)
        return {"groups": _table(found.groups)}

    return Read(("groups",), take, once=True)


def past_cluster() -> Read:
    """The page's cluster as it was, with the channels that it carried."""

    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        request = registry_api.DescribePastRequest(cluster=params["name"], at_ms=moment(reader, params))
        found = await _one(reader, REGISTRY, "DescribePast", request, registry_api.DescribePastResponse)
        return {"cluster": Single(to_document(found.cluster)), "channels": _table(found.channels)}

    return Read(("cluster", "channels"), take, once=True)


def past_group() -> Read:
    """The page's group as it was, with its members and leases."""

    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        pages: list[assigner_api.DescribePastResponse] = []

        def items(page: assigner_api.DescribePastResponse) -> Sequence[group_pb2.Lease]:
            pages.append(page)
            return page.leases

        request = assigner_api.DescribePastRequest(group=params["name"], at_ms=moment(reader, params))
        leases, more = await _pages(
            reader,
            ASSIGNER,
            "DescribePast",
            request,
            assigner_api.DescribePastResponse,
            items,
        )
        if not pages[0].groups:
            raise NotFound(f"there was no group {params['name']} at that moment", field="name")
        members = {each.id: to_document(each) for each in pages[0].members}
        return {
            "group": Single(to_document(pages[0].groups[0])),
            "members": Table(members),
            "leases": _table(leases, more),
        }

    return Read(("group", "members", "leases"), take, once=True)


def past_lag(stream_param: str = "", group_param: str = "", most: int = ROWS_MAX) -> Read:
    """Lag by lane in the last step of lagmon that had ended by the moment."""

    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        at_ms = moment(reader, params)
        filter = lagmon_api.LagHistoryFilter(stream=params.get(stream_param, ""), group=params.get(group_param, ""))
        found, step_ms, more = await _kept(reader, filter, at_ms - _LAG_LOOK_BACK_MS, at_ms)
        rows = {_key(each): row for each in found if (row := lag_at(each, at_ms, step_ms)) is not None}
        worst = sorted(rows.items(), key=lambda each: _seconds(each[1]), reverse=True)[:most]
        return {"lag": Table(dict(worst), more or len(worst) < len(rows))}

    return Read(("lag",), take, once=True)


def past_lag_of_group() -> Read:
    """The group's lag in the two hours before the moment."""

    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        at_ms = moment(reader, params)
        found, _, more = await _kept(
            reader, lagmon_api.LagHistoryFilter(group=params["name"]), at_ms - HISTORY_SECONDS * 1_000, at_ms
        )
        return {"history": Table({_key(each): to_document(each) for each in found}, more)}

    return Read(("history",), take, once=True)


def lag_at(history: lag_history_pb2.LagHistory, at_ms: int, step_ms: int) -> Document | None:
    """A row of lag as kept in the last step that had ended by a moment; None where lag was not known then. Pure.

    The step that holds the moment is not used: what came after the moment is part of it.
    """
    steps = [each for each in history.steps if each.time_ms + step_ms <= at_ms < each.time_ms + 2 * step_ms]
    if not steps or not steps[-1].HasField("lag_seconds"):
        return None
    step = steps[-1]
    source = "unknown" if step.unknown else "estimate" if step.estimated else "kept"
    trend = step.produced_per_s - step.done_per_s
    known = step.HasField("produced_per_s") and step.HasField("done_per_s")
    return {
        "group": history.group,
        "stream": history.stream,
        "lane": history.lane,
        "cluster": "",
        "topic": "",
        "partition": -1,
        "lag_seconds": step.lag_seconds,
        "lag_records": step.lag_records if step.HasField("lag_records") else None,
        "source": source,
        "stale": step.stale,
        "unattended": step.unattended,
        "as_of_ms": step.time_ms,
        **({"trend_per_s": trend} if known else {}),
    }


async def _one(reader: Reader, service: str, method: str, request: object, response_type: type[T]) -> T:
    """Asks any replica, for each knows the past, and gives it time to read histories. Raises the service's error."""
    return await reader.one(service, method, request, response_type, any_replica=True, seconds=PAST_SECONDS)


async def _pages(
    reader: Reader,
    service: str,
    method: str,
    request: ListRequest,
    response_type: type[P],
    items: Callable[[P], Iterable[M]],
) -> tuple[list[M], bool]:
    """The items of a list as `_one` asks for it, up to a bound, and whether there are more."""
    return await reader.pages(service, method, request, response_type, items, any_replica=True, seconds=PAST_SECONDS)


async def _kept(
    reader: Reader, filter: lagmon_api.LagHistoryFilter, since_ms: int, at_ms: int
) -> tuple[list[lag_history_pb2.LagHistory], int, bool]:
    """Kept lag up to a moment, and the length of its steps. Raises `HistoryHole` where the moment is not kept."""
    pages: list[lagmon_api.ListLagHistoryResponse] = []

    def items(page: lagmon_api.ListLagHistoryResponse) -> Sequence[lag_history_pb2.LagHistory]:
        pages.append(page)
        return page.histories

    found, more = await _pages(
        reader,
        LAGMON,
        "ListLagHistory",
        lagmon_api.ListLagHistoryRequest(filter=filter, since_ms=max(1, since_ms), until_ms=at_ms, page_size=_PAGE),
        lagmon_api.ListLagHistoryResponse,
        items,
    )
    kept_since_ms = pages[0].kept_since_ms
    if not kept_since_ms or kept_since_ms > at_ms:
        since = "lagmon keeps none" if not kept_since_ms else "lagmon has kept it since a later time"
        raise HistoryHole(f"lag is not kept at this time: {since}", field=AT, remedy="ask for a later moment")
    return found, pages[0].step_ms or _LAG_STEP_MS, more


def _table(found: Iterable[Message], more: bool = False) -> Table:
    return Table({name_of(each): to_document(each) for each in found}, more)


def _gaps(gaps: Iterable[EventGap]) -> Table:
    return Table({each.history: to_document(each) for each in gaps})


def _key(history: lag_history_pb2.LagHistory) -> str:
    return f"{history.group}/{history.stream}/{history.lane}"


def _seconds(row: Document) -> float:
    return cast("float", row["lag_seconds"])
