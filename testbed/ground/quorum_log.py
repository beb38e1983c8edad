"""Reads a cluster's metadata log: every topic it ever created or deleted, and when. Pure.

Kafka (KRaft) writes each change of its metadata as a record of `__cluster_metadata-0`: a frame (its version, kind and
version of the message, as unsigned varints), then the message. `TopicRecord` is a compact string and an id of 16 bytes,
`RemoveTopicRecord` the id. The log goes back to the cluster's first start: brokers drop its segments after a week.
"""

from collections.abc import Iterable
from typing import Final

from testbed.checkers import facts
from testbed.ground.clusters import RawRecord, Timed

METADATA_TOPIC: Final = "__cluster_metadata"
_FRAME_VERSION: Final = 1
_TOPIC: Final = 2
_REMOVE_TOPIC: Final = 9
_ID_BYTES: Final = 16


def topic_changes(cluster: str, prefix: str, records: Iterable[RawRecord]) -> list[Timed]:
    """Topics with a prefix that a cluster created and deleted, each with its wall-clock time in ms.

    Raises:
        ValueError: the log has a format that this reader does not know.
    """
    names: dict[bytes, str] = {}
    found: list[Timed] = []
    for record in records:
        value = record.value or b""
        frame, at = _varint(value, 0)
        kind, at = _varint(value, at)
        version, at = _varint(value, at)
        if kind not in (_TOPIC, _REMOVE_TOPIC):
            continue
        if frame != _FRAME_VERSION or version:
            raise ValueError(f"{cluster}: offset {record.offset} has frame {frame}, kind {kind}, version {version}")
        made = kind == _TOPIC
        if made:
            length, at = _varint(value, at)
            name, at = value[at : at + length - 1].decode(), at + length - 1
            names[value[at : at + _ID_BYTES]] = name
        name = names[value[at : at + _ID_BYTES]]
        if name.startswith(prefix):
            topic = facts.Topic(cluster, name)
            found.append((record.timestamp_ms, facts.TopicCreated(topic) if made else facts.TopicDeleted(topic)))
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
