"""Index of where jobs sent dead letters, read from the jobs' histories and rebuilt from them if it is lost.

Each history's read position moves in the same transaction as the rows. A row is deleted with its letter. Blocks, like
the index itself.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from braid.kernel.limits.names import PAGE_SIZE_MAX
from services.dlq.index.letter_index import LetterIndex, letter_of
from services.dlq.model.letters import Letter, LetterPlace
from services.dlq.model.sent_letters import Sending, SentLetter, SentTarget

_TARGET: Final = ("cluster", "topic", "partition", "topic_id", "leader_epoch", "owner", "resets")
_ADD_TARGET: Final = f"INSERT OR IGNORE INTO targets ({', '.join(_TARGET)}) VALUES (?, ?, ?, ?, ?, ?, ?)"
_FIND_TARGET: Final = f"SELECT number FROM targets WHERE {' AND '.join(f'{column} = ?' for column in _TARGET)}"
# A letter that left its log before it was written down here has no row, and gets none.
_ADD: Final = """INSERT INTO sent
    SELECT w.* FROM (SELECT ? AS stream, ? AS generation, ? AS partition, ? AS offset, ?, ?, ?, ?) AS w
    WHERE EXISTS (SELECT 1 FROM letters l WHERE l.stream = w.stream AND l.generation = w.generation
                  AND l.partition = w.partition AND l.offset = w.offset)
       OR NOT EXISTS (SELECT 1 FROM positions p WHERE p.stream = w.stream AND p.generation = w.generation
                      AND p.partition = w.partition AND p.next_offset > w.offset)
    ON CONFLICT DO UPDATE SET mark = excluded.mark, target = excluded.target, sent_offset = excluded.sent_offset,
        time_ms = excluded.time_ms WHERE excluded.time_ms >= sent.time_ms"""
_FIND: Final = f"""SELECT s.stream, s.generation, s.partition, s.offset, s.mark, s.sent_offset, s.time_ms,
    {", ".join(f"t.{column}" for column in _TARGET)} FROM sent s JOIN targets t ON t.number = s.target
    WHERE (s.stream, s.generation, s.partition, s.offset) IN (VALUES %s)"""


class SentLetters:
    """Rows about letters that were sent to the group that gave them up; the latest send of each letter counts."""

    def __init__(self, index: LetterIndex) -> None:
        self._index = index

    def jobs(self) -> Mapping[str, int]:
        """The sequence up to which each job's history was read."""
        return dict(self._index.found(_job, "SELECT id, sequence FROM jobs"))

    def write(self, job: str, sequence: int, stream: str, sendings: Iterable[Sending]) -> None:
        """Adds the sends that a job's history records up to an event. Raises `Unavailable` while the disk is full."""
        with self._index.changing() as cursor:
            numbers: dict[SentTarget, int] = {}
            for (place, mark, target, offset), time_ms in sendings:
                if target not in numbers:
                    cursor.execute(_ADD_TARGET, target)
                    numbers[target] = cursor.execute(_FIND_TARGET, target).fetchone()[0]
                cursor.execute(_ADD, (stream, *place, mark, numbers[target], offset, time_ms))
            cursor.execute("INSERT OR REPLACE INTO jobs VALUES (?, ?)", (job, sequence))

    def find(self, places: Sequence[LetterPlace]) -> Mapping[LetterPlace, Sending]:
        """Where and when letters were last sent; letters without a known send are left out."""
        found: dict[LetterPlace, Sending] = {}
        for some in _slices(places):
            query = _FIND % ", ".join(["(?, ?, ?, ?)"] * len(some))
            found |= self._index.found(_sent, query, *chain.from_iterable(some))
        return found

    def dead_again(self, letters: Sequence[Letter]) -> frozenset[LetterPlace]:
        """Letters whose record appears in a later letter of the same group and stream: it failed again after a
        replay."""
        again: set[LetterPlace] = set()
        for letter in letters:
            query = "SELECT body FROM letters WHERE stream = ? AND id = ? AND owner = ?"
            later = self._index.found(letter_of, query, letter.place.stream, letter.record_id, letter.group)
            if any(each.replays > letter.replays for each in later):
                again.add(letter.place)
        return frozenset(again)


def _slices(places: Sequence[LetterPlace]) -> Iterator[Sequence[LetterPlace]]:
    """Splits a list into parts that fit into the arguments of one SQLite query."""
    for start in range(0, len(places), PAGE_SIZE_MAX):
        yield places[start : start + PAGE_SIZE_MAX]


def _job(id: str, sequence: int) -> tuple[str, int]:
    return id, sequence


def _sent(
    stream: str,
    generation: int,
    partition: int,
    offset: int,
    mark: int,
    sent_offset: int,
    time_ms: int,
    *target: object,
) -> tuple[LetterPlace, Sending]:
    place = LetterPlace(stream, generation, partition, offset)
    return place, Sending(SentLetter(place.cursor, mark, SentTarget._make(target), sent_offset), time_ms)
