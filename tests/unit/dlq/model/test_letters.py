"""The contents of dead letters of every tool; and the headers that a replayed record gets back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.errors import Invalid
from braid.kernel.limits.dlq import DLQ_HEADER_BYTES_MAX, DLQ_HEADERS_MAX, DLQ_KEY_BYTES_MAX, DLQ_TEXT_BYTES_MAX
from services.dlq.model.letters import (
    Headers,
    Letter,
    LetterPlace,
    original_headers,
    read_letter,
    replay_headers,
    traceback_of,
)

PLACE = LetterPlace("logs", 3, 1, 42)
BRAID: Headers = [
    ("k", b"v"),
    ("braid-dl-origin-id", b"01ARZ:7"),
    ("braid-dl-origin-ts", b"1700000000000"),
    ("k", b"again"),
    ("braid-replays", b"2"),
    ("braid-replay-group", b"older"),
    ("braid-dl-cluster", b"east"),
    ("braid-dl-topic", b"braid.logs.live.1"),
    ("braid-dl-partition", b"3"),
    ("braid-dl-offset", b"99"),
    ("braid-dl-timestamp", b"1700000000001"),
    ("braid-dl-stream", b"logs"),
    ("braid-dl-lane", b"live"),
    ("braid-dl-group", b"indexer"),
    ("braid-dl-epoch", b"12"),
    ("braid-dl-attempts", b"5"),
    ("braid-dl-first-failure", b"1700000000100"),
    ("braid-dl-last-failure", b"1700000000200"),
    ("braid-dl-error-class", b"ValueError"),
    ("braid-dl-error-message", b"no number"),
    ("braid-dl-traceback", b"Traceback"),
    ("braid-id", b"01COPY:1"),
    ("braid-ts", b"1700000000201"),
    ("braid-lane", b"dlq"),
]


def read(headers: Headers, value: bytes | None = b"value", key: bytes | None = b"key") -> Letter:
    return read_letter(PLACE, "west", "braid.logs.dlq.3", 1_600_000_000_000, key, value, headers)


def test_a_letter_of_our_own() -> None:
    found = read(BRAID)
    origin = found.origin
    assert str(found.place) == "logs/3/1/42"
    assert (origin.lane, origin.cluster, origin.topic, origin.partition) == ("live", "east", "braid.logs.live.1", 3)
    assert (origin.offset, origin.timestamp_ms, origin.epoch) == (99, 1_700_000_000_001, 12)
    assert (origin.id, origin.ingested_at_ms) == ("01ARZ:7", 1_700_000_000_000)
    assert (found.group, found.attempts, found.error_class) == ("indexer", 5, "ValueError")
    assert (found.first_failure_ms, found.last_failure_ms) == (1_700_000_000_100, 1_700_000_000_200)
    assert (found.time_ms, found.value_bytes, found.replays) == (1_700_000_000_200, 5, 2)
    assert (found.quarantine, found.cut, found.key) == ("", False, b"key")
    assert found.headers == (("k", "v"), ("k", "again"))
    assert traceback_of(BRAID) == "Traceback"


def test_a_replayed_record_has_its_identity_and_no_death_marks() -> None:
    headers = replay_headers(read(BRAID), original_headers(BRAID), "indexer")
    assert headers == [
        ("k", b"v"),
        ("k", b"again"),
        ("braid-id", b"01ARZ:7"),
        ("braid-ts", b"1700000000000"),
        ("braid-replays", b"3"),
        ("braid-replay-group", b"indexer"),
    ]
    assert "braid-replay-group" not in dict(replay_headers(read(BRAID), original_headers(BRAID), ""))


def test_a_record_without_identity_gets_the_one_consumers_used() -> None:
    headers = [header for header in BRAID if not header[0].startswith("braid-dl-origin")]
    again = dict(replay_headers(read(headers), original_headers(headers), ""))
    assert again["braid-id"] == b"east/braid.logs.live.1/3/99"
    assert again["braid-ts"] == b"1700000000001"


def test_a_cut_letter_and_a_quarantined_one() -> None:
    cut = read([*BRAID, ("braid-dl-cut", b"123456")])
    assert (cut.cut, cut.value_bytes) == (True, 123_456)
    bomb = read([*BRAID, ("braid-dl-quarantine", b"decompression bomb")], value=None, key=None)
    assert (bomb.quarantine, bomb.value_bytes, bomb.key) == ("decompression bomb", 0, None)


def test_only_copies_of_one_letter_share_an_identity() -> None:
    again = [header for header in BRAID if header[0] != "braid-dl-epoch"]
    other_group = [(name, b"other" if name == "braid-dl-group" else value) for name, value in BRAID]
    assert read(BRAID).identity == read(again).identity != ""
    assert read(other_group).identity not in ("", read(BRAID).identity)
    assert read([]).identity == ""


def with_header(name: str, value: bytes, headers: Headers = BRAID) -> Headers:
    """The same headers with another value of one, or with one more."""
    return [*[header for header in headers if header[0] != name], (name, value)]


NO_ID: Headers = [header for header in BRAID if not header[0].startswith(("braid-dl-origin", "braid-replays"))]


def test_another_record_at_a_lost_ones_offset_has_its_own_letter() -> None:
    resent = with_header("braid-dl-origin-id", b"01ARZ:8")
    assert read(BRAID).identity != read(resent).identity
    assert read(BRAID).identity != read(with_header("braid-replays", b"3")).identity
    assert read(NO_ID).identity == read(with_header("braid-dl-attempts", b"7", NO_ID)).identity
    later = with_header("braid-dl-timestamp", b"1700000000009", NO_ID)
    others = [read(later), read(NO_ID, key=b"other"), read(NO_ID, value=b"other value"), read(BRAID)]
    assert len({read(NO_ID).identity, *(each.identity for each in others)}) == 5


def test_a_letter_names_its_records_log_where_that_is_known() -> None:
    told = with_header("braid-dl-topic-id", b"0123456789abcdef0123456789abcdef", NO_ID)
    assert read(told).origin.topic_id == "0123456789abcdef0123456789abcdef"
    assert (read(NO_ID).log, read(NO_ID).origin.topic_id) == ("", "")
    assert (read(told).log, read(told).identity) == (read(told).origin.topic_id, read(NO_ID).identity)
    with_id = with_header("braid-dl-topic-id", b"0123456789abcdef0123456789abcdef")
    assert read(with_id).log == "", "an id is of one record, in whatever log: older letters say no log"


def test_a_cut_and_a_whole_copy_of_one_record_are_one_letter() -> None:
    cut = with_header("braid-dl-cut", b"5", NO_ID)
    assert read(cut, value=b"va").identity == read(NO_ID).identity


def test_letters_of_spring_are_understood() -> None:
    headers = [
        ("kafka_dlt-original-topic", b"orders"),
        ("kafka_dlt-original-partition", (4).to_bytes(4, "big")),
        ("kafka_dlt-original-offset", (1234).to_bytes(8, "big")),
        ("kafka_dlt-original-timestamp", (1_700_000_000_000).to_bytes(8, "big")),
        ("kafka_dlt-original-consumer-group", b"billing"),
        ("kafka_dlt-exception-fqcn", b"org.springframework.kafka.listener.ListenerExecutionFailedException"),
        ("kafka_dlt-exception-message", b"Listener failed"),
        ("kafka_dlt-exception-stacktrace", b"at com.example"),
        ("own", b"x"),
    ]
    found = read(headers)
    assert (found.origin.topic, found.origin.partition, found.origin.offset) == ("orders", 4, 1234)
    assert (found.group, found.error_message, found.origin.timestamp_ms) == (
        "billing",
        "Listener failed",
        1_700_000_000_000,
    )
    assert found.error_class.endswith("ListenerExecutionFailedException")
    assert found.time_ms == 1_600_000_000_000
    assert traceback_of(headers) == "at com.example"
    assert original_headers(headers) == [("own", b"x")]


def test_letters_of_connect_are_understood() -> None:
    headers = [
        ("__connect.errors.topic", b"orders"),
        ("__connect.errors.partition", b"4"),
        ("__connect.errors.offset", b"1234"),
        ("__connect.errors.connector.name", b"sink"),
        ("__connect.errors.exception.class.name", b"org.apache.kafka.connect.errors.DataException"),
        ("__connect.errors.exception.message", b"no schema"),
    ]
    found = read(headers)
    assert (found.origin.topic, found.origin.partition, found.origin.offset) == ("orders", 4, 1234)
    assert (found.group, found.error_message) == ("sink", "no schema")


def test_what_nobody_understands_is_a_letter_with_an_empty_error() -> None:
    found = read([("x", b"y")])
    assert (found.error_class, found.group, found.origin.offset, found.headers) == ("", "", -1, (("x", "y"),))


HOSTILE = st.lists(
    st.tuples(
        st.sampled_from([*dict(BRAID), "braid-dl-cut", "kafka_dlt-original-offset", "__connect.errors.offset", "h"]),
        st.none() | st.binary(max_size=40) | st.just(b"9" * 400) | st.just(b"\xff" * 5_000) | st.just(b"-1"),
    ),
    max_size=60,
)


@given(HOSTILE, st.binary(max_size=4_000))
def test_hostile_headers_cost_little_and_break_nothing(headers: Any, key: bytes) -> None:
    found = read(headers, key=key)
    assert len(found.headers) <= DLQ_HEADERS_MAX
    assert all(len(value) <= DLQ_HEADER_BYTES_MAX for _, value in found.headers)
    assert len(found.key or b"") <= DLQ_KEY_BYTES_MAX
    assert len(found.error_message) <= DLQ_TEXT_BYTES_MAX
    numbers = (found.attempts, found.time_ms, found.replays, found.value_bytes, found.origin.epoch)
    assert all(-(1 << 63) <= number < 1 << 63 for number in (*numbers, found.origin.offset, found.origin.partition))
    again = replay_headers(found, original_headers(headers), found.group)
    assert all(isinstance(value, bytes) for _, value in again)
    traceback_of(headers)


def test_a_header_without_a_value_is_an_empty_one() -> None:
    bare: Any = [("own", None), *BRAID, ("kafka_dlt-original-offset", None)]
    assert replay_headers(read(bare), original_headers(bare), "")[0] == ("own", b"")
    assert read(bare).headers[0] == ("own", "")


def test_names_are_read_and_refused() -> None:
    assert LetterPlace.parse("logs/3/1/42") == PLACE
    for name in ("", "logs", "logs/3/1", "logs/3/1/x", "LOGS/3/1/4", "logs/3/1/-4", f"logs/3/1/{'9' * 30}"):
        with pytest.raises(Invalid) as refused:
            LetterPlace.parse(name)
        assert refused.value.field == "name"
