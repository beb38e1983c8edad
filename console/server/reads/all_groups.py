"""Reads of all groups and their lag, once for all pages that a person looks at, and what pages show of them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final
from weakref import WeakKeyDictionary

from braid.api.assigner.v1 import assigner_service_pb2 as assigner
from braid.api.assigner.v1 import group_pb2
from braid.api.lagmon.v1 import lag_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as lagmon
from braid.kernel.errors import BraidError
from braid.kernel.limits.names import PAGE_SIZE_MAX
from braid.kernel.ports import Host, Task
from braid.rpc.documents import Document, Value, to_document
from console.server.json_text import json_bytes
from console.server.limits import (
    EXPORT_ROWS,
    FAST_POLL_SECONDS,
    LATE_LIST_SECONDS,
    ROWS_MAX,
    SETTLE_SECONDS,
    SHARED_SECONDS,
    SHARED_SHARE,
    SLOW_LIST_SECONDS,
    UNSEEN_SECONDS,
    WORST_LAGS,
)
from console.server.live.parts import Content, Single, Table
from console.server.reads.group_table import GroupFacts, GroupTable, LaneLag, Window, group_facts, lane_lag
from console.server.reads.reader import Reader
from console.server.reads.view import Params, Read, whole_number

WINDOW: Final = ("q", "sort", "first")  # parameters of the groups' page: a filter, a column, and the first row


class _Source:
    """One of the lists, with the time and the outcome of its last reading.

    Attributes:
        tried: Whether a first reading has ended, with an answer or an error.
        slow: Whether reading it takes so long that the rows in sight are read by name, to be newer.
        error: Why it was not read the last time.
    """

    def __init__(self, host: Host, what: str, take: Callable[[Reader], Awaitable[None]]) -> None:
        """`what` names the task that reads it."""
        self._clock = host.clock
        self._tasks = host.tasks
        self._what = what
        self._take = take
        self._reading: Task | None = None
        self._late = False  # what is being read must be waited for
        self._good_until = 0.0
        self.tried = self.slow = False
        self.error: BraidError | None = None

    async def read(self, reader: Reader) -> None:
        """Reads the list, unless it was read just now. If no service answers, the last list stays.

        A slow list that was only a little old when its reading began is not waited for: a later call finds the new one.
        """
        now = self._clock.elapsed()
        if now < self._good_until:
            return
        if self._reading is None:
            self._late = not (self.tried and self.slow) or now >= self._good_until + LATE_LIST_SECONDS
            self._reading = self._tasks.spawn(self._read(reader), self._what)
        if self._late:
            await self._reading.ended()

    async def _read(self, reader: Reader) -> None:
        begun, failed = self._clock.elapsed(), None
        try:
            await self._take(reader)
        except BraidError as error:
            failed = error
        finally:
            self._reading = None
        ended, self.tried, self.error = self._clock.elapsed(), True, failed
        self.slow = ended - begun >= SLOW_LIST_SECONDS
        self._good_until = ended + max(SHARED_SECONDS, (ended - begun) * SHARED_SHARE)


class AllGroups:
    """All groups and their lag, as one caller may see them. It does not keep that caller's reader alive."""

    def __init__(self, host: Host) -> None:
        self.table = GroupTable()
        self.used_at = 0.0  # by the clock of the process
        self._groups = _Source(host, "all groups", self._read_groups)
        self._lags = _Source(host, "lag of all groups", self._read_lags)
        self._settled = False

    @property
    def whole(self) -> bool:
        """Whether both lists were read once, so that rows are in the order asked for."""
        return self._groups.tried and self._lags.tried

    async def groups(self, reader: Reader) -> GroupTable:
        """The table with its groups as they are now. Raises the assigner's error."""
        return await self._answered(self._groups, reader)

    async def lags(self, reader: Reader) -> GroupTable:
        """The table with its lag as it is now. Raises lagmon's error."""
        return await self._answered(self._lags, reader)

    async def every(self, reader: Reader) -> GroupTable:
        """The table with its groups as they are now, and the lag that was read last. Raises the assigner's error."""
        table, _ = await asyncio.gather(self.groups(reader), self._lags.read(reader))
        return table

    async def groups_so_far(self, reader: Reader) -> GroupTable:
        """The table with its groups as they are now, or with the first of them while they are read for the first time.

        Raises the assigner's error.
        """
        await self._settle(reader)
        if not self._groups.tried and self.table.groups:
            return self.table
        return await self.groups(reader)

    async def lags_so_far(self, reader: Reader) -> GroupTable:
        """The table with the lag that was read last, even if no service answers now; with none before the first."""
        await self._settle(reader)
        if self._lags.tried:
            await self._lags.read(reader)
        return self.table

    async def groups_in_sight(self, reader: Reader, names: Sequence[str]) -> Mapping[str, bytes]:
        """The messages of some groups by name, newer than in the table; none where the table is new enough."""
        if not names or not self._groups.slow:
            return {}
        request = assigner.ListGroupsRequest(names=names, page_size=len(names))
        found = await reader.one("assigner", "ListGroups", request, assigner.ListGroupsResponse)
        return {each.name: each.SerializeToString() for each in found.groups}

    async def lags_in_sight(self, reader: Reader, names: Sequence[str]) -> Mapping[str, Sequence[LaneLag]]:
        """The lag of some groups by name, likewise; what does not fit one page is as in the table.

        These rows are read even if the list of all groups failed: with very many groups it may not come in time.
        Raises lagmon's error.
        """
        if not names and self._lags.error is not None:
            raise self._lags.error
        if not names or not (self._lags.slow or self._lags.error or not self._lags.tried):
            return {}
        wanted, detail = lagmon.LagFilter(groups=names), lag_pb2.LAG_DETAIL_LANE
        request = lagmon.ListLagRequest(filter=wanted, detail=detail, page_size=PAGE_SIZE_MAX)
        page = await reader.one("lagmon", "ListLag", request, lagmon.ListLagResponse, any_replica=True)
        found: dict[str, list[LaneLag]] = {}
        for each in page.lags:
            found.setdefault(each.group, []).append(lane_lag(each))
        if page.next_page_token and page.lags:
            del found[page.lags[-1].group]  # the next page may have more of it
        return found

    async def _settle(self, reader: Reader) -> None:
        """Waits once, at most `SETTLE_SECONDS`, until both lists were tried: the first rows shown are then in order.

        Later, a service that does not answer holds up its own part alone.
        """
        if self._settled:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                await asyncio.gather(*(each.read(reader) for each in (self._groups, self._lags) if not each.tried))
        self._settled = True

    async def _answered(self, source: _Source, reader: Reader) -> GroupTable:
        await source.read(reader)
        if source.error is not None:
            raise source.error
        return self.table

    async def _read_groups(self, reader: Reader) -> None:
        known, found = self.table.groups, dict[str, GroupFacts]()

        def take(page: assigner.ListGroupsResponse) -> tuple[group_pb2.Group, ...]:
            room = page.groups[: ROWS_MAX - len(found)]
            found.update((each.name, group_facts(each, known.get(each.name))) for each in room)
            if not self._groups.tried:
                self.table.put_groups(found, more=True)
            return ()

        request = assigner.ListGroupsRequest()
        await reader.pages("assigner", "ListGroups", request, assigner.ListGroupsResponse, take)
        self.table.put_groups(found, more=len(found) == ROWS_MAX)

    async def _read_lags(self, reader: Reader) -> None:
        found: list[LaneLag] = []

        def take(page: lagmon.ListLagResponse) -> tuple[lag_pb2.Lag, ...]:
            found.extend(map(lane_lag, page.lags[: ROWS_MAX - len(found)]))
            return ()

        request = lagmon.ListLagRequest(detail=lag_pb2.LAG_DETAIL_LANE)
        await reader.pages("lagmon", "ListLag", request, lagmon.ListLagResponse, take, any_replica=True)
        self.table.put_lags(found, more=len(found) == ROWS_MAX)


_ALL: "WeakKeyDictionary[Reader, AllGroups]" = WeakKeyDictionary()


def _all_of(reader: Reader) -> AllGroups:
    """The groups of a caller. Those of callers who look at no page are forgotten after a while: they take megabytes."""
    now = reader.host.clock.elapsed()
    unseen = [each for each, groups in _ALL.items() if now - groups.used_at > UNSEEN_SECONDS and each is not reader]
    for other in unseen:
        del _ALL[other]
    found = _ALL.get(reader)
    if found is None:
        found = _ALL[reader] = AllGroups(reader.host)
    found.used_at = now
    return found


def windowed_groups() -> tuple[Read, Read]:
    """The groups of a window, and their lag."""
    documents, lag_documents = _Documents(group_pb2.Group), _Documents(lag_pb2.Lag)
    told: Sequence[str] = ()  # the names of the last window

    async def groups(reader: Reader, params: Params) -> Mapping[str, Content]:
        nonlocal told
        every = _all_of(reader)
        table = await every.groups_so_far(reader)
        window = _window(table, params)
        newer = await every.groups_in_sight(reader, window.names)
        known = {name: facts.data for name in window.names if (facts := table.groups.get(name)) is not None}
        shown = {name: newer.get(name, data) for name, data in known.items()}
        order: list[Value] = list(window.names)
        told = window.names
        value: Document = {
            "order": order, "first": window.first, "matched": window.matched, "total": window.total,
            "whole": every.whole,
        }  # fmt: skip
        return {"groups": Table(documents.of(shown), table.more_groups), "window": Single(value)}

    async def lag(reader: Reader, params: Params) -> Mapping[str, Content]:
        every = _all_of(reader)
        table = await every.lags_so_far(reader)
        window = _window(table, params)
        names = list(dict.fromkeys((*told, *window.names)))
        newer = await every.lags_in_sight(reader, names)
        shown = {_lag_key(each): each.data for name in names for each in newer.get(name, table.lags.get(name, ()))}
        return {"lag": Table(lag_documents.of(shown), table.more_lags)}

    return Read(("groups", "window"), groups, FAST_POLL_SECONDS), Read(("lag",), lag, FAST_POLL_SECONDS)


def _window(table: GroupTable, params: Params) -> Window:
    """The rows that a page shows. Raises `Invalid`."""
    return table.window(params.get("sort", ""), params.get("q", ""), whole_number(params, "first", ROWS_MAX))


async def every_group(reader: Reader, params: Params) -> AsyncIterator[bytes]:
    """All groups that a filter matches, in an order, with their lag: JSON in pieces. Raises the assigner's error."""
    table = await _all_of(reader).every(reader)
    names = table.ordered(params.get("sort", ""), params.get("q", ""))
    groups = [facts.data for name in names if (facts := table.groups.get(name)) is not None]
    lags = [each.data for name in names for each in table.lags.get(name, ())]

    async def pieces() -> AsyncIterator[bytes]:
        order: list[Value] = list(names)
        yield b'{"order":' + json_bytes(order)
        async for piece in _rows("groups", group_pb2.Group, groups):
            yield piece
        async for piece in _rows("lag", lag_pb2.Lag, lags):
            yield piece
        yield b"}"

    return pieces()


async def _rows(
    name: str, kind: type[group_pb2.Group] | type[lag_pb2.Lag], messages: Sequence[bytes]
) -> AsyncIterator[bytes]:
    """A list of messages as JSON, some at a time: other pages get their turn."""
    yield f',"{name}":['.encode()
    for start in range(0, len(messages), EXPORT_ROWS):
        some: list[Value] = [to_document(kind.FromString(data)) for data in messages[start : start + EXPORT_ROWS]]
        yield (b"," if start else b"") + json_bytes(some)[1:-1]
        await asyncio.sleep(0)
    yield b"]"


def worst_lag_of_streams() -> Read:
    """Each stream's worst lag, and how many groups read it."""

    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        table = await _all_of(reader).lags(reader)
        found = table.worst_by_stream()
        rows = {_lag_key(lag): {**_lag_document(lag), "groups": groups} for lag, groups in found.values()}
        return {"lag": Table(rows, table.more_lags)}

    return Read(("lag",), take, FAST_POLL_SECONDS)


def worst_lag() -> Read:
    """The lanes with the most lag in seconds."""

    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        table = await _all_of(reader).lags(reader)
        worst = table.worst(WORST_LAGS)
        rows = {_lag_key(each): _lag_document(each) for each in worst}
        return {"lag": Table(rows, table.more_lags or sum(map(len, table.lags.values())) > len(worst))}

    return Read(("lag",), take, FAST_POLL_SECONDS)


def group_counts() -> Read:
    """How many groups there are, and how many free leases."""

    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        groups = (await _all_of(reader).groups(reader)).groups.values()
        counts: Document = {
            "groups": len(groups),
            "members": sum(each.members for each in groups),
            "leases": sum(each.leases for each in groups),
            "free_leases": sum(each.free_leases for each in groups),
        }
        return {"group_counts": Single(counts)}

    return Read(("group_counts",), take)


class _Documents:
    """Documents of a window's messages: one that did not change is not made again."""

    def __init__(self, kind: type[group_pb2.Group] | type[lag_pb2.Lag]) -> None:
        self._kind = kind
        self._known: Mapping[str, tuple[bytes, Document]] = {}

    def of(self, shown: Mapping[str, bytes]) -> Mapping[str, Document]:
        """The messages by key as documents. Those of the last window that are gone are forgotten."""
        made: dict[str, tuple[bytes, Document]] = {}
        for key, data in shown.items():
            known = self._known.get(key)
            same = known is not None and known[0] == data
            made[key] = known if known is not None and same else (data, to_document(self._kind.FromString(data)))
        self._known = made
        return {key: document for key, (_, document) in made.items()}


def _lag_document(lag: LaneLag) -> Document:
    return to_document(lag_pb2.Lag.FromString(lag.data))


def _lag_key(lag: LaneLag) -> str:
    return f"{lag.group}/{lag.stream}/{lag.lane}"
