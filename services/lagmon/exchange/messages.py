"""Shared rows and readings as messages, and messages as shared rows."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from braid.api.lagmon.v1 import lag_columns_pb2 as wire
from braid.kernel.limits.lagmon.sampling import LAG_PROGRESS_MAX
from services.lagmon.columns.pairs import PairKey
from services.lagmon.division.exported import SharedPairs, SharedRows
from services.lagmon.division.packing import DamagedColumns, Packed, pack, unpack
from services.lagmon.division.shared_rows import Seen, SharedNumbers
from services.lagmon.division.views import SharedReading
from services.lagmon.model.mesh_view import ClusterPlace

_PLACED = 3  # columns that say which rows they are


def reading_message(reading: SharedReading) -> wire.LagReading:
    """Builds the message of a reading."""
    return wire.LagReading(
        cluster=reading.cluster,
        bootstrap=reading.place.bootstrap,
        security_profile=reading.place.security_profile,
        version=reading.version,
        size=reading.size,
        everything=reading.everything,
        caught_up=reading.caught_up,
        read_ms=reading.read_ms,
        oldest_seen_ms=reading.seen.oldest_ms,
        newest_seen_ms=reading.seen.newest_ms,
    )


def read_reading(message: wire.LagReading) -> SharedReading:
    """Reads a reading."""
    return SharedReading(
        message.cluster,
        ClusterPlace(message.bootstrap, message.security_profile),
        message.version,
        message.size,
        message.everything,
        message.caught_up,
        message.read_ms,
        Seen(message.oldest_seen_ms, message.newest_seen_ms),
    )


def rows_message(cluster: str, part: SharedPairs | SharedRows) -> wire.LagRows:
    """Builds the message of pairs or rows of a cluster."""
    if isinstance(part, SharedPairs):
        pairs = [wire.LagPair(group=key.group, stream=key.stream, lane=key.lane, topic=key.topic) for key in part.keys]
        return wire.LagRows(cluster=cluster, pairs=pairs)
    lengths = np.fromiter(map(len, part.metadata), np.int64, len(part.metadata))
    columns = (part.places, part.pair, part.partition, *part.numbers, lengths)
    return wire.LagRows(
        cluster=cluster,
        count=len(part.places),
        columns=[wire.PackedColumn(**pack(column)._asdict()) for column in columns],
        metadata=b"".join(part.metadata),
    )


def read_rows_message(message: wire.LagRows) -> Sequence[SharedPairs | SharedRows]:
    """Reads pairs, or rows, or both.

    Raises:
        DamagedColumns: the columns do not fit together.
    """
    found: list[SharedPairs | SharedRows] = []
    if message.pairs:
        cluster = message.cluster
        keys = [PairKey(each.group, each.stream, each.lane, cluster, each.topic) for each in message.pairs]
        found.append(SharedPairs(keys))
    if message.count:
        found.append(_read_rows(message))
    return found


def _read_rows(message: wire.LagRows) -> SharedRows:
    count = message.count
    if not 0 < count <= LAG_PROGRESS_MAX or len(message.columns) != _PLACED + len(SharedNumbers._fields) + 1:
        raise DamagedColumns(f"{count} rows in {len(message.columns)} columns")
    columns = [unpack(Packed(each.base, each.width, each.data), count) for each in message.columns]
    lengths = columns.pop()
    if int(lengths.min()) < 0 or int(lengths.max()) > len(message.metadata):
        raise DamagedColumns("metadata of a length that cannot be")
    ends = np.cumsum(lengths).tolist()
    if ends[-1] != len(message.metadata):
        raise DamagedColumns("metadata that does not fit its lengths")
    metadata = [message.metadata[first:end] for first, end in pairwise([0, *ends])]
    places, pair, partition = columns[:_PLACED]
    return SharedRows(places, pair, partition, SharedNumbers._make(columns[_PLACED:]), metadata)
