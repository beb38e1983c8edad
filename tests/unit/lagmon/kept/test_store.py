"""Kept lag outlives a kill at every write, a full disk, and damaged files; and it is bounded."""

import errno
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings

from services.lagmon.kept.chunks import chunk_of
from services.lagmon.kept.files import DirectoryFiles, Files, MemoryFiles
from services.lagmon.kept.reading import Query, read_page
from services.lagmon.kept.rows import KeptRow, KeyTable, SeriesKey, Step
from services.lagmon.kept.store import KeptStore, sum_of
from tests.support.examples import examples
from tests.unit.lagmon.kept.kept_steps import KEYS, START_MS, histories, rows_by_hand, step_of, steps_of

FINE_MS, COARSE_MS = 10_000, 300_000
FOREVER_MS = 1 << 45


class Killed(Exception):
    """Raised where the process is killed."""


class Faulty:
    """Files that kill the process at one of its changes, or that a full disk refuses; a write may be half done."""

    bounded_by_memory = False

    def __init__(self, kill_at: int = -1, *, half: bool = False) -> None:
        self.inner = MemoryFiles()
        self.changes = 0
        self.full = False
        self.unreadable = False
        self._kill_at = kill_at
        self._half = half

    def names(self) -> dict[str, int]:
        """See `Files`."""
        if self.unreadable:
            raise OSError(errno.EIO, "Input/output error")
        return self.inner.names()

    def read(self, name: str, offset: int, size: int) -> bytes:
        """See `Files`."""
        return self.inner.read(name, offset, size)

    def write(self, name: str, data: bytes) -> None:
        """See `Files`."""
        self._change()
        self.inner.write(name, data)

    def append(self, name: str, offset: int, data: bytes) -> None:
        """See `Files`."""
        try:
            self._change()
        except (Killed, OSError):
            if self._half:
                self.inner.append(name, offset, data[: len(data) // 2])
            raise
        self.inner.append(name, offset, data)

    def remove(self, name: str) -> None:
        """See `Files`."""
        self._change()
        self.inner.remove(name)

    def _change(self) -> None:
        self.changes += 1
        if self.changes == self._kill_at:
            raise Killed
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")


def keep(store: KeptStore, steps: Sequence[Step]) -> None:
    """Keeps steps as the keeper does."""
    for step in steps:
        closed = store.add(step)
        if closed is not None:
            store.add_sum(sum_of(closed.name, chunk_of(closed.steps)))
        store.remove(store.settle(store.write()))


def rows(store: KeptStore, key: SeriesKey, step_ms: int = FINE_MS, since_ms: int = 0) -> Sequence[KeptRow]:
    """Reads all rows of a series."""
    query = Query(*key, since_ms, FOREVER_MS, step_ms)
    page = read_page(store.sources(store.resolution(step_ms, since_ms), query), query, None, 10)
    assert not page.damaged
    return page.series[0].rows if page.series else ()


def restarted(files: Files) -> KeptStore:
    """A replica that begins with what files hold."""
    store = KeptStore(files, 1 << 30)
    store.restore(START_MS)
    return store


@given(histories())
@settings(max_examples=examples(25))
def test_rows_are_those_that_were_kept(steps: list[Step]) -> None:
    store = KeptStore(MemoryFiles(), 1 << 30)
    keep(store, steps)
    for each in (store, restarted(store.files)):
        for key in KEYS:
            found = tuple(row._replace(stepped=False) for row in rows(each, key))
            assert found == rows_by_hand(steps, key, 0, FOREVER_MS, FINE_MS)


@given(histories())
@settings(max_examples=examples(25))
def test_coarse_rows_sum_up_the_fine(steps: list[Step]) -> None:
    store = KeptStore(MemoryFiles(), 1 << 30)
    keep(store, steps)
    for key in KEYS:
        wanted = rows_by_hand(steps, key, 0, FOREVER_MS, COARSE_MS)
        found = tuple(row._replace(stepped=False) for row in rows(store, key, COARSE_MS))
        assert found == wanted


def test_a_kill_at_any_write_loses_no_written_step() -> None:
    steps = steps_of(66)
    whole = Faulty()
    keep(KeptStore(whole, 1 << 30), steps)
    assert whole.changes > 66
    for kill_at in range(1, whole.changes + 1):
        files = Faulty(kill_at, half=True)
        store = KeptStore(files, 1 << 30)
        taken: list[Step] = []
        with pytest.raises(Killed):
            for step in steps:
                taken.append(step)
                keep(store, [step])
        kept = len(taken) - 1
        again = restarted(files.inner)
        last = rows(again, KEYS[0])[-1].time_ms if rows(again, KEYS[0]) else START_MS - FINE_MS
        assert kept - 1 <= (last - START_MS) // FINE_MS <= kept, kill_at
        keep(again, [step for step in steps if step.time_ms > last])
        assert rows(again, KEYS[0]) == rows_by_hand(steps, KEYS[0], 0, FOREVER_MS, FINE_MS), kill_at
        coarse = rows(again, KEYS[0], COARSE_MS)
        assert coarse == rows_by_hand(steps, KEYS[0], 0, FOREVER_MS, COARSE_MS), kill_at


def test_a_journal_cut_at_any_byte_gives_the_steps_before() -> None:
    files = MemoryFiles()
    keep(KeptStore(files, 1 << 30), steps_of(3))
    (name,) = files.names()
    data = files.read(name, 0, 1 << 20)
    for size in range(len(data)):
        cut = MemoryFiles()
        cut.write(name, data[:size])
        store = restarted(cut)
        count = len(rows(store, KEYS[0]))
        assert count < 3
        later = steps_of(3)[count:]
        keep(store, later)
        assert rows(restarted(cut), KEYS[0]) == rows_by_hand(steps_of(3), KEYS[0], 0, FOREVER_MS, FINE_MS)


@pytest.mark.parametrize("half", [False, True])
def test_a_full_disk_keeps_rows_in_memory_and_says_so(half: bool) -> None:
    steps = steps_of(100)
    files = Faulty(half=half)
    store = KeptStore(files, 1 << 30)
    keep(store, steps[:20])
    files.full = True
    keep(store, steps[20:80])
    assert "No space left" in store.health.trouble
    assert store.health.failures >= 60
    assert len(rows(store, KEYS[0])) == 80
    assert 20 <= len(rows(restarted(files.inner), KEYS[0])) < 30  # what was half written has whole steps too
    files.full = False
    keep(store, steps[80:])
    assert not store.health.trouble
    assert len(rows(restarted(files.inner), KEYS[0])) == 100


def test_a_disk_unreadable_at_the_start_mixes_no_order() -> None:
    files = Faulty()
    keep(KeptStore(files, 1 << 30), steps_of(70))
    files.unreadable = True
    store = KeptStore(files, 1 << 30)
    store.restore(START_MS)
    assert "Input/output error" in store.health.trouble
    keep(store, steps_of(101)[70:])
    files.unreadable = False
    assert rows(restarted(files), KEYS[0]) == rows_by_hand(steps_of(101), KEYS[0], 0, FOREVER_MS, FINE_MS)


def test_a_journal_that_was_removed_is_written_again(tmp_path: Path) -> None:
    store = KeptStore(DirectoryFiles(tmp_path / "kept"), 1 << 30)
    keep(store, steps_of(4))
    for path in (tmp_path / "kept").iterdir():
        path.unlink()
    keep(store, steps_of(6)[4:])
    assert len(rows(restarted(DirectoryFiles(tmp_path / "kept")), KEYS[0])) == 6


def test_the_oldest_chunks_go_for_want_of_room() -> None:
    steps = steps_of(301)
    all_of_it = MemoryFiles()
    keep(KeptStore(all_of_it, 1 << 30), steps)
    chunks = [size for name, size in all_of_it.names().items() if name.startswith("fine") and name.endswith(".lag")]
    assert len(chunks) == 10
    store = KeptStore(MemoryFiles(), 2 * sum(chunks[:4]))
    keep(store, steps)
    found = rows(store, KEYS[0])
    assert 90 < len(found) <= 151
    assert found[-1].time_ms == steps[-1].time_ms
    assert store.since_ms()["fine"] == found[0].time_ms
    assert store.health.dropped >= 5
    assert store.bytes_kept()["fine"] <= sum(chunks[:5])
    assert len(rows(store, KEYS[0], COARSE_MS)) == 11  # the coarse resolution has room


def test_steps_beyond_a_day_go(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("ring", "store"):
        monkeypatch.setattr(f"services.lagmon.kept.{module}.KEPT_LAG_STEPS", 100)
    store = KeptStore(MemoryFiles(), 1 << 30)
    keep(store, steps_of(400))
    assert 100 <= len(rows(store, KEYS[0])) <= 130
    assert not store.health.dropped


def test_a_clock_a_year_ahead_for_a_moment_drops_nothing() -> None:
    steps = steps_of(100)
    ahead = step_of(START_MS + 365 * 86_400_000, {})
    store = KeptStore(MemoryFiles(), 1 << 30)
    keep(store, [*steps[:50], ahead, *steps[50:]])
    assert len(rows(store, KEYS[0])) == 100


def test_a_clock_set_back_across_a_restart_is_said() -> None:
    store = KeptStore(MemoryFiles(), 1 << 30)
    keep(store, steps_of(5, start_ms=START_MS + 60_000))
    again = restarted(store.files)
    keep(again, steps_of(3, start_ms=START_MS + 20_000))
    assert [row.stepped for row in rows(again, KEYS[0])] == [False] * 5 + [True] + [False] * 2


def test_damaged_chunks_are_gaps_and_are_counted() -> None:
    files = MemoryFiles()
    store = KeptStore(files, 1 << 30)
    keep(store, steps_of(70))
    first = min(name for name in files.names() if name.startswith("fine") and name.endswith(".lag"))
    files.write(first, b"no chunk")
    query = Query(*KEYS[0], 0, FOREVER_MS, FINE_MS)
    page = read_page(store.sources(store.resolution(FINE_MS, 0), query), query, None, 10)
    assert page.damaged == 1
    assert len(page.series[0].rows) == 40
    assert len(rows(restarted(files), KEYS[0], COARSE_MS)) == 3


def test_files_of_somebody_else_are_left_alone() -> None:
    files = MemoryFiles()
    for name in ("notes.txt", "fine-1.lag", "fine-x-1-2-3.lag", "other-000000000001-1-2-3.lag", "fine-.journal"):
        files.write(name, b"x")
    keep(restarted(files), steps_of(2))
    assert files.names()["notes.txt"] == 1


def test_a_page_holds_the_first_series_after_one() -> None:
    keys = [SeriesKey(f"g{number:04}", "logs", "live") for number in range(600)]
    store = KeptStore(MemoryFiles(), 1 << 30)
    keep(store, steps_of(31, keys=keys))
    query = Query("", "logs", "", 0, FOREVER_MS, FINE_MS)
    found: list[SeriesKey] = []
    more = True
    while more:
        sources = store.sources(store.resolution(FINE_MS, 0), query)
        page = read_page(sources, query, found[-1] if found else None, 250)
        assert all(len(series.rows) == 31 for series in page.series)
        found += [series.key for series in page.series]
        more = page.more
    assert found == keys


def test_a_range_between_rows_holds_none() -> None:
    steps = [*steps_of(3), *steps_of(3, start_ms=START_MS + 100_000)]
    store = KeptStore(MemoryFiles(), 1 << 30)
    keep(store, steps)
    for since_ms, until_ms in (
        (START_MS + 30_000, START_MS + 100_000),
        (1, START_MS),
        (START_MS + 900_000, FOREVER_MS),
    ):
        query = Query(*KEYS[0], since_ms, until_ms, FINE_MS)
        page = read_page(store.sources(store.resolution(FINE_MS, since_ms), query), query, None, 10)
        assert [series.rows for series in page.series] == [()]


def test_directories_and_files_are_private(tmp_path: Path) -> None:
    directory = tmp_path / "kept"
    keep(KeptStore(DirectoryFiles(directory), 1 << 30), steps_of(31))
    assert directory.stat().st_mode & 0o777 == 0o700
    files = list(directory.iterdir())
    assert len(files) == 3
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_an_unfinished_chunk_file_is_removed(tmp_path: Path) -> None:
    left = tmp_path / ".fine-000000000001-1-2-3.lag.part"
    left.write_bytes(b"half")
    restarted(DirectoryFiles(tmp_path))
    assert not left.exists()


def test_no_series_at_all_is_a_step_too() -> None:
    store = KeptStore(MemoryFiles(), 1 << 30)
    keep(store, [step_of(START_MS + at * FINE_MS, {}) for at in range(40)])
    assert rows(restarted(store.files), KEYS[0]) == ()
    assert KeyTable().positions == {}
