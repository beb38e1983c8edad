"""Where letters were sent, in the index: kept with their letters, and no longer."""

from pathlib import Path

import pytest

from services.dlq.index.letter_index import DlqPartition, LetterIndex, Reading
from services.dlq.index.sent_letters import SentLetters
from services.dlq.model.letters import Cursor, LetterPlace
from services.dlq.model.sent_letters import Sending, SentLetter, SentTarget, letter_mark
from tests.unit.dlq.letters import letter

PART = DlqPartition("logs", 1, 0)
READING = Reading("east", "braid.logs.dlq.1", b"topic-1", 0)
TARGET = SentTarget("east", "braid.logs.live.1", 3, b"T" * 16, 4, "indexer", 2)


@pytest.fixture
def index(tmp_path: Path) -> LetterIndex:
    return LetterIndex(tmp_path / "dlq-0.db", "mesh-1")


def sending(offset: int, *, at: int = 700, time_ms: int = 5, target: SentTarget = TARGET) -> Sending:
    return Sending(SentLetter(Cursor(1, 0, offset), 7, target, at), time_ms)


def place(offset: int) -> LetterPlace:
    return LetterPlace("logs", 1, 0, offset)


def test_what_a_history_says_is_found_with_how_far_it_was_read(index: LetterIndex) -> None:
    sent = SentLetters(index)
    other = sending(4, target=TARGET._replace(resets=3))
    sent.write("J1", 12, "logs", [sending(3), other])
    sent.write("J2", 2, "bills", [])
    assert sent.jobs() == {"J1": 12, "J2": 2}
    assert sent.find([place(3), place(4), place(5)]) == {place(3): sending(3), place(4): other}
    assert sent.find([]) == {}


def test_more_places_than_one_query_takes_are_found(index: LetterIndex) -> None:
    sent = SentLetters(index)
    sent.write("J1", 1, "logs", [sending(offset) for offset in range(2_500)])
    assert len(sent.find([place(offset) for offset in range(2_500)])) == 2_500


def test_of_a_letter_sent_twice_the_latest_counts(index: LetterIndex) -> None:
    sent = SentLetters(index)
    sent.write("J2", 1, "logs", [sending(3, at=900, time_ms=9)])
    sent.write("J1", 1, "logs", [sending(3, at=700, time_ms=5)])
    assert sent.find([place(3)])[place(3)].letter.offset == 900
    sent.write("J3", 1, "logs", [sending(3, at=950, time_ms=11)])
    assert sent.find([place(3)])[place(3)].letter.offset == 950


def test_rows_go_with_their_letters(index: LetterIndex) -> None:
    sent = SentLetters(index)
    index.begin(PART, READING)
    index.write(PART, [letter(offset) for offset in range(6)], 6)
    sent.write("J1", 1, "logs", [sending(offset) for offset in range(6)])
    every = [place(offset) for offset in range(6)]
    index.trim(PART, 2)
    assert sorted(sent.find(every)) == every[2:]
    index.begin(PART, READING._replace(next_offset=4))
    assert sorted(sent.find(every)) == every[4:]
    index.drop("logs", 1)
    assert sent.find(every) == {}


def test_letters_that_left_the_log_before_get_no_row(index: LetterIndex) -> None:
    sent = SentLetters(index)
    index.begin(PART, READING._replace(next_offset=3))
    index.write(PART, [letter(4)], 5)
    sent.write("J1", 1, "logs", [sending(offset) for offset in range(7)])
    # What is not read yet may come.
    assert sorted(sent.find([place(offset) for offset in range(7)])) == [place(4), place(5), place(6)]


def test_a_groups_later_letter_of_a_record_shows_it_failed_again(index: LetterIndex) -> None:
    index.begin(PART, READING)
    first, other = letter(1, id="01A"), letter(2, id="01B")
    index.write(PART, [first, other, letter(3, id="01A", replays=1), letter(4, id="01B", replays=1, group="else")], 5)
    assert SentLetters(index).dead_again([first, other]) == {first.place}
    assert SentLetters(index).dead_again([letter(3, id="01A", replays=1)]) == frozenset()


def test_marks_tell_letters_apart_that_had_one_place() -> None:
    assert letter_mark(letter(1)) == letter_mark(letter(1, key=b"k"))
    others = [letter(1, id="01Z"), letter(1, group="g"), letter(1, replays=1), letter(1, time_ms=5)]
    assert len({letter_mark(each) for each in (letter(1), *others)}) == 5
