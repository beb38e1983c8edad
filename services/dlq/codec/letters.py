"""Dead letters and replays as API messages. No rules."""

from typing import Final, cast

from braid.api.dlq.v1 import dead_letter_pb2 as pb
from braid.api.dlq.v1 import replay_pb2
from braid.kernel.limits.dlq import DLQ_VALUE_BYTES_MAX
from braid.kernel.ports import KafkaRecord
from services.dlq.codec.events import spec_message
from services.dlq.domain.policy import LetterState
from services.dlq.domain.replay import Replay, State
from services.dlq.model.events import ReplaySpec
from services.dlq.model.letters import Letter, traceback_of

_INT32_MAX: Final = (1 << 31) - 1


def letter_message(letter: Letter, replayed_by: list[str], state: LetterState) -> pb.DeadLetter:
    """A letter's message without the record's content."""
    origin = letter.origin
    return pb.DeadLetter(
        name=str(letter.place),
        stream=letter.place.stream,
        cluster=letter.cluster,
        topic=letter.topic,
        partition=letter.place.partition,
        offset=letter.place.offset,
        origin=pb.DeadLetterOrigin(
            lane=origin.lane,
            cluster=origin.cluster,
            topic=origin.topic,
            partition=min(origin.partition, _INT32_MAX),
            offset=origin.offset,
            timestamp_ms=origin.timestamp_ms,
            epoch=origin.epoch,
            id=origin.id,
            ingested_at_ms=origin.ingested_at_ms,
            topic_id=origin.topic_id,
        ),
        group=letter.group,
        attempts=min(letter.attempts, _INT32_MAX),
        first_failure_ms=letter.first_failure_ms,
        last_failure_ms=letter.last_failure_ms,
        error_class=letter.error_class,
        error_message=letter.error_message,
        value_bytes=min(letter.value_bytes, _INT32_MAX),
        quarantine=letter.quarantine,
        replays=min(letter.replays, _INT32_MAX),
        replayed_by=replayed_by,
        state=cast("pb.DeadLetterState.ValueType", state.value),
    )


def content_message(letter: pb.DeadLetter, record: KafkaRecord) -> pb.DeadLetterContent:
    """A letter's message with the record's content, as the copy in the dlq lane holds it."""
    value = None if record.value is None else record.value[:DLQ_VALUE_BYTES_MAX]
    return pb.DeadLetterContent(
        letter=letter,
        key=record.key,
        value=value,
        headers=[pb.Header(name=name, value=value) for name, value in record.headers],
        traceback=traceback_of(record.headers),
    )


def replay_message(state: Replay, etag: str, waits_for: str = "") -> replay_pb2.Replay:
    """A job's message; `waits_for` says why a running job makes no progress."""
    assert state.spec is not None, "only created jobs are shown"
    return replay_pb2.Replay(
        id=state.id,
        spec=spec_message(state.spec),
        status=replay_pb2.ReplayStatus(
            state=cast("replay_pb2.ReplayState.ValueType", state.state.value),
            reason=_reason(state, waits_for),
            matched=state.matched,
            sent=state.sent,
            skipped=state.skipped_letters,
            repeated=state.repeated,
            rate_per_s=_rate(state),
            update_time_ms=state.updated_at_ms,
            end_time_ms=state.ended_at_ms,
        ),
        etag=etag,
        create_time_ms=state.created_at_ms,
    )


def preview_message(spec: ReplaySpec, matched: int) -> replay_pb2.Replay:
    """The answer to a dry run."""
    return replay_pb2.Replay(spec=spec_message(spec), status=replay_pb2.ReplayStatus(matched=matched))


def _reason(state: Replay, waits_for: str) -> str:
    """Why the job waits or failed, and how many letters it skipped for which reason."""
    left_out = "; ".join(f"skipped {each.letters}: {each.reason}" for each in state.skipped)
    now = waits_for if state.state is State.RUNNING else state.reason
    return "; ".join(part for part in (now, left_out) if part)


def _rate(state: Replay) -> float:
    """Records per second from the job's creation to its last progress."""
    seconds = (state.updated_at_ms - state.created_at_ms) / 1000
    return state.sent / seconds if seconds > 0 else 0.0
