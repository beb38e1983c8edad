"""Sent letters as columns: both ways, small, and refused where they do not fit each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.api.dlq.v1 import events_pb2 as pb
from braid.kernel.errors import Invalid
from services.dlq.codec.sent_letters import read_sent_letters, sent_letters_message
from services.dlq.model.letters import Cursor
from services.dlq.model.sent_letters import SentLetter, SentTarget

TARGET = SentTarget("east", "braid.logs.live.1", 3, b"T" * 16, 4, "indexer", 2)
LETTERS = (
    SentLetter(Cursor(1, 0, 39), 0xFFFFFFFF, TARGET, 700),
    SentLetter(Cursor(1, 0, 41), 0, TARGET._replace(partition=4), 12),
    SentLetter(Cursor(1, 1, 2), 5, TARGET, 699),
    SentLetter(Cursor(2, 1, 0), 6, TARGET, 701),
)
RELEASED = (
    "0a0408011802" "0a06080110011801" "0a06080210011801"
    "123a" "0a0465617374" "121162726169642e6c6f67732e6c6976652e31" "1803"
    "221054545454545454545454545454545454" "2804" "3207696e6465786572" "3802"
    "123a" "0a0465617374" "121162726169642e6c6f67732e6c6976652e31" "1804"
    "221054545454545454545454545454545454" "2804" "3207696e6465786572" "3802"
    "1a0427020200" "220400010000" "2a05f80a180104" "3210ffffffff000000000500000006000000"
)  # fmt: skip


@st.composite
def some_letters(draw: st.DrawFn) -> tuple[SentLetter, ...]:
    numbers = st.integers(0, (1 << 62) - 1)
    cursors = st.builds(Cursor, st.integers(1, 3), st.integers(0, 2), numbers)
    targets = [TARGET._replace(partition=at, resets=at) for at in range(3)]
    found = draw(st.lists(cursors, unique=True, max_size=20))
    rest = st.tuples(st.integers(0, 0xFFFFFFFF), st.sampled_from(targets), numbers)
    return tuple(SentLetter(cursor, *draw(rest)) for cursor in sorted(found))


@given(some_letters())
def test_letters_survive_the_round_trip(letters: tuple[SentLetter, ...]) -> None:
    data = sent_letters_message(letters).SerializeToString(deterministic=True)
    assert read_sent_letters(pb.SentLetters.FromString(data)) == letters


def test_released_columns_still_mean_the_same() -> None:
    assert read_sent_letters(pb.SentLetters.FromString(bytes.fromhex(RELEASED))) == LETTERS
    assert sent_letters_message(LETTERS).SerializeToString(deterministic=True).hex() == RELEASED


def test_a_full_batch_takes_some_eight_bytes_a_letter() -> None:
    targets = [TARGET._replace(partition=at) for at in range(16)]
    letters = [
        SentLetter(Cursor(1, at // 32, 10_000 + at), 0xFFFFFFFF, targets[at % 16], 1_000_000 + 3 * at)
        for at in range(500)
    ]
    assert sent_letters_message(letters).ByteSize() < 10 * len(letters)


@pytest.mark.parametrize(
    "change",
    [
        {"letter_steps": [1]},
        {"target": [0, 1, 0, 2]},
        {"target": [0, 1, 0, -1]},
        {"marks": []},
        {"offset_steps": [1] * 5},
        {"runs": [pb.SentRun(generation=1, letters=5)]},
        {"runs": [pb.SentRun(generation=1, letters=(1 << 31) - 1)] * 2},
    ],
)
def test_columns_that_do_not_fit_each_other_are_refused(change: dict[str, list[object]]) -> None:
    message = sent_letters_message(LETTERS)
    for field, values in change.items():
        message.ClearField(field)  # type: ignore[arg-type]
        getattr(message, field).extend(values)
    with pytest.raises(Invalid) as raised:
        read_sent_letters(message)
    assert raised.value.field == "sent_letters"
