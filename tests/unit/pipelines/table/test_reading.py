"""Opening, ordering and damage: what a reader gets, and what it is told."""

from pathlib import Path

import pytest

from braid.kernel.errors import Invalid, NotFound, Refused, Unsupported
from pipelines.limits import TABLE_MANIFESTS_KEPT, TABLE_MERGE_FILES_MAX
from pipelines.table import directory
from pipelines.table.reading import open_table
from pipelines.table.rows import out_of_order
from pipelines.table.writer import TableWriter
from tests.support.table_rows import PRODUCERS, Copy, merge


def open_writer(path: Path, stream: str = "logs", table_format: str = "parquet") -> TableWriter:
    return TableWriter.open(path, stream=stream, table_format=table_format, clock_ms=lambda: 10**6, buckets=4)


def copies(start: int, end: int) -> list[Copy]:
    return [Copy(PRODUCERS[n % 2], n, n, key=None if n % 5 == 0 else b"%d" % (n % 3)) for n in range(start, end)]


def test_rows_come_in_order_from_more_files_than_merge_at_once(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    for start in reversed(range(TABLE_MERGE_FILES_MAX + 2)):
        merge(writer, copies(start * 4, start * 4 + 4))
    table = open_table(tmp_path)
    assert len(table.files()) > TABLE_MERGE_FILES_MAX
    blocks = list(table.ordered(("offset",)))
    assert list(out_of_order(blocks)) == []
    rows = [row for block in blocks for row in block.to_pylist()]
    expected = sorted(
        copies(0, 4 * (TABLE_MERGE_FILES_MAX + 2)), key=lambda c: (c.key is None, c.key or b"", c.producer, c.sequence)
    )
    assert [row["offset"] for row in rows] == [copy.offset for copy in expected]


def test_the_order_check_sees_rows_out_of_order_and_rows_twice(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    merge(writer, copies(0, 4))
    blocks = list(open_table(tmp_path).ordered())
    assert len(list(out_of_order([*blocks, *blocks]))) == 1
    assert len(list(out_of_order([block.take([0, 0]) for block in blocks]))) == 1


def test_a_reader_keeps_its_moment_while_files_are_compacted(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    merge(writer, copies(0, 8))
    merge(writer, copies(8, 16))
    table = open_table(tmp_path)
    assert writer.compact(writer.manifest.files)
    directory.sweep(tmp_path, writer.manifest)
    assert sum(block.num_rows for block in table.batches()) == 16
    assert open_table(tmp_path).count() == 16


def test_a_reader_that_was_too_slow_is_told_to_open_again(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    merge(writer, copies(0, 8))
    table = open_table(tmp_path)
    for path in table.files():
        path.unlink()
    with pytest.raises(NotFound, match="moved on"):
        list(table.batches())


def test_only_the_latest_manifests_are_kept(tmp_path: Path) -> None:
    for _ in range(TABLE_MANIFESTS_KEPT + 5):
        open_writer(tmp_path)
    assert sorted(directory.manifest_numbers(tmp_path)) == list(range(6, TABLE_MANIFESTS_KEPT + 6))


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("{", Refused, "damaged"),
        ("[]", Refused, "damaged"),
        ("{}", Refused, "damaged"),
        ('{"form":1}', Refused, "damaged"),
        ('{"form":2}', Unsupported, "form 2"),
    ],
)
def test_a_manifest_that_is_none_is_refused(tmp_path: Path, text: str, error: type[Exception], says: str) -> None:
    writer = open_writer(tmp_path)
    directory.manifest_path(tmp_path, writer.manifest.number).write_text(text)
    with pytest.raises(error, match=says):
        open_table(tmp_path)


def test_a_manifest_whose_sums_differ_is_refused(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    merge(writer, copies(0, 4))
    path = directory.manifest_path(tmp_path, writer.manifest.number)
    path.write_text(path.read_text().replace('"rows":4', '"rows":3', 1))
    with pytest.raises(Refused, match="the table's seen set holds 4 ids"):
        open_table(tmp_path)


def test_a_table_of_another_stream_or_format_is_refused(tmp_path: Path) -> None:
    open_writer(tmp_path)
    with pytest.raises(Invalid, match="holds the stream 'logs', not 'other'"):
        open_writer(tmp_path, stream="other")
    with pytest.raises(Invalid, match="of format parquet, not delta"):
        open_writer(tmp_path, table_format="delta")


def test_what_is_no_table_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="holds no table"):
        open_table(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(Invalid, match="cannot be written"):
        open_writer(tmp_path / "file")
