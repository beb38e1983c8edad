"""Which record a row is and which bucket holds it, in Python: what the expressions in `pipelines.frames` must give."""

import re
import zlib
from typing import Final, NamedTuple

from pipelines.table.identity import CHUNK_BITS, ID_FORM, PRODUCER_LETTERS

_ID: Final = re.compile(ID_FORM.replace("$", r"\Z"))


class Identity(NamedTuple):
    """The part that all copies of a record share."""

    producer: str
    sequence: int


def identity_of(record_id: str | None, cluster: str, topic: str, partition: int, offset: int) -> Identity:
    """The identity of a row of the `braid` source.

    Args:
        record_id: Its `braid-id`, None where it has none.
        cluster: Where it lies, as the next three.
        topic: Name.
        partition: Number.
        offset: Within the partition.
    """
    if record_id is not None and _ID.match(record_id):
        return Identity(record_id[:PRODUCER_LETTERS], int(record_id[PRODUCER_LETTERS + 1 :]))
    return Identity(f"{cluster}/{topic}/{partition}", offset)


def bucket_of(identity: Identity, buckets: int) -> int:
    """The bucket whose seen set holds an identity."""
    return (zlib.crc32(identity.producer.encode()) + (identity.sequence >> CHUNK_BITS)) % buckets
