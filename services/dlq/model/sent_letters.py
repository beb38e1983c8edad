"""Where a replay sent letters to, and what shows later whether the group that gave them up has handled them. Pure."""

import zlib
from typing import NamedTuple

from services.dlq.model.letters import Cursor, Letter


class SentTarget(NamedTuple):
    """A partition that letters of one group were sent to, as it was just before.

    Attributes:
        topic_id: The topic's own id, which one of the same name that is made anew does not share.
        leader_epoch: Of the leader then. The records lie there as long as no later leader began to write before them.
        group: The one group the records are for.
        resets: How many resets of the group's progress were recorded.
    """

    cluster: str
    topic: str
    partition: int
    topic_id: bytes
    leader_epoch: int
    group: str
    resets: int


class SentLetter(NamedTuple):
    """One letter that was sent again.

    Attributes:
        cursor: Of the letter, within its stream.
        mark: The letter's `letter_mark`.
        offset: Of the record that was sent.
    """

    cursor: Cursor
    mark: int
    target: SentTarget
    offset: int


class Sending(NamedTuple):
    """When a letter was sent, and where to; `time_ms` is of the leader's wall clock, after it was acknowledged."""

    letter: SentLetter
    time_ms: int


def letter_mark(letter: Letter) -> int:
    """CRC-32 of what tells a letter from another at the same place, where a dlq log was cut and written on."""
    parts = (letter.group, letter.record_id, letter.replays, letter.time_ms)
    return zlib.crc32("\0".join(map(str, parts)).encode("utf-8", "surrogateescape"))
