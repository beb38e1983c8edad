"""Shared rows and readings as messages, and messages as shared rows."""

from collections.abc import Sequence

from braid.api.lagmon.v1 import lag_columns_pb2 as wire
from services.lagmon.columns.pairs import PairKey
from services.lagmon.division.exported import SharedPairs, SharedRows
from services.lagmon.division.packed_rows import PackedRows, pack_rows, unpack_rows
from services.lagmon.division.packing import Packed
from services.lagmon.division.shared_rows import Seen
from services.lagmon.division.views import SharedReading
from services.lagmon.model.mesh_view import ClusterPlace


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
    packed = pack_rows(part)
    return wire.LagRows(
        cluster=cluster,
        count=packed.size,
        columns=[wire.PackedColumn(**column._asdict()) for column in packed.columns],
        metadata=packed.metadata,
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
        columns = [Packed(each.base, each.width, each.data) for each in message.columns]
        found.append(unpack_rows(PackedRows(message.count, columns, message.metadata)))
    return found
