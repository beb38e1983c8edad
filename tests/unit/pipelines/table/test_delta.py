"""The Delta log follows the manifest: after kills between the two commits, beside ghosts, through compaction."""

from pathlib import Path

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from braid.kernel.errors import Fenced
from pipelines.table import delta, directory, manifest
from pipelines.table.reading import open_table
from pipelines.table.writer import TableWriter, commit_staged
from tests.support.table_rows import PRODUCERS, Copy, merge, staged_by_tasks


def open_writer(path: Path) -> TableWriter:
    return TableWriter.open(path, stream="logs", table_format="delta", clock_ms=lambda: 1_000, buckets=4)


def copies(start: int, end: int) -> list[Copy]:
    return [Copy(PRODUCERS[0], sequence, sequence, key=b"%d" % (sequence % 3)) for sequence in range(start, end)]


def sequences(path: Path) -> list[int]:
    """The rows that a reader of Delta sees."""
    return sorted(DeltaTable(path).to_pyarrow_table(columns=["sequence"])["sequence"].to_pylist())


def test_a_reader_of_delta_sees_each_record_once(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    merge(writer, copies(0, 10))
    merge(writer, copies(5, 15))
    assert sequences(tmp_path) == list(range(15))
    assert set(delta.published(tmp_path)) == {file.name for file in writer.manifest.files}


def test_compaction_changes_files_and_no_row(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    for start in range(0, 12, 3):
        merge(writer, copies(start, start + 3))
    assert writer.compact(writer.manifest.files)
    assert len(delta.published(tmp_path)) == 1
    assert sequences(tmp_path) == list(range(12))


def test_a_kill_between_manifest_and_log_is_mended_by_the_next(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    merge(writer, copies(0, 3))
    staged = staged_by_tasks(writer.job(), copies(3, 6), 4)
    commit_staged(tmp_path, writer.manifest.number, staged)  # and dies here
    assert sequences(tmp_path) == list(range(3))
    again = open_writer(tmp_path)
    assert sequences(tmp_path) == list(range(6))
    merge(again, copies(3, 6))
    assert sequences(tmp_path) == list(range(6)) == list(range(open_table(tmp_path).count()))


def test_publishing_twice_does_nothing(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    merge(writer, copies(0, 3))
    version = DeltaTable(tmp_path).version()
    assert not delta.publish(tmp_path, writer.manifest, 2_000)
    assert DeltaTable(tmp_path).version() == version


def test_a_ghost_does_not_turn_the_log_back(tmp_path: Path) -> None:
    ghost = open_writer(tmp_path)
    merge(ghost, copies(0, 3))
    merge(open_writer(tmp_path), copies(3, 6))
    assert not delta.publish(tmp_path, ghost.manifest, 2_000)
    assert sequences(tmp_path) == list(range(6))


def test_a_ghost_that_read_before_and_commits_later_is_refused(tmp_path: Path) -> None:
    """The guarantee behind `publish`: a transaction that is not retried lands on the version it was computed from."""
    writer = open_writer(tmp_path)
    merge(writer, copies(0, 3))
    stale = DeltaTable(tmp_path)
    merge(writer, copies(3, 6))
    properties = CommitProperties(max_commit_retries=0, app_transactions=[Transaction(delta.APPLICATION, 99, 0)])
    with pytest.raises(CommitFailedError):
        stale.create_write_transaction([], "append", stale.schema(), commit_properties=properties)
    assert sequences(tmp_path) == list(range(6))


def test_a_log_that_others_change_meanwhile_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = open_writer(tmp_path)
    merge(writer, copies(0, 3))
    stale = DeltaTable(tmp_path)
    stranger = DeltaTable(tmp_path).to_pyarrow_table()
    write_deltalake(tmp_path, stranger, mode="append")
    monkeypatch.setattr(delta, "_open", lambda _: stale)
    commit_staged(tmp_path, writer.manifest.number, staged_by_tasks(writer.job(), copies(3, 6), 4))
    with pytest.raises(Fenced, match="Delta log"):
        writer.adopt()


def test_a_mutant_publishing_blindly_doubles_nothing_but_is_seen(tmp_path: Path) -> None:
    """The comparison of files, not the number alone, keeps rows from doubling: the manifest is named again in full."""
    writer = open_writer(tmp_path)
    merge(writer, copies(0, 3))
    found = directory.current(tmp_path)
    assert found is not None
    later = manifest.opened(found, "x")
    assert not delta.publish(tmp_path, later, 2_000)
    assert sequences(tmp_path) == list(range(3))
