"""Records of Kafka's offset log (`__consumer_offsets`) as values. Bytes in, values out: no client, no I/O.

Formats: Kafka's message schemas `OffsetCommitKey` (versions 0 and 1) and `OffsetCommitValue` (versions 0 to 4; 4 is
flexible: a compact metadata string and tagged fields, of which tag 0 is the topic's id). Every other key version is
another kind of record: 2 is a classic group's metadata, higher ones belong to KIP-848 and share groups.
"""

import struct
from typing import Final, NamedTuple

from braid.kernel.errors import Invalid, Unsupported

OFFSETS_TOPIC: Final = "__consumer_offsets"
_COMMIT_KEY_VERSION_MAX: Final = 1
_VALUE_VERSION_MAX: Final = 4
_LEADER_EPOCH_FROM: Final = 3
_FLEXIBLE_FROM: Final = 4
_EXPIRE_TIME_ONLY: Final = 1
_TOPIC_ID_TAG: Final = 0
_TOPIC_ID_BYTES: Final = 16
_TOPIC_ID_ALONE: Final = b"\1\0\x10"  # one tagged field, tag 0, 16 bytes
_VARINT_BYTES_MAX: Final = 5

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_HEAD: Final = struct.Struct(">hq")  # version, offset
_HEAD_WITH_EPOCH: Final = struct.Struct(">hqi")  # version, offset, leader epoch


class OffsetKey(NamedTuple):
    """The key of a commit: the group and the partition."""

    group: str
    topic: str
    partition: int


class OffsetCommit(NamedTuple):
    """The value of a commit.

    Attributes:
        offset: The committed offset.
        leader_epoch: Of the record before it; -1 where the version or the client told none.
        metadata: The committed metadata; bytes that are not UTF-8 are replaced.
        commit_time_ms: The coordinator's wall clock at the commit.
        expire_time_ms: When it expires, in version 1 alone; else -1.
        topic_id: The topic's id, 16 bytes; empty where none was written.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_time_ms: int
    expire_time_ms: int = -1
    topic_id: bytes = b""


def read_key(data: bytes) -> OffsetKey | None:
    """Reads a record's key; None for every kind of record that is not a commit.

    Raises:
        Invalid: the bytes are not what their version says.
    """
    try:
        (version,) = _INT16.unpack_from(data)
        if version > _COMMIT_KEY_VERSION_MAX:
            return None
        if version < 0:
            raise Invalid(f"key version {version}")
        group, at = _string(data, _INT16.size)
        topic, at = _string(data, at)
        (partition,) = _INT32.unpack_from(data, at)
        key = OffsetKey(group.decode(), topic.decode(), partition)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise Invalid(f"the key does not hold what its version says: {error}") from error
    if at + _INT32.size != len(data) or partition < 0:
        raise Invalid(f"the key's {len(data)} bytes do not end after partition {partition}")
    return key


def read_value(data: bytes) -> OffsetCommit:
    """Reads a commit's value. A null value is a tombstone and never comes here.

    Raises:
        Invalid: the bytes are not what their version says.
        Unsupported: a version this release does not know.
    """
    try:
        return _read_value(data)
    except (struct.error, IndexError) as error:
        raise Invalid(f"the value does not hold what its version says: {error}") from error


def _read_value(data: bytes) -> OffsetCommit:
    (version,) = _INT16.unpack_from(data)
    if version > _VALUE_VERSION_MAX:
        raise Unsupported(f"value version {version}")
    if version < 0:
        raise Invalid(f"value version {version}")
    leader_epoch, at = -1, _HEAD.size
    if version >= _LEADER_EPOCH_FROM:
        _, offset, leader_epoch = _HEAD_WITH_EPOCH.unpack_from(data)
        at = _HEAD_WITH_EPOCH.size
    else:
        _, offset = _HEAD.unpack_from(data)
    metadata, at = _compact_string(data, at) if version >= _FLEXIBLE_FROM else _string(data, at)
    (commit_time_ms,) = _INT64.unpack_from(data, at)
    at += _INT64.size
    expire_time_ms, topic_id = -1, b""
    if version == _EXPIRE_TIME_ONLY:
        (expire_time_ms,) = _INT64.unpack_from(data, at)
        at += _INT64.size
    elif version >= _FLEXIBLE_FROM:
        topic_id, at = _tagged(data, at)
    if at != len(data):
        raise Invalid(f"the value has {len(data)} bytes and should end after {at}")
    text = metadata.decode(errors="replace")
    return OffsetCommit(offset, leader_epoch, text, commit_time_ms, expire_time_ms, topic_id)


def _string(data: bytes, at: int) -> tuple[bytes, int]:
    (length,) = _INT16.unpack_from(data, at)
    return _take(data, at + _INT16.size, length)


def _compact_string(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = _varint(data, at)
    return _take(data, at, length - 1)


def _take(data: bytes, at: int, length: int) -> tuple[bytes, int]:
    end = at + length
    if length < 0 or end > len(data):
        raise IndexError(f"{length} bytes from {at} on, in {len(data)}")
    return data[at:end], end


def _tagged(data: bytes, at: int) -> tuple[bytes, int]:
    """Returns the topic's id if it is among the tagged fields; other fields are ignored."""
    if data[at : at + 3] == _TOPIC_ID_ALONE and len(data) == at + 3 + _TOPIC_ID_BYTES:  # nearly always
        return data[at + 3 :], len(data)
    count, at = _varint(data, at)
    topic_id = b""
    for _ in range(count):  # each takes two bytes at least, so a lying count ends at the data's end
        tag, at = _varint(data, at)
        length, at = _varint(data, at)
        field, at = _take(data, at, length)
        if tag == _TOPIC_ID_TAG:
            topic_id = field
    return topic_id, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Reads an unsigned varint of at most 32 bits."""
    number = data[at]
    if number < 0x80:
        return number, at + 1
    number = 0
    for place in range(_VARINT_BYTES_MAX):
        byte = data[at + place]
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number, at + place + 1
    raise IndexError(f"a varint at {at} does not end")
