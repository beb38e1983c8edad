"""Opens a table for reading: its row count, its files, all rows, or rows in order.

A writer may run beside. Reads only; beside a writer.

```python
table = open_table("events")
table.count()
for batch in table.ordered(): ...            # by (key, producer, sequence)
spark.read.parquet(*map(str, table.files()))  # the files of this moment
```
What is opened is the table of one moment. Files that are replaced stay for `TABLE_RETIRED_SECONDS`; a reader slower
than that gets `NotFound` and opens again.
"""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from braid.kernel.errors import NotFound
from pipelines.limits import TABLE_MERGE_FILES_MAX
from pipelines.table import directory
from pipelines.table.manifest import Manifest
from pipelines.table.rows import COLUMNS, ORDER, SCHEMA, merge_sorted


@dataclass(frozen=True)
class RowId:
    """The identity of a row, and the place of the copy that was kept."""

    id: str | None
    cluster: str
    topic: str
    partition: int
    offset: int


class EventTable:
    """A table as it was at one moment.

    Attributes:
        path: Its directory.
        manifest: Its state.
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest

    def count(self) -> int:
        """Returns how many rows it has: one for each record."""
        return self.manifest.rows

    def files(self) -> list[Path]:
        """Returns its Parquet files."""
        return [self.path / file.name for file in self.manifest.files]

    def batches(self, columns: Sequence[str] = COLUMNS) -> Iterator[pa.Table]:
        """Yields all rows in no order, about `TABLE_BLOCK_BYTES` at a time.

        Raises:
            NotFound: the table moved on and a file is gone.
        """
        for path in self.files():
            yield from self._blocks(path, columns)

    def ids(self) -> Iterator[RowId]:
        """Yields every row's record id and place, in no order, for comparison with a ledger."""
        for block in self.batches(("id", "cluster", "topic", "partition", "offset")):
            columns = (block[name].to_pylist() for name in ("id", "cluster", "topic", "partition", "offset"))
            yield from (RowId(*row) for row in zip(*columns, strict=True))

    def ordered(self, columns: Sequence[str] = COLUMNS) -> Iterator[pa.Table]:
        """Yields all rows by (key, producer, sequence), with the columns of the order.

        Holds one block of at most `TABLE_MERGE_FILES_MAX` files; of more it merges groups into temporary files first.
        """
        wanted = tuple(name for name in COLUMNS if name in {*columns, *ORDER})
        with ExitStack() as stack:
            sources: list[Iterable[pa.Table]] = [self._blocks(path, wanted) for path in self.files()]
            while len(sources) > TABLE_MERGE_FILES_MAX:
                spool = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="braid-ordered-")))
                sources = list(_merged_groups(sources, spool, wanted))
            yield from merge_sorted(sources)

    def _blocks(self, path: Path, columns: Sequence[str]) -> Iterator[pa.Table]:
        try:
            yield from directory.read_blocks(path, columns)
        except FileNotFoundError as error:
            raise NotFound(
                f"{path.name} is gone: the table moved on while it was read", field="table", remedy="open it again"
            ) from error


def open_table(path: str | Path) -> EventTable:
    """Opens a table for reading.

    Args:
        path: Its directory.

    Raises:
        NotFound: there is no table.
        Refused: it is damaged.
    """
    found = directory.current(Path(path))
    if found is None:
        raise NotFound(
            f"{path} holds no table", field="--table", remedy="pipelines.event_store makes one where --table says"
        )
    return EventTable(Path(path), found)


def _merged_groups(
    sources: Sequence[Iterable[pa.Table]], spool: Path, columns: Sequence[str]
) -> Iterator[Iterable[pa.Table]]:
    schema = pa.schema([SCHEMA.field(name) for name in columns])
    for start in range(0, len(sources), TABLE_MERGE_FILES_MAX):
        name = f"{start}.parquet"
        directory.write_blocks(spool, name, schema, merge_sorted(sources[start : start + TABLE_MERGE_FILES_MAX]))
        yield directory.read_blocks(spool / name, columns)
