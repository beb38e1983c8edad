"""Handlers of the RPCs about pathways. The leader has what it was told since it began to lead."""

from typing import Final, NamedTuple

from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.api.lagmon.v1 import pathway_pb2
from braid.kernel.errors import Invalid
from braid.kernel.limits.lagmon.pathways import (
    PATHWAY_DEPTH_MAX,
    PATHWAY_PAGE_MAX,
    PATHWAY_WINDOW_MS,
    PATHWAY_WINDOW_MS_MAX,
)
from braid.kernel.limits.runtime import PAGE_SIZE_DEFAULT
from braid.kernel.ports import Caller
from braid.rpc.page_tokens import PageTokens
from braid.runtime.replica import Replica
from services.lagmon.pathways.gauges import PathwayGauges
from services.lagmon.pathways.messages import left_out_message, point_message, read_report
from services.lagmon.pathways.store import Kept, LeftOut, PathwayStore, chain, ends

_NAME_DIGITS: Final = 16


class _Place(NamedTuple):
    """The place of a pathway in a list: its name, which sorts as its hash does."""

    name: str


_TOKENS: Final = PageTokens(_Place)


class PathwayRequests:
    """The pathways of one replica, and the handlers about them."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._clock = replica.host.clock
        self._gauges = PathwayGauges(replica.metrics)
        self._led: object = None
        self._store = PathwayStore()

    async def report(self, request: api.ReportPathwaysRequest, caller: Caller) -> api.ReportPathwaysResponse:
        """Merges a report of one process. Raises `NotLeader`, `Invalid`."""
        store = self._of_this_term()
        report = read_report(request, caller.principal)
        merged = store.add(report, self._clock.now_ms())
        self._gauges.show(store, merged=merged)
        return api.ReportPathwaysResponse()

    async def list(self, request: api.ListPathwaysRequest, caller: Caller) -> api.ListPathwaysResponse:
        """Returns one page of pathways, sorted by name. Raises `NotLeader`, `Invalid`."""
        store, now_ms = self._of_this_term(), self._clock.now_ms()
        if request.page_size < 0:
            message = f"a page cannot have {request.page_size} pathways"
            raise Invalid(message, field="page_size", remedy="use 0 for the default")
        window_ms = request.window_ms or PATHWAY_WINDOW_MS
        if not 0 < window_ms <= PATHWAY_WINDOW_MS_MAX:
            remedy = f"use up to {PATHWAY_WINDOW_MS_MAX}, or 0 for {PATHWAY_WINDOW_MS}"
            raise Invalid(f"pathways cannot cover {window_ms} ms", field="window_ms", remedy=remedy)
        after = _TOKENS.read(request.page_token) or _Place("")
        size = min(request.page_size or PAGE_SIZE_DEFAULT, PATHWAY_PAGE_MAX)
        kept = store.kept(window_ms, now_ms)
        answer = api.ListPathwaysResponse(time_ms=now_ms, window_ms=kept.window_ms, kept_since_ms=store.since_ms)
        answer.left_out.CopyFrom(left_out_message(_left_out(kept)))
        written: dict[int, pathway_pb2.PathwayPoint] = {}  # pathways share their first points
        for last in ends(store.points, kept):
            if _name(last) <= after.name or not _touches(store, last, request.stream):
                continue
            if len(answer.pathways) == size:
                answer.next_page_token = _TOKENS.write(_Place(answer.pathways[-1].name))
                break
            answer.pathways.append(_pathway(store, kept, last, written))
            await self._clock.sleep(0)  # each merges sketches of many buckets: other calls get a turn
        return answer

    def _of_this_term(self) -> PathwayStore:
        """Returns the leader's store, which is empty when a term begins. Raises `NotLeader`."""
        leadership = self._replica.require_leader()
        if leadership.epoch != self._led:
            self._led, self._store = leadership.epoch, PathwayStore()
        return self._store


def _pathway(
    store: PathwayStore, kept: Kept, last: int, written: dict[int, pathway_pb2.PathwayPoint]
) -> pathway_pb2.Pathway:
    points, partial = chain(store.points, last, PATHWAY_DEPTH_MAX)
    for each in points:
        if each.hash not in written:
            written[each.hash] = point_message(each, kept, store.newest_ms.get(each.hash, 0))
    return pathway_pb2.Pathway(name=_name(last), points=[written[each.hash] for each in points], partial=partial)


def _touches(store: PathwayStore, last: int, stream: str) -> bool:
    points, _ = chain(store.points, last, PATHWAY_DEPTH_MAX)
    return bool(points) and (not stream or any(each.edge.stream == stream for each in points))


def _left_out(kept: Kept) -> LeftOut:
    found = LeftOut()
    for bucket in kept.buckets:
        found = found.plus(bucket.left_out)
    return found


def _name(hash: int) -> str:
    return f"{hash:0{_NAME_DIGITS}x}"
