"""Files of a table, and the one atomic step.

```
DIR/data/<base>-<token>.parquet           rows
DIR/_braid/seen/<base>-<token>.parquet    seen sets
DIR/_braid/manifest-<number>.json         the table: the highest number counts
DIR/_delta_log/                           the same data files for readers of Delta, where asked for
```
A manifest is written beside, synced, and linked to its name: `link(2)` fails when the name is taken, on every POSIX
filesystem, so each number is written once and whole. `<base>` is the manifest a file was prepared on; it can only
become part of the table in the manifest after that. A file whose base is over and which no manifest names is litter.
"""

import os
import re
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from braid.kernel.errors import Fenced, Invalid, NotFound
from pipelines.limits import TABLE_BLOCK_BYTES, TABLE_MANIFESTS_KEPT, TABLE_ROW_GROUP_BYTES
from pipelines.table.manifest import DataFile, Manifest, from_json, names_of, to_json
from pipelines.table.rows import COLUMNS, SCHEMA, rows_of_bytes

DATA: Final = "data"
STATE: Final = "_braid"
SEEN: Final = "_braid/seen"

_MANIFEST: Final = re.compile(r"manifest-(\d{12})\.json")
_BASE: Final = re.compile(r"(\d{12})-[0-9a-f]+\.parquet")
_READ_AGAIN: Final = 3  # a manifest may be cleared between the listing and the reading, if many are written meanwhile


def prepare(directory: Path) -> None:
    """Makes the directories of a table.

    Raises:
        Invalid: they cannot be made or written.
    """
    try:
        for name in (DATA, SEEN):
            (directory / name).mkdir(parents=True, exist_ok=True)
        probe = directory / STATE / f".probe-{secrets.token_hex(4)}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise Invalid(
            f"{directory} cannot be written: {error.strerror}", field="--table", remedy="name a directory you may write"
        ) from error


def current(directory: Path) -> Manifest | None:
    """Returns the table's newest manifest; None when there is no table.

    Raises:
        Refused: it is damaged.
    """
    for _ in range(_READ_AGAIN):
        numbers = manifest_numbers(directory)
        if not numbers:
            return None
        try:
            return from_json(manifest_path(directory, max(numbers)).read_text())
        except FileNotFoundError:
            continue
    raise NotFound(f"the manifests of {directory} vanish while they are read", field="--table")


def commit(directory: Path, manifest: Manifest) -> None:
    """Makes a manifest the table's state: all of it, or nothing.

    Raises:
        Fenced: another writer took the number.
    """
    path = manifest_path(directory, manifest.number)
    beside = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    for name in (DATA, SEEN):
        _sync(directory / name)  # what the manifest names is there before it
    with beside.open("w") as file:
        file.write(to_json(manifest))
        file.flush()
        os.fsync(file.fileno())
    try:
        path.hardlink_to(beside)
    except (FileExistsError, FileNotFoundError) as error:  # taken; or our file was swept by whoever took it
        raise taken(directory, manifest.number) from error
    finally:
        beside.unlink(missing_ok=True)
    _sync(path.parent)


def taken(directory: Path, number: int) -> Fenced:
    """Returns the error for a writer that has lost the table."""
    return Fenced(
        f"another writer has taken the table {directory} (manifest {number} is not ours)",
        field="--table",
        remedy="one job at a time writes a table: end the other, or give this one a table of its own",
    )


def new_name(folder: str, base: int) -> str:
    """Returns a unique name for a file prepared on a manifest."""
    return f"{folder}/{base:012d}-{secrets.token_hex(8)}.parquet"


def write_blocks(directory: Path, name: str, schema: pa.Schema, blocks: Iterable[pa.Table]) -> DataFile:
    """Writes a Parquet file a block at a time and syncs it.

    Returns:
        Its name, rows and bytes.
    """
    path = directory / name
    rows = 0
    with path.open("wb") as file:
        with pq.ParquetWriter(file, schema, compression="zstd") as writer:
            for block in blocks:
                size = rows_of_bytes(block.num_rows, block.nbytes, TABLE_ROW_GROUP_BYTES)
                writer.write_table(block, row_group_size=size)
                rows += block.num_rows
        sync_file(file)
    return DataFile(name, rows, path.stat().st_size)


def read_blocks(path: Path, columns: Iterable[str] = COLUMNS) -> Iterator[pa.Table]:
    """Yields the rows of a data file, about `TABLE_BLOCK_BYTES` at a time."""
    with pq.ParquetFile(path) as file:
        wanted = [column for column in COLUMNS if column in set(columns)]
        groups = (file.metadata.row_group(index) for index in range(file.metadata.num_row_groups))
        size = sum(group.total_byte_size for group in groups)
        block_rows = rows_of_bytes(file.metadata.num_rows, size, TABLE_BLOCK_BYTES)
        for batch in file.iter_batches(batch_size=block_rows, columns=wanted):
            yield pa.Table.from_batches([batch]).cast(pa.schema([SCHEMA.field(name) for name in wanted]))


def sweep(directory: Path, manifest: Manifest) -> int:
    """Deletes files that are not part of the table and never will be; returns how many.

    Safe beside zombies: files that stand on an earlier manifest and are not named by this one can never be committed.
    """
    keep = names_of(manifest)
    gone = 0
    for folder in (DATA, SEEN):
        for path in (directory / folder).iterdir():
            found = _BASE.fullmatch(path.name)
            if found and int(found[1]) < manifest.number and f"{folder}/{path.name}" not in keep:
                path.unlink(missing_ok=True)
                gone += 1
    for number in manifest_numbers(directory):
        if number <= manifest.number - TABLE_MANIFESTS_KEPT:
            manifest_path(directory, number).unlink(missing_ok=True)
    for left in (directory / STATE).glob(".manifest-*"):
        left.unlink(missing_ok=True)
    return gone


def manifest_numbers(directory: Path) -> list[int]:
    """Returns the numbers of the manifests that are kept, in no order."""
    if not (directory / STATE).is_dir():
        return []
    found = (_MANIFEST.fullmatch(path.name) for path in (directory / STATE).iterdir())
    return [int(match[1]) for match in found if match]


def manifest_path(directory: Path, number: int) -> Path:
    """Returns the path of a manifest."""
    return directory / STATE / f"manifest-{number:012d}.json"


def sync_file(file: BinaryIO) -> None:
    """Writes an open file through to the disk."""
    file.flush()
    os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
