"""The merged table against a plain model: any batches, repeats, kills between the steps, ghosts; and mutants.

What must hold is stated by `check`, which the mutants turn red.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.kernel.errors import Fenced, Refused
from pipelines.limits import TABLE_RUN_BYTES
from pipelines.table import directory, manifest, seen
from pipelines.table.identity import CHUNK_BITS, CHUNK_SEQUENCES
from pipelines.table.manifest import Manifest
from pipelines.table.merging import MergeJob, merge_rows
from pipelines.table.reading import open_table
from pipelines.table.rows import out_of_order
from pipelines.table.writer import TableWriter
from tests.support.examples import examples
from tests.support.record_identity import Identity, identity_of
from tests.support.table_rows import PRODUCERS, Copy, merge, staged_by_tasks, task_batches

COPIES = st.builds(
    Copy,
    producer=st.sampled_from((*PRODUCERS, "")),
    sequence=st.one_of(st.integers(0, 12), st.integers(CHUNK_SEQUENCES - 2, CHUNK_SEQUENCES + 2)),
    offset=st.integers(0, 12),
    cluster=st.sampled_from(("east", "west")),
    key=st.sampled_from((None, b"", b"a", b"b")),
)
BATCH = st.lists(COPIES, max_size=25)
# What happens to a batch: its driver dies before the commit, or right after; a ghost prepared it; files become one.
FATES = st.sampled_from(("commit", "die before", "die after", "ghost", "compact"))


def open_writer(path: Path) -> TableWriter:
    return TableWriter.open(path, stream="logs", table_format="parquet", clock_ms=lambda: 0, buckets=4)


def identity(copy: Copy) -> Identity:
    return identity_of(copy.id, copy.cluster, "braid.logs.live.1", 0, copy.offset)


def check(path: Path, sent: Sequence[Copy]) -> None:
    """Each record that was sent is there once, nothing besides, in order; and the seen set says exactly that."""
    table = open_table(path)
    rows: Counter[Identity] = Counter()
    for block in table.batches():
        rows.update(map(Identity, block["producer"].to_pylist(), block["sequence"].to_pylist()))
    assert set(rows) == {identity(copy) for copy in sent}, "a record is missing, or nobody sent it"
    assert set(rows.values()) <= {1}, "a record is there twice"
    assert table.count() == len(rows)
    assert list(out_of_order(table.ordered())) == []
    assert sum(block.num_rows for block in table.ordered()) == len(rows)
    assert seen_by(table.path, table.manifest) == set(rows)


def seen_by(path: Path, state: Manifest) -> set[Identity]:
    found = set()
    for file in state.seen:
        for row in pq.read_table(path / file.name).to_pylist():
            lows = seen.decode(row["seen"]).nonzero()[0]
            found |= {Identity(row["producer"], (row["chunk"] << CHUNK_BITS) + int(low)) for low in lows}
    return found


def play(path: Path, story: Sequence[tuple[list[Copy], str]]) -> list[Copy]:
    """Merges batches, each with its fate; returns what was sent."""
    writer, sent = open_writer(path), []
    for batch, fate in story:
        if fate == "die before":
            staged_by_tasks(writer.job(), batch, 4)
            writer = open_writer(path)
        elif fate == "die after":
            merge(writer, batch)
            writer = open_writer(path)
        elif fate == "ghost":
            ghost, staged = writer, staged_by_tasks(writer.job(), batch, 4)
            writer = open_writer(path)
            if batch:
                with pytest.raises(Fenced, match="another writer"):
                    ghost.commit(staged)
        merge(writer, batch)  # Spark runs again what its checkpoint does not hold
        sent += batch
        if fate == "compact":
            writer.compact(writer.manifest.files)
    return sent


@settings(max_examples=examples(25))
@given(st.lists(st.tuples(BATCH, FATES), max_size=5))
def test_each_record_is_there_once_whatever_happens(story: list[tuple[list[Copy], str]]) -> None:
    with TemporaryDirectory() as name:
        check(Path(name), play(Path(name), story))


@settings(max_examples=examples(20))
@given(BATCH, st.lists(BATCH, max_size=3))
def test_merging_again_changes_nothing(first: list[Copy], later: list[list[Copy]]) -> None:
    with TemporaryDirectory() as name:
        path = Path(name)
        writer = open_writer(path)
        for batch in (first, *later):
            merge(writer, batch)
        before = {(row.id, row.cluster, row.offset) for row in open_table(path).ids()}
        for batch in (first, *later):
            merge(writer, batch)
        assert {(row.id, row.cluster, row.offset) for row in open_table(path).ids()} == before


def test_the_other_attempt_of_a_task_is_litter(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    batch = [Copy(PRODUCERS[0], sequence, sequence) for sequence in range(9)]
    staged_by_tasks(writer.job(), batch, 4)  # a speculative attempt, or one whose worker died at its end
    merge(writer, batch)
    check(tmp_path, batch)
    assert directory.sweep(tmp_path, writer.manifest) > 0
    check(tmp_path, batch)
    assert directory.sweep(tmp_path, writer.manifest) == 0


def test_two_tasks_with_one_bucket_are_refused(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    batch = [Copy(PRODUCERS[0], 1, 1)]
    with pytest.raises(Refused, match="two tasks merged one bucket"):
        writer.commit([*staged_by_tasks(writer.job(), batch, 4), *staged_by_tasks(writer.job(), batch, 4)])
    assert open_table(tmp_path).count() == 0


def test_rows_out_of_order_are_refused(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    (batch,) = task_batches([Copy(PRODUCERS[0], 1, 1), Copy(PRODUCERS[0], 2, 2)], 4)
    with pytest.raises(Refused, match="not sorted"):
        list(merge_rows(writer.job(), [batch.take(pa.array([1, 0]))]))


def test_memory_does_not_grow_with_the_batch(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    rows, total = 1_000, 6 * TABLE_RUN_BYTES
    value = bytes(total // rows // 40)
    batches = (
        batch
        for part in range(40)
        for batch in task_batches([Copy("", 0, part * rows + row, value=value) for row in range(rows)], 1)
    )
    pool = pa.default_memory_pool()
    before, peak = pool.bytes_allocated(), 0
    staged = []
    for part in merge_rows(writer.job(), batches):
        peak = max(peak, pool.bytes_allocated() - before)
        staged.append(part)
    assert sum(file.rows for part in staged for file in part.files) == 40 * rows
    assert len([file for part in staged for file in part.files]) >= 6
    assert peak < 2 * TABLE_RUN_BYTES


def test_the_mutant_that_forgets_is_noticed_by_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forget(monkeypatch)
    with pytest.raises(Refused, match="the table's seen set holds"):
        play(tmp_path, [([Copy(PRODUCERS[0], 1, 1)], "commit"), ([Copy(PRODUCERS[0], 1, 2)], "commit")])


def test_the_mutant_that_forgets_turns_the_check_red(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forget(monkeypatch)
    monkeypatch.setattr(manifest, "_check_sums", lambda _: None)
    sent = play(tmp_path, [([Copy(PRODUCERS[0], 1, 1)], "commit"), ([Copy(PRODUCERS[0], 1, 2)], "commit")])
    with pytest.raises(AssertionError, match="twice"):
        check(tmp_path, sent)


def test_a_ghost_that_looked_before_and_commits_after_is_fenced(tmp_path: Path) -> None:
    with pytest.raises(Fenced, match="another writer"):
        race(tmp_path)
    check(tmp_path, [Copy(PRODUCERS[0], 2, 2)])


def test_the_mutant_without_a_fence_turns_the_check_red(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def overwrite(path: Path, state: Manifest) -> None:
        (path / "beside").write_text(manifest.to_json(state))
        (path / "beside").replace(directory.manifest_path(path, state.number))

    monkeypatch.setattr(directory, "commit", overwrite)
    sent = race(tmp_path)
    with pytest.raises(AssertionError, match="missing"):
        check(tmp_path, sent)


def race(path: Path) -> list[Copy]:
    """Two commits stand on one manifest: the first sees it, the second lands, then the first."""
    ghost = open_writer(path)
    late, early = Copy(PRODUCERS[0], 1, 1), Copy(PRODUCERS[0], 2, 2)
    prepared = manifest.merged(ghost.manifest, staged_by_tasks(ghost.job(), [late], 4))
    merge(TableWriter(path, ghost.manifest, lambda: 0), [early])
    directory.commit(path, prepared)
    return [late, early]


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks merge against nothing: only repeats within a batch are noticed."""
    monkeypatch.setattr(MergeJob, "on", lambda path, state: MergeJob(path, state.number, {}))
