"""The Spark sink behind a batch: tasks merge (`table.merging`), and when all have, one process commits.

A sink and not `mapInArrow`, which insists on a library nothing here needs. Spark runs a task again when it fails, asks
one attempt of each for its message, and runs `commit` once all messages are there.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pipelines.table.manifest import Staged, staged_from_json, staged_to_json
from pipelines.table.merging import MergeJob, merge_rows
from pipelines.table.writer import commit_staged

FORMAT: Final = "braid-table"


@dataclass
class Report(WriterCommitMessage):
    """The result of one task: what it staged, as JSON, part by part."""

    staged: Sequence[str]


class TableSink(DataSource):
    """Format `braid-table`: merges sorted buckets into a table. For `pipelines.frames` only, which sorts."""

    @classmethod
    def name(cls) -> str:
        """The name to give to `format`."""
        return FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """A write of one batch."""
        return TableSinkWriter(job_from_options(self.options))


class TableSinkWriter(DataSourceArrowWriter):
    """Runs `write` in workers and `commit` in a process of the driver's machine.

    Args:
        job: What is merged against.
    """

    def __init__(self, job: MergeJob) -> None:
        self._job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Report:
        """Merges a task's buckets."""
        return Report([staged_to_json(part) for part in merge_rows(self._job, iterator)])

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Makes what the tasks staged part of the table. Raises `Fenced` when another writer took it."""
        commit_staged(self._job.directory, self._job.base, list(_staged(messages)))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Does nothing: staged files are litter, and the next opening deletes them."""


def job_to_options(job: MergeJob) -> Mapping[str, str]:
    """Writes a merge job as options, which are text, for Spark's processes."""
    seen = json.dumps({str(bucket): name for bucket, name in job.seen.items()})
    return {"table": str(job.directory), "base": str(job.base), "seen": seen}


def job_from_options(options: Mapping[str, str]) -> MergeJob:
    """Reads a merge job from options."""
    seen = {int(bucket): str(name) for bucket, name in json.loads(options["seen"]).items()}
    return MergeJob(Path(options["table"]), int(options["base"]), seen)


def _staged(messages: Sequence[WriterCommitMessage | None]) -> Iterator[Staged]:
    for message in messages:
        if isinstance(message, Report):
            yield from map(staged_from_json, message.staged)
