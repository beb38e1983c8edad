"""Dead letters as tests make them."""

from services.dlq.model.letters import Letter, LetterPlace, Origin


def letter(
    offset: int = 0,
    *,
    stream: str = "logs",
    generation: int = 1,
    partition: int = 0,
    group: str = "indexer",
    error: str = "ValueError",
    message: str = "no number",
    lane: str = "live",
    id: str | None = None,
    attempts: int = 5,
    time_ms: int = 1_770_000_000_000,
    key: bytes | None = b"host-1",
    replays: int = 0,
    quarantine: str = "",
    cut: bool = False,
    value_bytes: int = 10,
    origin_offset: int | None = None,
    topic_id: str = "",
    headers: tuple[tuple[str, str], ...] = (),
) -> Letter:
    """One whose origin has the same offset as its copy, unless said otherwise."""
    at = offset if origin_offset is None else origin_offset
    identity = f"01ARZ:{at}" if id is None else id
    topic = f"braid.{stream}.live.1"
    return Letter(
        place=LetterPlace(stream, generation, partition, offset),
        cluster="east",
        topic=f"braid.{stream}.dlq.{generation}",
        origin=Origin(lane, "east", topic, 0, at, time_ms - 5, 7, identity, time_ms - 9, topic_id),
        group=group,
        attempts=attempts,
        first_failure_ms=time_ms - 3,
        last_failure_ms=time_ms,
        time_ms=time_ms,
        error_class=error,
        error_message=message,
        value_bytes=value_bytes,
        quarantine=quarantine,
        cut=cut,
        replays=replays,
        key=key,
        headers=headers,
    )
