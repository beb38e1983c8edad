"""Converts rows of lag to messages, and the tokens of their pages to text."""

from typing import Final, cast

from braid.api.lagmon.v1 import lag_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.kernel.errors import Invalid
from braid.kernel.limits.names import PAGE_SIZE_MAX
from braid.rpc.page_tokens import PageTokens
from services.lagmon.kept.trends import Trend
from services.lagmon.model.lag import Detail, Filter, LagRow, RowKey

LAG_TOKENS: Final = PageTokens(RowKey)


def lag_message(row: LagRow, trend: Trend | None = None) -> lag_pb2.Lag:
    """Builds the message of a row, with its trend where one is known."""
    key = row.key
    known = trend if not row.stale else None
    return lag_pb2.Lag(
        group=key.group,
        stream=key.stream,
        lane=key.lane,
        cluster=key.cluster,
        topic=key.topic,
        partition=key.partition,
        partitions=row.partitions,
        lag_records=row.lag_records,
        lag_seconds=row.lag_seconds,
        source=cast("lag_pb2.LagSource.ValueType", row.source.value),
        foreign=row.foreign,
        stale=row.stale,
        as_of_ms=row.as_of_ms,
        committed_offset=row.committed_offset,
        end_offset=row.end_offset,
        epoch=row.holder.epoch if row.holder else 0,
        detached=row.holder.detached if row.holder else False,
        commit_time_ms=row.commit_time_ms,
        split_partitions=row.split_partitions,
        live_lag_seconds=row.live_lag_seconds,
        unattended=row.unattended,
        trend_per_s=known.per_s if known else None,
        seconds_to_zero=known.seconds_to_zero(row.lag_records) if known else None,
    )


def gone_message(key: RowKey) -> lag_pb2.Lag:
    """Builds the message of a row that no longer exists: its identifying fields only."""
    return lag_pb2.Lag(**key._asdict())


def read_filter(message: api.LagFilter) -> Filter:
    """Reads which rows a request asks for. Raises `Invalid` for more groups than a page has rows."""
    if len(message.groups) > PAGE_SIZE_MAX:
        remedy = f"name at most {PAGE_SIZE_MAX}"
        raise Invalid(f"{len(message.groups)} groups are too many", field="filter.groups", remedy=remedy)
    return Filter(
        message.group,
        message.stream,
        message.lane,
        message.cluster,
        message.exclude_foreign,
        frozenset(message.groups),
    )


def read_detail(value: int) -> Detail:
    """Reads how far a row sums up; lanes if the request does not say.

    Raises:
        Invalid: a detail this release does not know.
    """
    try:
        return Detail(value or Detail.LANE)
    except ValueError:
        names = ", ".join(lag_pb2.LagDetail.Name(cast("lag_pb2.LagDetail.ValueType", each.value)) for each in Detail)
        raise Invalid(f"detail {value} is not known", field="detail", remedy=f"use {names}") from None
