"""The RPC handler for lag over time: checks what is asked, and answers pages of histories."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from braid.api.lagmon.v1 import lag_history_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.kernel.errors import BraidError, Invalid
from braid.kernel.limits.lagmon.kept_lag import (
    KEPT_LAG_COARSE_STEP_MS,
    KEPT_LAG_HISTORY_MS_MAX,
    KEPT_LAG_PAGE_ROWS,
    KEPT_LAG_ROWS_MAX,
    KEPT_LAG_STEP_MS,
)
from braid.kernel.limits.names import PAGE_SIZE_MAX
from braid.kernel.limits.runtime import PAGE_SIZE_DEFAULT
from braid.kernel.ports import Caller, Clock
from braid.rpc.page_tokens import PageTokens
from services.lagmon.exchange.merged_histories import kept_since_ms, merged_page
from services.lagmon.kept.keeper import Keeper
from services.lagmon.kept.reading import Query
from services.lagmon.kept.rows import Flag, KeptRow, Series, SeriesKey
from services.lagmon.kept.store import KeptStore

_TIME_MS_MAX: Final = 1 << 53
_TOKENS: Final = PageTokens(SeriesKey)


class KeepsLag(Protocol):
    """Another replica, which answers what it keeps; see `exchange.peer.Peer`."""

    async def history(self, request: api.ListLagHistoryRequest) -> api.ListLagHistoryResponse: ...


class HistoryReads:
    """Handles `ListLagHistory`: rows of one keeper, and of those of other replicas."""

    def __init__(
        self, clock: Clock, keeper: Keeper, instance: str, peers: Callable[[], Mapping[str, KeepsLag]]
    ) -> None:
        """`instance` is this replica's name; `peers` returns the other replicas with theirs."""
        self._clock = clock
        self._keeper = keeper
        self._instance = instance
        self._peers = peers

    async def list_lag_history(self, request: api.ListLagHistoryRequest, caller: Caller) -> api.ListLagHistoryResponse:
        """Returns one page of histories. Raises `Invalid`."""
        asked = api.ListLagHistoryRequest()
        asked.CopyFrom(request)
        asked.until_ms = request.until_ms or self._clock.now_ms()  # the same for all who are asked
        own = await self._own(asked, request)
        peers = {} if request.own_only else self._peers()
        if not peers:
            return own
        asked.own_only = True
        answers = {self._instance: own, **await self._answers(peers, asked)}
        asked.step_ms = max(answer.step_ms for answer in answers.values())
        others = [name for name, answer in answers.items() if answer.step_ms != asked.step_ms]  # they keep less
        if self._instance in others:
            answers[self._instance] = await self._own(asked, request)
        again = {name: peer for name, peer in peers.items() if name in others}
        answers = {name: answer for name, answer in answers.items() if name not in again}
        answers |= await self._answers(again, asked)
        page, more = merged_page(answers, _page_size(asked, asked.step_ms))
        return api.ListLagHistoryResponse(
            histories=page,
            next_page_token=_TOKENS.write(_key(page[-1]) if more and page else None),
            time_ms=own.time_ms,
            step_ms=asked.step_ms,
            kept_since_ms=kept_since_ms(answers.values()),
            damaged=sum(answer.damaged for answer in answers.values()),
            trouble=own.trouble,
            kept=own.kept,
            silent=sorted(peers.keys() - answers.keys()),
        )

    async def _answers(
        self, peers: Mapping[str, KeepsLag], asked: api.ListLagHistoryRequest
    ) -> dict[str, api.ListLagHistoryResponse]:
        """Returns what replicas answer, without those that do not."""

        async def ask(peer: KeepsLag) -> api.ListLagHistoryResponse | None:
            try:
                return await peer.history(asked)
            except BraidError:  # who asks is told that its rows are missing
                return None

        found = await asyncio.gather(*map(ask, peers.values()))
        return {name: answer for name, answer in zip(peers, found, strict=True) if answer is not None}

    async def _own(
        self, asked: api.ListLagHistoryRequest, request: api.ListLagHistoryRequest
    ) -> api.ListLagHistoryResponse:
        """Returns one page of what this replica keeps; errors name what the caller wrote."""
        after = _TOKENS.read(asked.page_token)
        if asked.page_size < 0:
            size = asked.page_size
            raise Invalid(f"a page cannot have {size} histories", field="page_size", remedy="use 0 for the default")
        now_ms = self._clock.now_ms()
        span = read_range(request, asked.until_ms)
        step_ms = asked.step_ms or self._keeper.store.shortest_step(*span)
        check_step(step_ms, span)
        wanted = asked.filter
        since_ms = span.since_ms - span.since_ms % step_ms
        query = Query(wanted.group, wanted.stream, wanted.lane, since_ms, span.until_ms, step_ms)
        kept = await self._keeper.page(query, after, _page_size(asked, step_ms))
        return api.ListLagHistoryResponse(
            histories=map(history_message, kept.page.series),
            next_page_token=_TOKENS.write(kept.page.series[-1].key if kept.page.more else None),
            time_ms=now_ms,
            step_ms=step_ms,
            kept_since_ms=kept.since_ms or 0,
            damaged=kept.page.damaged,
            trouble=self._keeper.store.health.trouble,
            kept=kept_status(self._keeper.store),
        )


def _page_size(asked: api.ListLagHistoryRequest, step_ms: int) -> int:
    rows = -(-(asked.until_ms - (asked.since_ms - asked.since_ms % step_ms)) // step_ms)
    return min(asked.page_size or PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX, max(1, KEPT_LAG_PAGE_ROWS // rows))


def _key(history: lag_history_pb2.LagHistory) -> SeriesKey:
    return SeriesKey(history.group, history.stream, history.lane)


def kept_status(store: KeptStore) -> lag_history_pb2.KeptLagStatus:
    """Builds the message of how a replica keeps lag."""
    return lag_history_pb2.KeptLagStatus(
        in_memory=store.files.bounded_by_memory,
        size_bytes=sum(store.bytes_kept().values()),
        limit_bytes=store.bytes_max,
        dropped_files=store.health.dropped,
    )


class Range(NamedTuple):
    """A range of wall time; the end is not part of it."""

    since_ms: int
    until_ms: int


def read_range(request: api.ListLagHistoryRequest, now_ms: int) -> Range:
    """Reads the range of a request. Raises `Invalid`."""
    since_ms, until_ms = request.since_ms, request.until_ms or now_ms
    if not 0 < since_ms < _TIME_MS_MAX:
        remedy = "give a time, milliseconds since the epoch"
        raise Invalid(f"a range cannot begin at {since_ms}", field="since_ms", remedy=remedy)
    if request.until_ms < 0 or until_ms <= since_ms:
        field = "until_ms" if request.until_ms else "since_ms"
        raise Invalid("a range must end after it begins", field=field, remedy="use 0 as the end for now")
    if until_ms - since_ms > KEPT_LAG_HISTORY_MS_MAX:
        days = KEPT_LAG_HISTORY_MS_MAX // 86_400_000
        raise Invalid(f"a range cannot be longer than {days} days", field="since_ms", remedy="ask for less")
    return Range(since_ms, until_ms)


def check_step(step_ms: int, span: Range) -> None:
    """Checks the length of a row. Raises `Invalid`."""
    unit = KEPT_LAG_STEP_MS if step_ms < KEPT_LAG_COARSE_STEP_MS else KEPT_LAG_COARSE_STEP_MS
    if step_ms <= 0 or step_ms % unit:
        remedy = f"use multiples of {KEPT_LAG_STEP_MS}, or of {KEPT_LAG_COARSE_STEP_MS} beyond it, or 0"
        raise Invalid(f"rows cannot be {step_ms} ms long", field="step_ms", remedy=remedy)
    if (span.until_ms - span.since_ms) // step_ms > KEPT_LAG_ROWS_MAX:
        remedy = "use longer rows, or 0 for those that fit"
        raise Invalid(f"the range has more than {KEPT_LAG_ROWS_MAX} rows", field="step_ms", remedy=remedy)


def history_message(series: Series) -> lag_history_pb2.LagHistory:
    """Builds the message of one history."""
    return lag_history_pb2.LagHistory(**series.key._asdict(), steps=map(_step_message, series.rows))


def _step_message(row: KeptRow) -> lag_history_pb2.LagStep:
    return lag_history_pb2.LagStep(
        time_ms=row.time_ms,
        max_lag_seconds=row.seconds_max,
        min_lag_seconds=row.seconds_min,
        lag_seconds=row.seconds_last,
        lag_records=row.records,
        produced_per_s=row.produced_per_s,
        done_per_s=row.done_per_s,
        known_seconds=row.known_seconds,
        stale=Flag.STALE in row.flags,
        unknown=Flag.UNKNOWN in row.flags,
        estimated=Flag.ESTIMATED in row.flags,
        unattended=Flag.UNATTENDED in row.flags,
        clock_stepped=row.stepped,
    )
