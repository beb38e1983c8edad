"""The peer of the Spark source: a plain Python data source over aiokafka, as one would write it in an afternoon.

It reads whole partitions `getmany` by `getmany` and builds Arrow columns of key, value, offset and timestamp: fewer
than Braid's source gives, no headers, nothing inflated within a bound, no client kept between tasks.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

COLUMNS: Final = "partition int, offset long, timestamp long, key binary, value binary"
_FETCH_RECORDS: Final = 20_000
_FETCH_BYTES: Final = 8 << 20
_ARROW: Final = pa.schema([
    ("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", pa.int64()), ("key", pa.binary()),
    ("value", pa.binary()),
])  # fmt: skip


class PlainSource(DataSource):
    """The data source of format `plain`. Options: `bootstrap`, `topic`."""

    @classmethod
    def name(cls) -> str:
        """The name to give to `format`."""
        return "plain"

    def schema(self) -> str:
        """The columns."""
        return COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read of all there is."""
        return PlainReader(self.options)


class PlainReader(DataSourceReader):
    """A reader with one task per partition."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._bootstrap = options["bootstrap"]
        self._topic = options["topic"]

    def partitions(self) -> Sequence[InputPartition]:
        """Each partition with its end."""
        return [InputPartition(each) for each in asyncio.run(self._ends())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition."""
        number, end = partition.value
        loop = asyncio.new_event_loop()
        consumer = loop.run_until_complete(self._consumer(number))
        place, seen = AioPartition(self._topic, number), 0
        while seen < end:
            fetched = loop.run_until_complete(consumer.getmany(timeout_ms=1_000, max_records=_FETCH_RECORDS))
            if records := fetched.get(place, ()):
                seen = records[-1].offset + 1
                columns = [
                    [number] * len(records), [each.offset for each in records], [each.timestamp for each in records],
                    [each.key for each in records], [each.value for each in records],
                ]  # fmt: skip
                yield pa.record_batch(
                    [pa.array(column, field.type) for column, field in zip(columns, _ARROW, strict=True)], _ARROW
                )
        loop.run_until_complete(consumer.stop())
        loop.close()

    async def _ends(self) -> list[tuple[int, int]]:
        consumer = AIOKafkaConsumer(self._topic, bootstrap_servers=self._bootstrap)
        await consumer.start()
        places = [AioPartition(self._topic, number) for number in sorted(consumer.partitions_for_topic(self._topic))]
        ends = await consumer.end_offsets(places)
        await consumer.stop()
        return [(place.partition, end) for place, end in ends.items() if end]

    async def _consumer(self, number: int) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap, enable_auto_commit=False,
            max_partition_fetch_bytes=_FETCH_BYTES, fetch_max_bytes=2 * _FETCH_BYTES,
        )  # fmt: skip
        await consumer.start()
        consumer.assign([AioPartition(self._topic, number)])
        consumer.seek(AioPartition(self._topic, number), 0)
        return consumer
