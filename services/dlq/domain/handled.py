"""Whether a group has handled a record that was replayed to it: proof from its commits and the record's log. Pure.

A commit that covers the record's offset is not enough: an offset may be given twice. Two leader epochs prove that the
commit means this record (KIP-101, KIP-320). The sent one was read before the record was sent, so the record was written
under it or a later one. If no later leader began to write at or below the record's offset, the log was never cut there
since: the record lies where it was written. A commit that was made of a log before such a cut knows of earlier epochs
alone, so it has to know of the sent one or a later one.
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
    """What the commit of a group in one partition says.

    Attributes:
        done: Offsets that are done; none of what was rejected in place, or left the log before it was done.
        topic_id: Of the topic that it is about; empty where it does not say.
        leader_epoch: The newest leader epoch among the records that are done; -1 where it does not say.
    """

    done: Ranges
    topic_id: bytes
    leader_epoch: int

    @classmethod
    def of(cls, committed: Committed) -> Self:
        """Reads a commit. One that no member of a mesh made says nothing."""
        decoded = decode(committed.offset, committed.metadata)
        if decoded.kind is not MetadataKind.ENVELOPE:
            return cls(EMPTY, b"", -1)
        fields = decoded.fields
        log = fields.fingerprint
        done = fields.claims - fields.rejected - fields.expired
        return cls(done, log.topic_id if log is not None else b"", newest_epoch(committed))


class LogFacts(NamedTuple):
    """The log of a partition now.

    Attributes:
        topic_id: The topic's own id.
        start: The first offset it still holds.
        epoch_end: Where leaders later than the sent epoch began to write; the log's end where none did.
    """

    topic_id: bytes
    start: int
    epoch_end: int


def proves_handled(sending: Sending, progress: CommittedProgress, log: LogFacts, group: GroupStanding) -> bool:
    """Whether the group is done with the very record that was sent. That it is no dead letter again is not looked at.

    A record that the log no longer holds may have left it undone.
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
    """Whether the dlq lane still holds the record if it became a dead letter again after it was sent."""
    return now_ms - sending.time_ms < retention_hours * _HOUR_MS
