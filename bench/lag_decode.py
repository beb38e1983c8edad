"""Decoding commits of an offset log, beside a plain decoder over the same bytes: `python -m bench.lag_decode`.

Both begin with fetched bytes (record batches in chunks of 1 MiB) and end with the newest commit of each group and
partition. The plain decoder reads every key and value; it stands for lag tools that do (KMinion, Burrow), without
their Kafka clients.
"""

import asyncio
import struct
import sys
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from bench.harness.arguments import Asked, asked
from bench.harness.contest import Contestant, play
from bench.harness.rounds import rows, verdict
from bench.harness.tables import Table, made_with
from braid.kafka.batches.batch import Inflater
from braid.kafka.fetching.chunk import Chunk
from braid.kafka.offset_log.records import OFFSETS_TOPIC
from braid.kafka.offset_log.table import OffsetTable
from braid.kernel.envelope import encode
from braid.kernel.limits.kafka import INFLATED_TURN_BYTES
from braid.kernel.limits.lagmon.sampling import LAG_FETCH_BYTES, LAG_FETCH_RECORDS
from braid.kernel.ports import Isolation, KafkaRecord, TopicPartition
from braid.kernel.progress.fields import EnvelopeFields
from braid.kernel.progress.ranges import Ranges
from braid.kernel.record_columns import RecordColumns
from services.lagmon.domain import ClusterModel
from services.lagmon.policy import LONG_AGO

PEER: Final = "plain decoder"
AGAIN: Final = "plain decoder again"
ONCE: Final = "braid, every key once"
PARTITIONS: Final = 50  # committed together: what a member's request holds
GROUPS: Final = 20
_TIME_MS: Final = 1_767_225_600_000
_WHERE: Final = TopicPartition(OFFSETS_TOPIC, 0)


class Newest(NamedTuple):
    """A commit as the plain decoder keeps it."""

    offset: int
    metadata: str
    time_ms: int


class Contest:
    """Decoders of a number of commits."""

    def __init__(self, commits: int) -> None:
        self._commits = commits
        self._log = offset_log(commits, GROUPS)
        self._once = offset_log(commits, max(1, commits // PARTITIONS))

    def contestants(self) -> dict[str, Contestant]:
        """By name."""
        return {PEER: self.plain, AGAIN: self.plain, "braid": self.braid, ONCE: self.once}

    async def plain(self) -> int:
        """The peer: every record's key and value, the newest wins."""
        newest: dict[tuple[str, str, int], Newest] = {}
        for data in self._log:
            for records in taken(data):
                for record in records:
                    key, commit = decode_plainly(record.key or b"", record.value or b"")
                    newest[key] = commit
        assert len(newest) == GROUPS * PARTITIONS
        return self._commits

    async def braid(self) -> int:
        """Decodes as the lag monitor does, into its model."""
        assert len(decoded(self._log).progress) == GROUPS * PARTITIONS
        return self._commits

    async def once(self) -> int:
        """A log after compaction: nothing is replaced, every key is new."""
        assert len(decoded(self._once).progress) == self._commits
        return self._commits


def decoded(log: Sequence[bytes]) -> ClusterModel:
    """A whole log in the lag monitor's model."""
    model, table = ClusterModel("bench"), OffsetTable()
    for data in log:
        for part in columns_taken(data):
            model.take(0, table.take(0, part), LONG_AGO)
    return model


def taken(data: bytes) -> list[Sequence[KafkaRecord]]:
    """A fetched chunk's records as objects, as plain decoders take them."""
    chunk, inflater = Chunk(_WHERE, 0, data, (), Isolation.READ_COMMITTED, end=1 << 62), Inflater()
    parts = []
    while not chunk.used_up:
        inflater.left = INFLATED_TURN_BYTES
        parts.append(chunk.take(LAG_FETCH_RECORDS, inflater).records)
    return parts


def columns_taken(data: bytes) -> list[RecordColumns]:
    """A fetched chunk's records as the lag monitor takes them."""
    chunk, inflater = Chunk(_WHERE, 0, data, (), Isolation.READ_COMMITTED, end=1 << 62), Inflater()
    parts: list[RecordColumns] = []
    while not chunk.used_up:
        inflater.left = INFLATED_TURN_BYTES
        parts += chunk.take_columns(LAG_FETCH_RECORDS, inflater, ()).parts
    return parts


def decode_plainly(key: bytes, value: bytes) -> tuple[tuple[str, str, int], Newest]:
    """A commit's key of version 1 and value of version 4."""
    (length,) = struct.unpack_from(">h", key, 2)
    group, at = key[4 : 4 + length].decode(), 4 + length
    (length,) = struct.unpack_from(">h", key, at)
    topic, at = key[at + 2 : at + 2 + length].decode(), at + 2 + length
    (partition,) = struct.unpack_from(">i", key, at)
    _, offset, _ = struct.unpack_from(">hqi", value)
    at, length, shift = 14, 0, 0
    while True:
        byte = value[at]
        length |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            break
    metadata, at = value[at : at + length - 1].decode(), at + length - 1
    (time_ms,) = struct.unpack_from(">q", value, at)
    return (group, topic, partition), Newest(offset, metadata, time_ms)


def offset_log(commits: int, groups: int) -> list[bytes]:
    """Commits of groups in turn, a batch for each request, in chunks as they are fetched."""
    chunks, chunk, base = [], bytearray(), 0
    for number in range(commits // PARTITIONS):
        batch = _batch(base, f"group-{number % groups:06d}", number // groups * 500)
        base += PARTITIONS
        chunk += batch
        if len(chunk) > LAG_FETCH_BYTES:
            chunks.append(bytes(chunk))
            chunk = bytearray()
    return [*chunks, bytes(chunk)] if chunk else chunks


def _batch(base: int, group: str, offset: int) -> bytes:
    builder: Any = DefaultRecordBatchBuilder(
        2, 0, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1, batch_size=1 << 20
    )
    fields = EnvelopeFields(offset, Ranges([(offset + 2, offset + 40)]), epoch=7, oldest_ingested_at_ms=_TIME_MS)
    metadata = encode(fields).metadata.encode()
    for partition in range(PARTITIONS):
        builder.append(partition, _TIME_MS, _key(group, partition), _value(offset, metadata), [])
    data = bytearray(builder.build())
    data[:8] = base.to_bytes(8, "big")
    return bytes(data)


def _key(group: str, partition: int) -> bytes:
    topic = b"braid.orders.live.1"
    return (
        struct.pack(">hh", 1, len(group)) + group.encode() + struct.pack(">h", len(topic)) + topic
        + struct.pack(">i", partition)
    )  # fmt: skip


def _value(offset: int, metadata: bytes) -> bytes:
    length = len(metadata) + 1
    varint = bytes([length]) if length < 0x80 else bytes([length & 0x7F | 0x80, length >> 7])
    return (
        struct.pack(">hqi", 4, offset, -1) + varint + metadata + struct.pack(">q", _TIME_MS) + b"\1\0\x10" + bytes(16)
    )


async def contest(how: Asked) -> Table:
    """Plays the rounds."""
    played = await play(Contest(how.units // PARTITIONS * PARTITIONS).contestants(), how.rounds)
    found = rows(played, PEER, "cpu", without_peer=[ONCE])
    facts = {
        "work": f"{how.units:,} commits of {GROUPS} groups with {PARTITIONS} partitions each, envelopes as metadata, "
        "from fetched bytes to the newest of each; one core",
        "peer": "reads every key and value, in this process, from the same bytes",
    }
    return Table("lag_decode", "commit", "cpu", verdict(found, AGAIN), facts, found, made_with())


def main() -> int:
    """Runs the benchmark; 1 when the run is void."""
    how = asked(__doc__, units=100_000, quick_units=5_000)
    table = asyncio.run(contest(how))
    table.publish(how.directory)
    return int(bool(table.verdict) and not how.quick)


if __name__ == "__main__":
    sys.exit(main())
