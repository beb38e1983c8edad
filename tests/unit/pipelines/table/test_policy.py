"""Compaction: few small files remain, and no single one reads without bound."""

from hypothesis import given
from hypothesis import strategies as st

from pipelines.limits import (
    TABLE_COMPACT_BYTES_MAX,
    TABLE_COMPACT_FILES_MAX,
    TABLE_COMPACT_FILES_MIN,
    TABLE_SMALL_BYTES,
)
from pipelines.table.manifest import DataFile
from pipelines.table.policy import tier, to_compact

SIZES = st.lists(st.integers(1, 2 * TABLE_SMALL_BYTES), max_size=80)


def files_of(sizes: list[int]) -> list[DataFile]:
    return [DataFile(f"data/{index}", 1, size) for index, size in enumerate(sizes)]


@given(SIZES)
def test_a_compaction_is_bounded_and_takes_files_of_one_size(sizes: list[int]) -> None:
    chosen = to_compact(files_of(sizes))
    assert len(chosen) <= TABLE_COMPACT_FILES_MAX
    assert sum(file.bytes for file in chosen) <= TABLE_COMPACT_BYTES_MAX
    assert len({tier(file.bytes) for file in chosen}) <= 1
    assert len(chosen) != 1


@given(SIZES)
def test_compacting_until_done_leaves_few_small_files(sizes: list[int]) -> None:
    files = files_of(sizes)
    rounds = 0
    while chosen := to_compact(files):
        rounds += 1
        assert rounds <= len(sizes), "it never ends"
        rest = [file for file in files if file not in chosen]
        files = [*rest, DataFile(f"data/made-{rounds}", 1, sum(file.bytes for file in chosen))]
    small = [file for file in files if file.bytes < TABLE_SMALL_BYTES]
    assert len(small) < TABLE_COMPACT_FILES_MIN * (tier(TABLE_SMALL_BYTES) + 1)
    assert sum(file.bytes for file in files) == sum(sizes)
