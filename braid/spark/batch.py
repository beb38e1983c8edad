"""Batch reads: a range of each partition of a stream.

They use no group and no lease, and leave no trace in the mesh.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from braid.client.mesh import connect
from braid.client.reading.channel_addresses import ChannelPlace, channel_places
from braid.client.reading.range_reader import offsets_of
from braid.kernel.errors import ClusterUnavailable, Invalid, OffsetOutOfRange
from braid.kernel.ids import ChannelId, LeaseId
from braid.kernel.limits.planning import SPARK_WAIT_NOTICE_SECONDS
from braid.kernel.ports import NO_TRACE, OffsetAt, TopicPartition, TraceContext
from braid.spark.limits import SPARK_PLAN_RETRY_SECONDS
from braid.spark.options import Position, ReadOptions
from braid.spark.plan import LogRange, split
from braid.spark.worker import read_ranges

_log = logging.getLogger("braid.spark")
_Places = Mapping[LeaseId, ChannelPlace]
_LOG_END, _LOG_START = -1, -2  # as in the JSON of Spark's Kafka source


class RangePartition(InputPartition):
    """One task: the ranges it reads, one after another.

    Attributes:
        trace: The span of its batch, where that has one.
    """

    value: tuple[LogRange, ...]

    def __init__(self, value: tuple[LogRange, ...], trace: TraceContext = NO_TRACE) -> None:
        super().__init__(value)
        self.trace = trace


class BatchReader(DataSourceReader):
    """Plans in a planner process, reads in workers; holds nothing but its options."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks: one a partition, more when `minPartitions` says so."""
        ranges = asyncio.run(batch_ranges(self._options))
        return [RangePartition((each,)) for each in split(ranges, self._options.min_partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one task."""
        # Spark makes a task of its own up when nothing is to be read.
        return read_ranges(self._options, partition.value if isinstance(partition, RangePartition) else ())


async def batch_ranges(options: ReadOptions) -> list[LogRange]:
    """Returns the present ranges of a batch read, by lease.

    Raises:
        NotFound: no such stream or lane.
        Invalid: offsets of a partition the stream does not have, or beyond its log's end.
        OffsetOutOfRange: offsets below a log's start, and `failOnDataLoss` is true.
        Unavailable: no registry answers, or a cluster was away for `clusterWaitSeconds`.
    """
    wanted = options.mesh
    async with connect(
        wanted.endpoint, client_id=wanted.client_id, zone=wanted.zone, tls=wanted.tls, token=wanted.token
    ) as mesh:
        found = await channel_places(mesh.service("registry"), options.mesh.stream, options.lanes)
    places = {
        LeaseId(ChannelId.parse(place.channel), number): place for place in found for number in range(place.partitions)
    }
    for name, position in (("startingOffsets", options.start), ("endingOffsets", options.end)):
        _check_leases(places, name, position)
    by_cluster: dict[str, dict[LeaseId, ChannelPlace]] = defaultdict(dict)
    for lease, place in places.items():
        by_cluster[place.cluster][lease] = place
    planned = await asyncio.gather(*(_cluster_ranges(options, group) for group in by_cluster.values()))
    return sorted((each for ranges in planned for each in ranges), key=lambda each: each.lease)


def _check_leases(places: _Places, name: str, position: Position) -> None:
    """Refuses offsets of partitions that the stream does not have."""
    strangers = sorted(str(lease) for lease in position if lease not in places) if isinstance(position, Mapping) else []
    if strangers:
        known = ", ".join(str(lease) for lease in list(places)[:4])
        raise Invalid(f"{strangers[0]} is no readable partition of the stream", field=name, remedy=f"it has {known} …")


class _Offsets(NamedTuple):
    """One cluster's answer about one partition: its log's bounds, and the offsets of the times asked for."""

    low: int
    high: int
    start: int
    end: int


async def _cluster_ranges(options: ReadOptions, places: _Places) -> list[LogRange]:
    """Returns the ranges of one cluster's partitions."""
    answers = await _ask_patiently(options, places)
    return [_range(options, lease, place, answers[lease]) for lease, place in places.items()]


def _range(options: ReadOptions, lease: LeaseId, place: ChannelPlace, found: _Offsets) -> LogRange:
    start = _position(options.start, lease, found, found.low, found.start)
    end = _position(options.end, lease, found, found.high, found.end)
    if end > found.high:
        raise Invalid(f"{end} is beyond the end of {lease}", field="endingOffsets", remedy=f"it ends at {found.high}")
    if start < found.low:
        lost = f"offsets {start} to {found.low} of {lease} are gone"
        if options.fail_on_data_loss:
            remedy = "begin later, or set failOnDataLoss to false"
            raise OffsetOutOfRange(lost, field="startingOffsets", remedy=remedy)
        _log.warning("%s; reading goes on without them", lost)
        start = found.low
    where = (place.cluster, place.bootstrap, place.security_profile, place.topic)
    return LogRange(lease, *where, start, max(start, end))


def _position(position: Position, lease: LeaseId, found: _Offsets, otherwise: int, at_time: int) -> int:
    if isinstance(position, datetime):
        return at_time
    if isinstance(position, Mapping):
        special = {_LOG_START: found.low, _LOG_END: found.high}
        offset = position.get(lease, otherwise)
        return special.get(offset, offset)
    return otherwise


async def _ask_patiently(options: ReadOptions, places: _Places) -> dict[LeaseId, _Offsets]:
    """Asks a cluster, again while it is away."""
    loop = asyncio.get_running_loop()
    cluster = next(iter(places.values())).cluster
    begun = noticed = loop.time()
    while True:
        try:
            return await _ask(options, places)
        except ClusterUnavailable as error:
            now = loop.time()
            if now - begun > options.cluster_wait_seconds:
                remedy = "mend the cluster, or raise the option clusterWaitSeconds"
                raise ClusterUnavailable(f"cluster {cluster} is away: {error.message}", remedy=remedy) from error
            if now - noticed > SPARK_WAIT_NOTICE_SECONDS:
                _log.warning("waiting for cluster %s since %.0f s: %s", cluster, now - begun, error)
                noticed = now
            await asyncio.sleep(SPARK_PLAN_RETRY_SECONDS)


async def _ask(options: ReadOptions, places: _Places) -> dict[LeaseId, _Offsets]:
    any_place = next(iter(places.values()))
    partitions = {lease: TopicPartition(place.topic, lease.partition) for lease, place in places.items()}

    async def offsets(at: OffsetAt | int) -> Mapping[TopicPartition, int]:
        asked = dict.fromkeys(partitions.values(), at)
        client_id = options.mesh.client_id
        return await offsets_of(any_place.bootstrap, any_place.security_profile, asked, client_id=client_id)

    low, high = await offsets(OffsetAt.EARLIEST), await offsets(OffsetAt.LATEST)
    start = await offsets(_ms(options.start)) if isinstance(options.start, datetime) else low
    end = await offsets(_ms(options.end)) if isinstance(options.end, datetime) else high
    return {
        lease: _Offsets(low[where], high[where], max(low[where], start[where]), min(high[where], end[where]))
        for lease, where in partitions.items()
    }


def _ms(time: datetime) -> int:
    return int(time.timestamp() * 1_000)
