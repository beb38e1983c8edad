"""From a Spark frame of the `braid` source to a committed batch of a table.

It is one job. Every row gets its identity. Spark brings the rows of a bucket together and sorts them (spilling to disk
past its memory). Tasks merge their buckets, and one commit makes them part of the table (`sink`). Spark may run a task
twice: then one attempt reports, and the other's files are litter. The frame is evaluated once.
"""

from typing import NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from pipelines.sink import FORMAT, TableSink, job_to_options
from pipelines.table.identity import CHUNK_BITS, ID_FORM, PRODUCER_LETTERS
from pipelines.table.manifest import Manifest
from pipelines.table.merging import BUCKET
from pipelines.table.rows import COLUMNS
from pipelines.table.writer import TableWriter


class Merged(NamedTuple):
    """The result of a batch: new rows, rows merged away, and the table after it."""

    added: int
    repeats: int
    manifest: Manifest


def merge_frame(frame: DataFrame, writer: TableWriter, tasks: int) -> Merged:
    """Merges a frame into a table, whole or not at all.

    Args:
        frame: Columns as the `braid` source gives them.
        writer: Of the table.
        tasks: How many tasks merge side by side; more than the table's buckets are of no use.

    Raises:
        Fenced: another writer took the table.
    """
    before = writer.manifest
    frame.sparkSession.dataSource.register(TableSink)
    rows = grouped(identified(frame, before.buckets), tasks)
    try:
        rows.write.format(FORMAT).options(**job_to_options(writer.job())).mode("append").save()
    except (PySparkException, Py4JJavaError):
        writer.adopt()  # says so when the reason is another writer
        raise
    after = writer.adopt()
    return Merged(after.rows - before.rows, after.repeats - before.repeats, after)


def identified(frame: DataFrame, buckets: int) -> DataFrame:
    """The columns of the table and `bucket`; `table.identity` says what identifies a record."""
    in_form = f.col("id").rlike(ID_FORM)
    place = f.concat_ws("/", "cluster", "topic", f.col("partition").cast("string"))
    by_id = f.substr(f.col("id"), f.lit(PRODUCER_LETTERS + 2)).cast("bigint")
    rows = frame.withColumns(
        {
            "producer": f.when(in_form, f.substring("id", 1, PRODUCER_LETTERS)).otherwise(place),
            "sequence": f.when(in_form, by_id).otherwise(f.col("offset")),
        }
    )
    return rows.withColumn(BUCKET, _bucket(buckets)).select(*COLUMNS, BUCKET)


def grouped(rows: DataFrame, tasks: int) -> DataFrame:
    """Brings the rows of a bucket together, in the order of merging; of equal identities the same copy is first."""
    order = (BUCKET, "producer", "sequence", "cluster", "topic", "partition", "offset")
    return rows.repartition(tasks, BUCKET).sortWithinPartitions(*order)


def _bucket(buckets: int) -> Column:
    """A chunk of a producer's sequences lies in one bucket, the next in the next: one busy producer keeps all busy."""
    chunk = f.shiftright("sequence", CHUNK_BITS)
    return f.pmod(f.crc32(f.col("producer").cast("binary")) + chunk, f.lit(buckets)).cast("int")
