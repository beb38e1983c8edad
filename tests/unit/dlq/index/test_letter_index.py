"""The index as a file: rows and positions move together, copies count once, and it may be lost at any time."""

import sqlite3
from pathlib import Path

import pytest

from braid.kernel.errors import Unavailable
from braid.kernel.filters.grammar import EVERYTHING
from services.dlq.domain.replay import Replay
from services.dlq.index.letter_index import DlqPartition, LetterIndex, NewestFirst, Reading
from services.dlq.index.selection import next_batch, select_page
from services.dlq.model.events import BatchBegun, Position, ReplaySpec
from services.dlq.model.filter import parse_filter
from services.dlq.model.letters import Cursor, Letter, LetterPlace
from tests.unit.dlq.letters import letter

PART = DlqPartition("logs", 1, 0)
OTHER = DlqPartition("logs", 1, 1)
READING = Reading("east", "braid.logs.dlq.1", b"topic-1", 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "index" / "dlq-0.db"


@pytest.fixture
def index(path: Path) -> LetterIndex:
    made = LetterIndex(path, "mesh-1")
    made.begin(PART, READING)
    made.begin(OTHER, READING)
    return made


def names(letters: object) -> list[str]:
    assert isinstance(letters, list)
    return [str(each.place) for each in letters]


def test_rows_and_position_move_together_and_survive(path: Path, index: LetterIndex) -> None:
    found = letter(3, headers=(("h", "ü"),), key=b"\xff")
    index.write(PART, [found, letter(4, key=None)], 7)
    index.close()
    again = LetterIndex(path, "mesh-1")
    assert again.readings()[PART] == READING._replace(next_offset=7)
    assert again.get(LetterPlace("logs", 1, 0, 3)) == found
    assert again.get(LetterPlace("logs", 1, 0, 5)) is None
    assert again.positions("logs") == [Position(1, 0, 7), Position(1, 1, 0)]


def test_what_is_read_twice_is_there_once(index: LetterIndex) -> None:
    for _ in range(2):
        index.write(PART, [letter(3)], 4)
    assert index.count("logs") == index.count("") == 1


def test_a_failed_write_leaves_neither_rows_nor_position(index: LetterIndex) -> None:
    index.write(PART, [letter(1)], 2)
    with pytest.raises(OverflowError):
        index.write(PART, [letter(2), letter(3, time_ms=1 << 70)], 4)
    assert (index.count(""), index.readings()[PART].next_offset) == (1, 2)


def test_a_write_to_a_partition_dropped_meanwhile_leaves_nothing(index: LetterIndex) -> None:
    index.drop("logs", 1)
    index.write(PART, [letter(1)], 2)
    assert (index.count(""), index.readings()) == (0, {})


def test_different_letters_at_one_offset_are_listed_and_replayed(index: LetterIndex) -> None:
    """A log was cut and written on, or deleted and made anew: its offsets are given a second time."""
    ids = ("01ARZ:1", "01ARZ:2", "01ARZ:2")
    index.write(PART, [letter(at, origin_offset=0, id=id) for at, id in enumerate(ids)], 3)
    assert names(index.newest("logs", None, 10)) == ["logs/1/0/1", "logs/1/0/0"]
    assert (index.count("logs"), index.counts()) == (2, {("logs", "indexer"): 2})
    page = select_page(index, "logs", None, EVERYTHING, [Position(1, 0, 3)])
    assert [each.place.offset for each in page.letters] == [0, 1]


@pytest.mark.parametrize(
    ("logs", "listed"),
    [
        (("a", "a"), [0]),
        (("a", "b"), [0, 1]),
        (("", "a"), [0]),  # an older release died after the acknowledgement, a newer one wrote it again
        (("a", ""), [0]),
        (("a", "", "b"), [0, 2]),
        (("", "a", "b"), [0, 2]),
        (("a", "b", "", "b", "a"), [0, 1]),
    ],
)
def test_letters_without_a_record_id_are_told_apart_by_log(
    index: LetterIndex, logs: tuple[str, ...], listed: list[int]
) -> None:
    letters = [letter(at, origin_offset=0, id="", topic_id=log) for at, log in enumerate(logs)]
    index.write(PART, letters, len(logs))
    assert sorted(each.place.offset for each in index.newest("logs", None, 10)) == listed
    assert index.count("logs") == len(listed)
    page = select_page(index, "logs", None, EVERYTHING, [Position(1, 0, len(logs))])
    assert [each.place.offset for each in page.letters] == listed


def test_rows_leave_with_their_copies(index: LetterIndex) -> None:
    index.write(PART, [letter(n) for n in range(5)], 5)
    index.write(OTHER, [letter(n, partition=1, origin_offset=n + 10) for n in range(5)], 5)
    index.trim(PART, 3)
    assert names([each.letter for each in index.following("logs", None, 100)]) == [f"logs/1/0/{n}" for n in (3, 4)] + [
        f"logs/1/1/{n}" for n in range(5)
    ]
    index.begin(OTHER, READING._replace(topic_id=b"topic-2"))
    assert index.count("") == 2


def test_newest_first_page_by_page_over_streams(index: LetterIndex) -> None:
    bills = DlqPartition("bills", 1, 0)
    index.begin(bills, READING)
    index.write(PART, [letter(n, time_ms=100 + n // 2) for n in range(6)], 6)
    index.write(bills, [letter(n, stream="bills", time_ms=101) for n in range(2)], 2)
    found: list[Letter] = []
    before = None
    while page := index.newest("", before, 3):
        found += page
        before = NewestFirst(page[-1].time_ms, page[-1].place)
    assert found == sorted(found, key=lambda each: (each.time_ms, each.place), reverse=True)
    assert len(found) == index.count("") == 8
    assert len(index.newest("bills", None, 10)) == index.count("bills") == 2
    assert index.counts() == {("bills", "indexer"): 2, ("logs", "indexer"): 6}


def test_of_two_copies_of_a_letter_the_first_by_place_counts(index: LetterIndex) -> None:
    index.write(OTHER, [letter(8, partition=1, origin_offset=5)], 9)
    index.write(PART, [letter(2, origin_offset=5), letter(3, origin_offset=5), letter(4, group="other")], 5)
    assert names(index.newest("logs", None, 10)) == ["logs/1/0/4", "logs/1/0/2"]
    assert index.count("logs") == 2
    index.trim(PART, 3)  # the first copy's retention ends: the next one counts
    assert names(index.newest("logs", None, 10)) == ["logs/1/0/4", "logs/1/0/3"]


def test_counts_leave_out_later_copies_and_follow_every_change(index: LetterIndex) -> None:
    index.write(PART, [letter(n, origin_offset=n // 3, group="a") for n in range(9)], 9)
    index.write(OTHER, [letter(1, partition=1, origin_offset=1, group="a"), letter(2, partition=1, group="b")], 3)
    assert (index.count("logs"), index.count(""), index.count("bills")) == (4, 4, 0)
    assert index.counts() == {("logs", "a"): 3, ("logs", "b"): 1}
    index.trim(PART, 3)
    assert (index.count("logs"), index.counts()) == (3, {("logs", "a"): 2, ("logs", "b"): 1})
    index.drop("logs", 1)
    assert (index.count("logs"), index.counts()) == (0, {})


def test_a_job_takes_the_first_copy_there_at_its_creation(index: LetterIndex) -> None:
    """A copy that comes later and lies earlier must not hide the one the job is about."""
    index.write(OTHER, [letter(8, partition=1, origin_offset=5)], 9)
    through = list(index.positions("logs"))
    index.write(PART, [letter(2, origin_offset=5)], 3)
    assert names(select_page(index, "logs", None, EVERYTHING, through).letters) == ["logs/1/1/8"]
    assert names(select_page(index, "logs", None, EVERYTHING, index.positions("logs")).letters) == ["logs/1/0/2"]


def test_batches_go_by_place_and_an_open_one_stays_the_same(index: LetterIndex) -> None:
    index.write(PART, [letter(n, lane="bulk" if n % 2 else "live") for n in range(10)], 10)
    spec = ReplaySpec("logs", "lane=live")
    job = Replay("J", spec, through=(Position(1, 0, 9),))
    filter = parse_filter(spec.filter, "f")
    assert [each.place.offset for each in next_batch(index, job, filter, 3)] == [0, 2, 4]
    at = Replay("J", spec, through=(Position(1, 0, 9),), cursor=Cursor(1, 0, 4))
    assert [each.place.offset for each in next_batch(index, at, filter, 3)] == [6, 8]
    begun = Replay("J", spec, through=job.through, cursor=Cursor(1, 0, 0), open=BatchBegun(Cursor(1, 0, 6), 3))
    assert [each.place.offset for each in next_batch(index, begun, filter, 1)] == [2, 4, 6]
    over = Replay("J", spec, through=job.through, cursor=Cursor(1, 0, 8))
    assert list(next_batch(index, over, filter, 3)) == []


def test_a_batch_is_bounded_in_bytes_and_has_at_least_one(index: LetterIndex) -> None:
    index.write(PART, [letter(n, value_bytes=10 << 20) for n in range(3)], 3)
    job = Replay("J", ReplaySpec("logs"), through=(Position(1, 0, 3),))
    assert len(next_batch(index, job, EVERYTHING, 500)) == 1


@pytest.mark.parametrize("damage", [b"", b"not a database at all, but long enough to be taken for a file of one" * 40])
def test_a_lost_or_damaged_index_begins_anew(path: Path, index: LetterIndex, damage: bytes) -> None:
    index.write(PART, [letter(1)], 2)
    index.close()
    for each in path.parent.iterdir():
        each.unlink()
    if damage:
        path.write_bytes(damage)
    again = LetterIndex(path, "mesh-1")
    assert (again.count(""), again.readings()) == (0, {})


def test_an_index_of_another_mesh_begins_anew(path: Path, index: LetterIndex) -> None:
    index.write(PART, [letter(1)], 2)
    index.close()
    assert LetterIndex(path, "mesh-2").count("") == 0


def test_another_programs_database_is_replaced(path: Path) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as theirs:
        theirs.execute("CREATE TABLE letters (x)")
    theirs.close()
    assert LetterIndex(path, "mesh-1").count("") == 0


def test_an_index_in_use_is_not_deleted(path: Path, index: LetterIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.dlq.index.letter_index.DLQ_BUSY_SECONDS", 0.01)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable) as refused:
        LetterIndex(path, "mesh-1")
    assert refused.value.field == "index"
    holder.close()
    assert path.exists()


def test_a_full_disk_is_reported_and_stops_writes_until_room(index: LetterIndex) -> None:
    (pages,) = index._connection.execute("PRAGMA page_count").fetchone()
    index._connection.execute(f"PRAGMA max_page_count = {pages}")
    many = [letter(number, headers=(("h", "x" * 1_000),)) for number in range(100)]
    with pytest.raises(Unavailable, match=r"the disk of the index .*dlq-0\.db is full"):
        index.write(PART, many, 100)
    assert (index.count("logs"), index.readings()[PART].next_offset) == (0, 0)
    index._connection.execute(f"PRAGMA max_page_count = {1 << 20}")
    index.write(PART, many, 100)
    assert (index.count("logs"), index.readings()[PART].next_offset) == (100, 100)


def test_an_index_on_a_full_disk_is_not_begun_anew(
    path: Path, index: LetterIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.write(PART, [letter(1)], 2)
    index.close()

    def full(*_: object) -> sqlite3.Connection:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    with monkeypatch.context() as patched, pytest.raises(Unavailable, match="is full"):
        patched.setattr("services.dlq.index.letter_index._open", full)
        LetterIndex(path, "mesh-1")
    assert LetterIndex(path, "mesh-1").count("logs") == 1
