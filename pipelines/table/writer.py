"""The one writer of a table: opens it, commits what tasks staged, compacts, cleans up.

Killed anywhere: before the commit nothing happened, and what was staged is litter; after it the batch is in, and a
batch that is run again finds every id seen. Paused, or a ghost: its number is taken by whoever opened the table since.
"""

import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from braid.kernel.errors import Invalid
from braid.kernel.limits import TABLE_RETIRED_SECONDS, TABLE_SEEN_BUCKETS, TABLE_SWEEP_COMMITS
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
        """Takes a table, or makes it. From here on no earlier writer can commit.

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
        """What tasks of the next batch merge against."""
        return MergeJob.on(self.directory, self.manifest)

    def commit(self, staged: Sequence[Staged]) -> Manifest:
        """Makes a batch part of the table, whole.

        Args:
            staged: From tasks that ran on the last `job`, one attempt each.

        Raises:
            Fenced: another writer took the table.
        """
        if not any(part.files or part.seen for part in staged):
            return self.manifest  # nothing came
        before = self.manifest
        self._advance(manifest.merged(before, staged))
        replaced = {file.bucket for part in staged for file in part.seen}
        for file in before.seen:
            if file.bucket in replaced:
                (self.directory / file.name).unlink(missing_ok=True)
        if self.manifest.number % TABLE_SWEEP_COMMITS == 0:
            directory.sweep(self.directory, self.manifest)
        return self.manifest

    def compact(self, files: Sequence[DataFile] | None = None) -> bool:
        """Makes one file of several; returns whether it did.

        Args:
            files: Which; None for what `policy.to_compact` finds worth it, if anything.
        """
        chosen = to_compact(self.manifest.files) if files is None else files
        if not chosen:
            return False
        sources = [directory.read_blocks(self.directory / file.name) for file in chosen]
        name = directory.new_name(directory.DATA, self.manifest.number)
        made = directory.write_blocks(self.directory, name, SCHEMA, merge_sorted(sources))
        self._advance(manifest.compacted(self.manifest, chosen, made, self._clock_ms()))
        return True

    def _advance(self, after: Manifest) -> None:
        after = manifest.forgotten(after, self._clock_ms() - round(TABLE_RETIRED_SECONDS * 1_000))
        directory.commit(self.directory, after)
        self.manifest = after
        self._publish()

    def _publish(self) -> None:
        if self.manifest.format == "delta":
            delta.publish(self.directory, self.manifest, self._clock_ms())


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
