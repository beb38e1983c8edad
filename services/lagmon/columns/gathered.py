"""Puts rows that somebody made one by one into columns. Pure."""

from collections.abc import Iterable, Sequence

import numpy as np

from services.lagmon.columns.lags import LagColumns, LagRows, Lags
from services.lagmon.columns.pairs import PairKey
from services.lagmon.model.lag import LagRow


def channel_columns(rows: Iterable[LagRow]) -> Sequence[LagColumns]:
    """Returns rows of single partitions of channels as columns, by cluster; rows of other topics are left out."""
    if isinstance(rows, LagRows):
        return rows.parts
    found: dict[str, list[LagRow]] = {}
    for row in rows:
        if row.key.stream:
            found.setdefault(row.key.cluster, []).append(row)
    return [_columns(each) for each in found.values()]


def _columns(rows: Sequence[LagRow]) -> LagColumns:
    keys = sorted({PairKey._make(row.key[:5]) for row in rows})
    places = {key: place for place, key in enumerate(keys)}
    metadata = np.empty(len(rows), np.object_)
    metadata[:] = b""
    lags = Lags(
        pair=np.array([places[PairKey._make(row.key[:5])] for row in rows], np.int64),
        partition=np.array([row.key.partition for row in rows], np.int64),
        records=np.array([row.lag_records for row in rows], np.int64),
        seconds=np.array([row.lag_seconds for row in rows], np.float64),
        live_seconds=np.array([row.live_lag_seconds if row.split_partitions else np.nan for row in rows], np.float64),
        source=np.array([row.source for row in rows], np.int8),
        foreign=np.array([row.foreign for row in rows], np.bool_),
        stale=np.array([row.stale for row in rows], np.bool_),
        unattended=np.array([row.unattended for row in rows], np.bool_),
        as_of_ms=np.array([row.as_of_ms for row in rows], np.int64),
        committed=np.array([row.committed_offset for row in rows], np.int64),
        end=np.array([row.end_offset for row in rows], np.int64),
        commit_time_ms=np.array([row.commit_time_ms for row in rows], np.int64),
        has_commit=np.array([row.committed_offset >= 0 for row in rows], np.bool_),
        metadata=metadata,
    )
    return LagColumns.of(keys, [lags])
