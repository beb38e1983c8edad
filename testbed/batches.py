"""Record batches built by hand (KIP-98), valid and hostile, in every codec."""

import gzip
import io
import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final

import cramjam
import zstandard
from aiokafka.codec import gzip_encode, lz4_encode, snappy_encode, zstd_encode
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record._crecords.cutil import crc32c_cython
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import encode_varint

from braid.kafka.cluster import AioKafka
from braid.kafka.protocol.wire import Wire
from braid.kafka.security import Security
from braid.kernel.ports import TopicPartition

CODECS: Final = (0, 1, 2, 3, 4)
NAMES: Final = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
_HEAD: Final = struct.Struct(">qiibIhiqqqhii")
_PIECE: Final = 1 << 20
BROKER_SECONDS: Final = 180.0  # a broker inflates a batch too, to look at its records


def batch(base: int, count: int, codec: int = 0) -> bytes:
    """A batch of `count` records from an offset on, as aiokafka's producer builds it; values are the offsets."""
    builder: Any = DefaultRecordBatchBuilder(
        2, codec, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1, batch_size=1 << 20
    )
    for at in range(count):
        builder.append(at, 1_000 + base + at, None, f"{base + at}".encode(), [])
    data = bytearray(builder.build())
    data[:8] = base.to_bytes(8, "big")
    return bytes(data)


def raw_batch(
    base: int, offsets: int, payload: bytes, codec: int = 0, *, count: int | None = None, time_ms: int = 0
) -> bytes:
    """A batch that spans this many offsets, with a valid checksum over any `payload`."""
    head = _HEAD.pack(
        base, _HEAD.size - 12 + len(payload), -1, 2, 0, codec, offsets - 1, time_ms, time_ms, -1, -1, -1,
        offsets if count is None else count,
    )  # fmt: skip
    data = bytearray(head + payload)
    data[17:21] = crc32c_cython(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


def record_bytes(delta: int, value: bytes, headers: Sequence[tuple[bytes, bytes]] = ()) -> bytes:
    """One record without a key."""
    return record_head(delta, len(value), b"".join(_headers(headers))) + value + b"".join(_headers(headers))


def record_head(delta: int, value_size: int, behind: bytes = b"\x00") -> bytes:
    """A record up to its value, of which only the size is given; `behind` follows the value."""
    body = b"\x00\x00" + varint(delta) + varint(-1) + varint(value_size)
    return varint(len(body) + value_size + len(behind)) + body


def varint(number: int) -> bytes:
    """Encodes a number as records do: zigzag, seven bits per byte."""
    out = bytearray()
    encode_varint(number, out.append)
    return bytes(out)


def packed(codec: int, plain: bytes) -> bytes:
    """Compresses data as aiokafka's producer does."""
    encode = {0: bytes, 1: gzip_encode, 2: snappy_encode, 3: lz4_encode, 4: zstd_encode}[codec]
    return bytes(encode(plain))


def bomb(codec: int, value_size: int) -> bytes:
    """A compressed record whose value is `value_size` zeros. Building it takes memory for the result only."""
    return packed_pieces(codec, _zeros(value_size))


def packed_pieces(codec: int, pieces: Iterable[bytes]) -> bytes:
    """Compresses data piece by piece, in the memory of the result; each piece is a block of snappy."""
    if codec == 0:
        return b"".join(pieces)
    if codec == 1:
        out = io.BytesIO()
        with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=9) as file:
            for piece in pieces:
                file.write(piece)
        return out.getvalue()
    if codec == 2:
        return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + b"".join(map(_snappy_block, pieces))
    if codec == 3:
        packer = cramjam.lz4.Compressor(level=9, content_checksum=False, block_linked=False)
        done = [bytes(packer.flush()) for piece in pieces if packer.compress(piece)]
        return b"".join([*done, bytes(packer.finish())])
    stream = zstandard.ZstdCompressor(3).compressobj()
    return b"".join([*map(stream.compress, pieces), stream.flush()])


async def write_raw(bootstrap: str, topic: str, batches: Sequence[bytes]) -> list[int]:
    """Writes batches into a new topic of one partition; returns the broker's error codes."""
    wire, admin = (
        Wire(bootstrap, "bombs", Security(), BROKER_SECONDS),
        AioKafka("bombs").cluster(bootstrap, "").admin(),
    )
    await admin.create_topic(topic, 1, 1, {"max.message.bytes": str(16 << 20), "compression.type": "producer"})
    codes = [await produce_raw(wire, TopicPartition(topic, 0), each) for each in batches]
    await admin.close()
    await wire.close()
    return codes


async def produce_raw(wire: Wire, partition: TopicPartition, data: bytes) -> int:
    """Sends bytes as a batch to a cluster of one broker; returns the broker's error code, 0 for none."""
    (broker,) = (await wire.metadata([partition.topic])).brokers
    request = ProduceRequest(None, -1, 120_000, [(partition.topic, [(partition.partition, data)])])
    (((_, ((_, code, *_),)),)) = (await wire.ask(broker, request)).topics
    return int(code)


def _zeros(value_size: int) -> Iterable[bytes]:
    yield record_head(0, value_size)
    for at in range(0, value_size, _PIECE):
        yield bytes(min(_PIECE, value_size - at))
    yield b"\x00"


def _snappy_block(piece: bytes) -> bytes:
    block = bytes(cramjam.snappy.compress_raw(piece))
    return struct.pack(">i", len(block)) + block


def _headers(headers: Sequence[tuple[bytes, bytes]]) -> Iterable[bytes]:
    yield varint(len(headers))
    for name, value in headers:
        yield varint(len(name)) + name + varint(len(value)) + value
