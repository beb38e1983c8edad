"""Where a replay sent letters, recorded so that it can be proved later whether their group handled them. Pure."""

import zlib
from typing import NamedTuple

from services.dlq.model.letters import Cursor, Letter


class SentTarget(NamedTuple):
    """A partition that letters of one group were sent to, as it was just before.

    Attributes:
        topic_id: The topic's id; a topic that is created again under the same name has another.
        leader_epoch: The leader epoch then. The records stay in the log as long as no later leader began to write
            before them.
        group: The one group the records are for.
        resets: Number of recorded resets of the group's progress.
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
        cursor: The letter's position within its stream.
        mark: The letter's `letter_mark`.
        offset: The offset of the record that was sent.
    """

    cursor: Cursor
    mark: int
    target: SentTarget
    offset: int


class Sending(NamedTuple):
    """When and where a letter was sent; `time_ms` is the leader's wall clock after the acknowledgement."""

    letter: SentLetter
    time_ms: int


def letter_mark(letter: Letter) -> int:
    """A CRC-32 that distinguishes a letter from another at the same place of a truncated and rewritten dlq log."""
    parts = (letter.group, letter.record_id, letter.replays, letter.time_ms)
    return zlib.crc32("\0".join(map(str, parts)).encode("utf-8", "surrogateescape"))
