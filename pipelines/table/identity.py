"""The identity of a row: which record it is. Pure.

A `braid-id` is `<ULID of the producer instance>:<decimal sequence>`, and every copy of a record carries it. A record
without one (a foreign producer's), or with one out of form, is where it lies: its producer is then
`<cluster>/<topic>/<partition>` and its sequence the offset. Either way an identity is a pair (producer, sequence), and
sequences of one producer are dense, which is what makes an exact set of them small (`seen`).
"""

import re
import zlib
from typing import Final, NamedTuple

# 18 digits fit a signed 64-bit integer. The same expression is given to Spark (RLIKE), so it stays within what
# Python's and Java's regular expressions agree on.
ID_FORM: Final = "^[0-9A-HJKMNP-TV-Z]{26}:(0|[1-9][0-9]{0,17})$"
PRODUCER_LETTERS: Final = 26
CHUNK_BITS: Final = 16
CHUNK_SEQUENCES: Final = 1 << CHUNK_BITS

_ID: Final = re.compile(ID_FORM.replace("$", r"\Z"))


class Identity(NamedTuple):
    """The part of a record that is the same in every copy."""

    producer: str
    sequence: int


def identity_of(record_id: str | None, cluster: str, topic: str, partition: int, offset: int) -> Identity:
    """Returns the identity of a row of the `braid` source.

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
    """Returns the bucket whose seen set holds an identity.

    A chunk of a producer's sequences lies in one bucket; consecutive chunks lie in consecutive ones, so that one busy
    producer does not make one busy bucket.
    """
    return (zlib.crc32(identity.producer.encode()) + (identity.sequence >> CHUNK_BITS)) % buckets
