"""Proves from a group's commit and the partition's log that the group handled a replayed record. Pure.

A commit that covers the record's offset is not enough: a truncated log assigns the same offset again. Two leader epochs
prove that the commit means this record (KIP-101, KIP-320).

- The first epoch was read just before the record was sent, so the record was written under it or a later one. If no
  later leader began to write at or below the record's offset, the log was never truncated there since, and the record
  is still where it was written.
- A commit made before such a truncation knows only earlier epochs. So the commit must name the sent epoch or a later
  one.
"""

from typing import Final, NamedTuple, Self

from braid.kernel.envelope import MetadataKind, decode
from braid.kernel.envelope.epochs import newest_epoch
from braid.kernel.ports import Committed
from braid.kernel.progress.ranges import EMPTY, Ranges
from services.dlq.model.group_standing import GroupStanding
from services.dlq.model.sent_letters import Sending

_HOUR_MS: Final = 3_600_000


class CommittedProgress(NamedTuple):
    """The commit of one group in one partition.

    Attributes:
        done: Offsets that are done, without those rejected in place or deleted by retention before they were done.
        topic_id: Id of the topic that the commit is about; empty if the commit does not say.
        leader_epoch: Newest leader epoch among the done records; -1 if the commit does not say.
    """

    done: Ranges
    topic_id: bytes
    leader_epoch: int

    @classmethod
    def of(cls, committed: Committed) -> Self:
        """Reads a commit. A commit that no mesh member wrote has no done offsets."""
        decoded = decode(committed.offset, committed.metadata)
        if decoded.kind is not MetadataKind.ENVELOPE:
            return cls(EMPTY, b"", -1)
        fields = decoded.fields
        log = fields.fingerprint
        done = fields.claims - fields.rejected - fields.expired
        return cls(done, log.topic_id if log is not None else b"", newest_epoch(committed))


class LogFacts(NamedTuple):
    """The state of a partition's log now.

    Attributes:
        topic_id: The topic's id.
        start: First offset the log still holds.
        epoch_end: First offset written by a leader later than the sent epoch; the log's end if there is none.
    """

    topic_id: bytes
    start: int
    epoch_end: int


def proves_handled(sending: Sending, progress: CommittedProgress, log: LogFacts, group: GroupStanding) -> bool:
    """Whether the group is done with exactly the record that was sent. Does not check for a later dead letter.

    Returns False for a record that the log no longer holds: retention may have deleted it before it was handled.
    """
    sent = sending.letter
    target, offset = sent.target, sent.offset
    same_topic = bool(target.topic_id) and target.topic_id == log.topic_id == progress.topic_id
    moved_by_hand = group.resets != target.resets or group.created_ms > sending.time_ms
    return (
        same_topic
        and log.start <= offset < log.epoch_end
        and progress.leader_epoch >= target.leader_epoch
        and offset in progress.done
        and group.fenced
        and not moved_by_hand
    )


def is_recent(sending: Sending, retention_hours: int, now_ms: int) -> bool:
    """Whether the dlq lane still holds the record's dead letter, if it failed again after it was sent."""
    return now_ms - sending.time_ms < retention_hours * _HOUR_MS
