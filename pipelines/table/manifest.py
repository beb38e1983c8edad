"""The state of a table as one value, and its transitions. Pure.

```
(none) ──created──▶ 1 ──opened──▶ 2 ──merged──▶ 3 ──compacted──▶ 4 …
```
Each manifest has the next number, and the directory lets each number be written once (`directory`). So whoever opens a
table writes a manifest, and everything an earlier writer prepared stands on a number that is taken: it can never be
committed. That is the whole fence against zombies, of drivers and of tasks.
"""

import dataclasses
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from braid.kernel.errors import Invalid, Refused, Unsupported

FORM: Final = 1
FORMATS: Final = ("parquet", "delta")


@dataclass(frozen=True)
class DataFile:
    """One Parquet file of rows, sorted by (key, producer, sequence). `name` is relative to the table's directory."""

    name: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class SeenFile:
    """The seen set of one bucket, and how many ids it holds."""

    bucket: int
    name: str
    ids: int
    bytes: int


@dataclass(frozen=True)
class Retired:
    """A file that is no longer part of the table and stays a while for readers that have it open."""

    name: str
    at_ms: int


@dataclass(frozen=True)
class Staged:
    """The files that one task prepared; they are not part of the table until a manifest names them."""

    files: tuple[DataFile, ...] = ()
    seen: tuple[SeenFile, ...] = ()
    repeats: int = 0


@dataclass(frozen=True)
class Manifest:
    """The state of a table at one moment.

    Attributes:
        number: Counts up by one.
        table: Identity of the table, for checkpoints to name.
        stream: Whose records it holds.
        format: `parquet` or `delta`.
        buckets: Of the seen set, fixed at creation.
        writer: Who opened it last.
        rows: In all files.
        repeats: Rows merged away so far.
        files: Data files.
        seen: At most one file a bucket, by bucket.
        retired: By age.
    """

    number: int
    table: str
    stream: str
    format: str
    buckets: int
    writer: str
    rows: int = 0
    repeats: int = 0
    files: tuple[DataFile, ...] = ()
    seen: tuple[SeenFile, ...] = ()
    retired: tuple[Retired, ...] = ()


def created(table: str, stream: str, table_format: str, buckets: int, writer: str) -> Manifest:
    """Returns the first manifest of a table."""
    if table_format not in FORMATS:
        raise Invalid(f"{table_format!r} is not a format", field="format", remedy=f"one of {', '.join(FORMATS)}")
    return Manifest(1, table, stream, table_format, buckets, writer)


def opened(manifest: Manifest, writer: str) -> Manifest:
    """Returns the next manifest: a new writer has opened the table."""
    return dataclasses.replace(manifest, number=manifest.number + 1, writer=writer)


def merged(manifest: Manifest, staged: Sequence[Staged]) -> Manifest:
    """Returns the next manifest: a batch is part of the table.

    Args:
        manifest: What the tasks merged against.
        staged: What all tasks of the batch prepared, one attempt each.

    Raises:
        Refused: the ids of the seen set would not be as many as the rows, or two tasks merged one bucket.
    """
    buckets = [file.bucket for part in staged for file in part.seen]
    if len(buckets) != len(set(buckets)):
        raise Refused(f"two tasks merged one bucket: {sorted(buckets)}", field="table", remedy="report this as a bug")
    seen = {file.bucket: file for file in manifest.seen} | {file.bucket: file for part in staged for file in part.seen}
    files = tuple(file for part in staged for file in part.files)
    after = dataclasses.replace(
        manifest,
        number=manifest.number + 1,
        rows=manifest.rows + sum(file.rows for file in files),
        repeats=manifest.repeats + sum(part.repeats for part in staged),
        files=manifest.files + files,
        seen=tuple(seen[bucket] for bucket in sorted(seen)),
    )
    _check_sums(after)
    return after


def compacted(manifest: Manifest, replaced: Collection[DataFile], made: DataFile, at_ms: int) -> Manifest:
    """Returns the next manifest: some files were replaced by one with the same rows, and are retired."""
    if sum(file.rows for file in replaced) != made.rows:
        raise Refused(f"compacting {len(replaced)} files changed their rows", field="table")
    gone = tuple(Retired(file.name, at_ms) for file in manifest.files if file in replaced)
    return dataclasses.replace(
        manifest,
        number=manifest.number + 1,
        files=(*(file for file in manifest.files if file not in replaced), made),
        retired=manifest.retired + gone,
    )


def forgotten(manifest: Manifest, before_ms: int) -> Manifest:
    """Returns the same number without files retired before a time, which no reader should have open any more."""
    kept = tuple(file for file in manifest.retired if file.at_ms >= before_ms)
    return dataclasses.replace(manifest, retired=kept)


def names_of(manifest: Manifest) -> frozenset[str]:
    """Returns the names of every file that must stay."""
    parts: tuple[tuple[DataFile | SeenFile | Retired, ...], ...] = (manifest.files, manifest.seen, manifest.retired)
    return frozenset(file.name for part in parts for file in part)


def to_json(manifest: Manifest) -> str:
    """Encodes a manifest for storage."""
    return json.dumps({"form": FORM, **dataclasses.asdict(manifest)}, separators=(",", ":"))


def from_json(text: str) -> Manifest:
    """Decodes a stored manifest.

    Raises:
        Unsupported: it is of a later form.
        Refused: it is damaged.
    """
    try:
        document: dict[str, Any] = json.loads(text)
        form = document.pop("form")
        if form != FORM:
            raise Unsupported(f"the table's manifest has form {form}, this release knows {FORM}", field="table")
        manifest = Manifest(
            **{
                **document,
                "files": tuple(DataFile(**file) for file in document["files"]),
                "seen": tuple(SeenFile(**file) for file in document["seen"]),
                "retired": tuple(Retired(**file) for file in document["retired"]),
            }
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(
            f"the table's newest manifest is damaged: {error}",
            field="table",
            remedy="restore its directory from a backup, or build it anew with pipelines.reprocess",
        ) from error
    _check_sums(manifest)
    return manifest


def staged_to_json(staged: Staged) -> str:
    """Encodes staged files for a task's report."""
    return json.dumps(dataclasses.asdict(staged), separators=(",", ":"))


def staged_from_json(text: str) -> Staged:
    """Decodes staged files from a task's report."""
    document = json.loads(text)
    return Staged(
        tuple(DataFile(**file) for file in document["files"]),
        tuple(SeenFile(**file) for file in document["seen"]),
        document["repeats"],
    )


def _check_sums(manifest: Manifest) -> None:
    """Checks at every commit that the seen set is exactly as large as what it was made from."""
    ids, rows = sum(file.ids for file in manifest.seen), sum(file.rows for file in manifest.files)
    if not ids == rows == manifest.rows:
        raise Refused(
            f"the table's seen set holds {ids} ids, its files {rows} rows, its manifest counts {manifest.rows}",
            field="table",
            remedy="it is damaged: build it anew with pipelines.reprocess into another directory",
        )
