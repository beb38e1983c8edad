"""Records as documents, for people and for tools."""

import base64
from typing import NamedTuple

from braid.cli.core.documents import Document, Value
from braid.kernel.ports import KafkaRecord


class RecordPlace(NamedTuple):
    """The cluster, topic, partition and offset of a record."""

    stream: str
    lane: str
    cluster: str
    topic: str
    partition: int


def record_document(place: RecordPlace, record: KafkaRecord) -> Document:
    """A record as `-o json` prints it. Of headers with the same name only the last is shown."""
    from braid.client.records.braid_headers import ID_HEADER, ingestion_time  # imports numpy, which few commands need

    headers = dict(record.headers)
    identity = headers.get(ID_HEADER)
    return {
        **place._asdict(),
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "ingested_at_ms": ingestion_time(record),
        "id": identity.decode("ascii", "replace") if identity is not None else None,
        "key": text_or_base64(record.key),
        "value": text_or_base64(record.value),
        "headers": {name: text_or_base64(value) for name, value in headers.items()},
    }


def text_or_base64(data: bytes | None) -> Value:
    """Bytes in JSON: text if they are UTF-8, else `{"base64": …}`; null if there are none."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
