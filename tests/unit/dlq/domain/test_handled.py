"""Which commits prove that a replayed record was handled, and which do not."""

import pytest

from braid.kernel.envelope import encode
from braid.kernel.ports import Committed, Fingerprint
from braid.kernel.progress.fields import EnvelopeFields
from braid.kernel.progress.ranges import EMPTY, Ranges
from services.dlq.domain.handled import CommittedProgress, LogFacts, is_recent, proves_handled
from services.dlq.model.group_standing import GroupStanding
from services.dlq.model.letters import Cursor
from services.dlq.model.sent_letters import Sending, SentLetter, SentTarget

TOPIC = b"T" * 16
OFFSET = 70
SENT_MS = 1_000_000
TARGET = SentTarget("east", "braid.logs.live.1", 3, TOPIC, 4, "indexer", 2)
SENDING = Sending(SentLetter(Cursor(1, 0, 9), 7, TARGET, OFFSET), SENT_MS)
LOG = LogFacts(TOPIC, 0, OFFSET + 1)
GROUP = GroupStanding(fenced=True, resets=2, created_ms=SENT_MS)


def committed(
    base: int = OFFSET + 1,
    done: Ranges = EMPTY,
    *,
    epoch: int = 4,
    topic_id: bytes | None = TOPIC,
    rejected: Ranges = EMPTY,
    expired: Ranges = EMPTY,
) -> Committed:
    log = None if topic_id is None else Fingerprint(topic_id, epoch, 0)
    fields = EnvelopeFields(base, done, epoch=9, fingerprint=log, rejected=rejected, expired=expired)
    encoded = encode(fields)
    return Committed(encoded.offset, encoded.metadata, epoch)


def is_proved(
    commit: Committed | None = None, log: LogFacts = LOG, group: GroupStanding = GROUP, sending: Sending = SENDING
) -> bool:
    return proves_handled(sending, CommittedProgress.of(commit or committed()), log, group)


def test_a_base_beyond_the_record_proves_it() -> None:
    assert is_proved()
    assert is_proved(committed(OFFSET + 500, epoch=6), LOG._replace(start=OFFSET, epoch_end=OFFSET + 900))


def test_a_done_range_beyond_the_base_proves_it() -> None:
    assert is_proved(committed(5, Ranges([(OFFSET, OFFSET + 1)])))
    assert not is_proved(committed(5, Ranges([(OFFSET - 9, OFFSET), (OFFSET + 1, OFFSET + 9)])))


@pytest.mark.parametrize(
    "commit",
    [
        Committed(-1, ""),
        Committed(OFFSET + 1, ""),
        Committed(OFFSET + 1, "other tool", 4),
        Committed(OFFSET + 2, committed().metadata, 4),  # the envelope of another offset
        committed(OFFSET),
        committed(topic_id=None),
        committed(topic_id=b"U" * 16),
        committed(epoch=3),
        committed(epoch=-1),
        committed(rejected=Ranges([(OFFSET, OFFSET + 1)])),
        committed(expired=Ranges([(0, OFFSET + 1)])),
    ],
)
def test_a_commit_silent_about_this_record_proves_nothing(commit: Committed) -> None:
    assert not is_proved(commit)


@pytest.mark.parametrize(
    "log",
    [
        LOG._replace(topic_id=b"U" * 16),
        LOG._replace(start=OFFSET + 1, epoch_end=OFFSET + 9),  # it may have left the log undone
        LOG._replace(epoch_end=OFFSET),  # a later leader wrote something else there
        LOG._replace(epoch_end=-1),
    ],
)
def test_another_record_at_the_offset_proves_nothing(log: LogFacts) -> None:
    assert not is_proved(log=log)


@pytest.mark.parametrize(
    "group",
    [
        GROUP._replace(fenced=False),
        GROUP._replace(resets=4),
        GROUP._replace(resets=0),  # registered again, and reset no more
        GROUP._replace(created_ms=SENT_MS + 1),
    ],
)
def test_progress_that_others_may_have_moved_proves_nothing(group: GroupStanding) -> None:
    assert not is_proved(group=group)


def test_a_topic_without_an_id_proves_nothing() -> None:
    sending = SENDING._replace(letter=SENDING.letter._replace(target=TARGET._replace(topic_id=b"")))
    assert not is_proved(committed(topic_id=None), LOG._replace(topic_id=b""), sending=sending)


def test_a_replay_is_recent_while_its_lane_keeps_later_letters() -> None:
    assert is_recent(SENDING, 1, SENT_MS + 3_599_999)
    assert not is_recent(SENDING, 1, SENT_MS + 3_600_000)
    assert not is_recent(SENDING, 0, SENT_MS)
