"""The one writer of a table: opens it, commits what tasks staged, compacts, cleans up.

If it is killed before a commit, nothing happened and the staged files are litter. After the commit the batch is in the
table, and a batch that is run again finds every id seen. If it was paused, or is a ghost, its number was taken by the
writer that has opened the table since.
"""

import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from braid.kernel.errors import Invalid
from pipelines.limits import TABLE_RETIRED_SECONDS, TABLE_SEEN_BUCKETS, TABLE_SWEEP_COMMITS
from pipelines.table import delta, directory, manifest
from pipelines.table.manifest import DataFile, Manifest, Staged
from pipelines.table.merging import MergeJob
from pipelines.table.policy import to_compact
from pipelines.table.rows import SCHEMA, merge_sorted

ClockMs = Callable[[], int]


class TableWriter:
    """A table open for writing. Made by `open`.

    Attributes:
        directory: Of the table.
        manifest: The table as this writer left it.
    """

    def __init__(self, path: Path, state: Manifest, clock_ms: ClockMs) -> None:
        self.directory = path
        self.manifest = state
        self._clock_ms = clock_ms

    @classmethod
    def open(
        cls, path: Path, *, stream: str, table_format: str, clock_ms: ClockMs, buckets: int = TABLE_SEEN_BUCKETS
    ) -> Self:
        """Opens a table for writing, or makes it. From here on no earlier writer can commit.

        Args:
            path: Its directory.
            stream: Whose records it holds.
            table_format: `parquet` or `delta`.
            clock_ms: Milliseconds since the epoch.
            buckets: Of a new table.

        Raises:
            Invalid: it holds another stream, has another format, or its directory cannot be written.
            Fenced: another writer took it at the same moment.
        """
        found = directory.current(path)
        if found is not None:
            _check(found, path, stream, table_format)
        directory.prepare(path)
        token = secrets.token_hex(8)
        state = (
            manifest.opened(found, token)
            if found is not None
            else manifest.created(secrets.token_hex(16), stream, table_format, buckets, token)
        )
        directory.commit(path, state)
        writer = cls(path, state, clock_ms)
        writer._publish()
        directory.sweep(path, state)
        return writer

    def job(self) -> MergeJob:
        """Returns the job for the tasks of the next batch."""
        return MergeJob.on(self.directory, self.manifest)

    def commit(self, staged: Sequence[Staged]) -> Manifest:
        """Makes a batch part of the table, whole, and adopts the result. See `commit_staged`."""
        commit_staged(self.directory, self.manifest.number, staged)
        return self.adopt()

    def adopt(self) -> Manifest:
        """Adopts what was committed for this writer since the last call; publishes it; cleans up.

        Raises:
            Fenced: another writer took the table.
        """
        before, found = self.manifest, directory.current(self.directory)
        if found is None or found.writer != before.writer or found.number > before.number + 1:
            raise directory.taken(self.directory, before.number + 1)
        self.manifest = found
        self._publish()
        kept = manifest.names_of(found)
        for file in before.seen:
            if file.name not in kept:
                (self.directory / file.name).unlink(missing_ok=True)
        if found.number % TABLE_SWEEP_COMMITS == 0:
            directory.sweep(self.directory, found)
        return found

    def compact(self, files: Sequence[DataFile] | None = None) -> bool:
        """Merges several files into one; returns whether it did.

        Args:
            files: Which; None for what `policy.to_compact` finds worth it, if anything.
        """
        chosen = to_compact(self.manifest.files) if files is None else files
        if not chosen:
            return False
        sources = [directory.read_blocks(self.directory / file.name) for file in chosen]
        name = directory.new_name(directory.DATA, self.manifest.number)
        made = directory.write_blocks(self.directory, name, SCHEMA, merge_sorted(sources))
        now_ms = self._clock_ms()
        after = manifest.compacted(self.manifest, chosen, made, now_ms)
        after = manifest.forgotten(after, now_ms - round(TABLE_RETIRED_SECONDS * 1_000))
        directory.commit(self.directory, after)
        self.adopt()
        return True

    def _publish(self) -> None:
        if self.manifest.format == "delta":
            delta.publish(self.directory, self.manifest, self._clock_ms())


def commit_staged(path: Path, base: int, staged: Sequence[Staged]) -> None:
    """Makes a batch part of the table, whole; does nothing when nothing is staged. May run in any process.

    Args:
        path: Directory of the table.
        base: Number of the manifest the tasks merged against.
        staged: From those tasks, one attempt each.

    Raises:
        Fenced: another writer took the table.
        Refused: what is staged does not fit together.
    """
    if not any(part.files or part.seen for part in staged):
        return
    found = directory.current(path)
    if found is None or found.number != base:
        raise directory.taken(path, base + 1)
    directory.commit(path, manifest.merged(found, staged))


def _check(found: Manifest, path: Path, stream: str, table_format: str) -> None:
    if found.stream != stream:
        raise Invalid(
            f"{path} holds the stream {found.stream!r}, not {stream!r}",
            field="--table",
            remedy=f"name another directory, or --stream {found.stream}",
        )
    if found.format != table_format:
        raise Invalid(
            f"{path} is a table of format {found.format}, not {table_format}",
            field="--format",
            remedy=f"say --format {found.format}, or name another directory",
        )
