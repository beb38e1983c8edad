"""Selects the letters of the index that a replay takes, in its order. Blocks, like the index itself."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from braid.kernel.filters.grammar import Filter
from braid.kernel.limits.dlq import DLQ_SCAN_LETTERS, REPLAY_BATCH_BYTES_MAX
from services.dlq.domain.replay import Replay
from services.dlq.index.conditions import condition_of
from services.dlq.index.letter_index import EarlierCopy, LetterIndex
from services.dlq.model.events import Position
from services.dlq.model.filter import matches
from services.dlq.model.letters import Cursor, Letter, repeats


class Selected(NamedTuple):
    """The letters of one scan that match, and the cursor to continue from; None at the end."""

    letters: Sequence[Letter]
    cursor: Cursor | None


def select_page(
    index: LetterIndex, stream: str, cursor: Cursor | None, filter: Filter, through: Sequence[Position]
) -> Selected:
    """Examines the next letters after the cursor, in log order; of several copies of a letter the first counts."""
    ends = {(each.generation, each.partition): each.next_offset for each in through}
    page = index.following(stream, cursor, DLQ_SCAN_LETTERS, condition_of(filter))
    found = [
        letter
        for letter, first in page
        if _inside(letter.place.cursor, ends) and matches(filter, letter)
        if first or not repeats(letter.log, _logs_inside(index.earlier_copies(letter), ends))
    ]
    return Selected(found, page[-1].letter.place.cursor if len(page) == DLQ_SCAN_LETTERS else None)


def next_batch(index: LetterIndex, replay: Replay, filter: Filter, letters_max: int) -> Sequence[Letter]:
    """The letters a job sends next; if a batch is open, its remaining letters."""
    batch: list[Letter] = []
    weight = 0
    for letter in _all_after(index, replay, filter):
        if replay.open is not None:
            if letter.place.cursor > replay.open.end:
                break
        elif batch and (len(batch) == letters_max or weight + letter.value_bytes > REPLAY_BATCH_BYTES_MAX):
            break
        batch.append(letter)
        weight += letter.value_bytes
    return batch


def _all_after(index: LetterIndex, replay: Replay, filter: Filter) -> Iterator[Letter]:
    assert replay.spec is not None, "a job that runs was created"
    cursor = replay.cursor
    while True:
        page = select_page(index, replay.spec.stream, cursor, filter, replay.through)
        yield from page.letters
        if page.cursor is None:
            return
        cursor = page.cursor


def _logs_inside(copies: Sequence[EarlierCopy], ends: dict[tuple[int, int], int]) -> list[str]:
    return [copy.log for copy in copies if _inside(copy.cursor, ends)]


def _inside(cursor: Cursor, ends: dict[tuple[int, int], int]) -> bool:
    return cursor.offset < ends.get((cursor.generation, cursor.partition), 0)
