"""A record as a row of the table, and in full. Pure: bytes become text, hexadecimal or JSON, and nothing else."""

import re
from typing import Final

from braid.client.reading.channel_addresses import ChannelPlace
from braid.client.records.braid_headers import ID_HEADER, ingestion_time
from braid.kernel.ports import KafkaRecord
from braid.rpc.documents import Document, Value
from console.server.limits import MESSAGES_HEADERS_SHOWN, MESSAGES_SHOWN_BYTES
from console.server.messages.decoding import AUTO, Shown, preview, shown_as

_TRACEPARENT: Final = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_NO_TRACE: Final = "0" * 32


def row(place: ChannelPlace, partition: int, record: KafkaRecord, value: Shown) -> Document:
    """A record as a row: where it lies, when it came, and the beginning of its key and value."""
    return {
        **_place(place, partition, record),
        "key_shown": preview(record.key).document(),
        "value_shown": value.document(),
    }


def whole(place: ChannelPlace, partition: int, record: KafkaRecord, value: Shown) -> Document:
    """A record in full, but for what is cut beyond its bound."""
    headers: list[Value] = [
        {"name": name, "bytes": len(data or b""), **shown_as(data, AUTO, MESSAGES_SHOWN_BYTES // 16).document()}
        for name, data in record.headers[:MESSAGES_HEADERS_SHOWN]
    ]
    return {
        **_place(place, partition, record),
        "topic": place.topic,
        "timestamp_type": "log append" if record.timestamp_type == 1 else "create",
        "headers": headers,
        "key_shown": shown_as(record.key, AUTO, MESSAGES_SHOWN_BYTES).document(),
        "key_hex": _hex(record.key),
        "value_shown": value.document(),
        "value_hex": _hex(record.value),
        "shown_bytes": MESSAGES_SHOWN_BYTES,
    }


def trace_id(record: KafkaRecord) -> str:
    """The trace that the record's sender continued (W3C `traceparent`); empty for none, or what is no such header."""
    for name, data in record.headers:
        found = _TRACEPARENT.fullmatch(data) if name == "traceparent" and data else None
        if found is not None and (text := found[1].decode()) != _NO_TRACE:
            return text
    return ""


def _place(place: ChannelPlace, partition: int, record: KafkaRecord) -> Document:
    identity = next((data for name, data in record.headers if name == ID_HEADER and data), b"")
    return {
        "key": f"{place.channel}/{partition}@{record.offset}",
        "channel": place.channel,
        "lane": place.lane,
        "cluster": place.cluster,
        "partition": partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "ingested_at_ms": ingestion_time(record),
        "id": identity[:200].decode("utf-8", "replace"),
        "trace_id": trace_id(record),
        "key_bytes": -1 if record.key is None else len(record.key),
        "value_bytes": -1 if record.value is None else len(record.value),
        "header_count": len(record.headers),
    }


def _hex(data: bytes | None) -> str:
    return (data or b"")[:MESSAGES_SHOWN_BYTES].hex()
