"""Reads of the Spark page: queries that hold leases, and the lag of their groups."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2
from braid.api.lagmon.v1 import lag_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as lagmon_api
from console.server.limits import READ_SECONDS
from console.server.live.parts import Content
from console.server.reads.assigner import ASSIGNER
from console.server.reads.lagmon import lag_key, lags
from console.server.reads.reader import Memo, Reader
from console.server.reads.view import Params, Read


def spark_reads() -> tuple[Read, Read]:
    """Spark queries by member id, and the lag of their groups on every lane."""
    groups = _Groups()
    return _jobs(groups), _lag(groups)


class _Groups:
    """The groups that Spark queries are members of, as the last list of queries had them."""

    def __init__(self) -> None:
        self.names: frozenset[str] = frozenset()
        self._listed = asyncio.Event()

    def are(self, names: Iterable[str]) -> None:
        """Remembers them."""
        self.names = frozenset(names)
        self._listed.set()

    async def listed(self) -> None:
        """Waits for the first list, so that the first page already has the lag; at most as long as a read takes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(READ_SECONDS):
                await self._listed.wait()


def _jobs(groups: _Groups) -> Read:
    memo = Memo()

    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        found, more = await reader.pages(
            ASSIGNER,
            "ListMembers",
            api.ListMembersRequest(spark=True),
            api.ListMembersResponse,
            _queries,
        )
        groups.are(each.group for each in found)
        return {"jobs": memo.table(found, lambda each: each.id, more)}

    return Read(("jobs",), take)


def _queries(page: api.ListMembersResponse) -> list[group_pb2.Member]:
    """The queries of a page: replicas of older releases leave nobody out."""
    return [each for each in page.members if each.spark]


def _lag(groups: _Groups) -> Read:
    memo, detail = Memo(), lag_pb2.LAG_DETAIL_LANE

    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        await groups.listed()
        found, more = await lags(reader, lagmon_api.LagFilter(exclude_foreign=True), detail)
        shown = [each for each in found if each.group in groups.names]
        return {"lag": memo.table(shown, lambda each: lag_key(each, detail), more)}

    return Read(("lag",), take)
