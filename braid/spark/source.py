"""`BraidDataSource`: the methods that Spark calls, and the process of each (measured on Spark 4.3).

The application's own process runs no code of a data source. `BraidDataSource` is made in a short-lived planner process
and pickled from there; it checks options and opens nothing. A batch read is planned in such a process too. A streaming
query has one planner process that lives as long as it does: there is its lease session (`braid.spark.stream`). Rows are
read and written in reused Python workers (`braid.spark.worker`, `braid.spark.writer`), which see nothing of a planner.
"""

from collections.abc import Mapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from braid.kernel.errors import Invalid
from braid.spark.batch import BatchReader
from braid.spark.options import batch_options, stream_options, write_options
from braid.spark.rows import SCHEMA
from braid.spark.stream import StreamReader
from braid.spark.writer import BatchWriter, StreamWriter, check_frame


class BraidDataSource(DataSource):
    """Format `braid`: reads a stream as a batch or as a member of a group, and writes to one."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Spark calls this, and requires the parameter name `options`."""
        self._options = {name.lower(): value for name, value in options.items()}

    @classmethod
    def name(cls) -> str:
        """The name to give to `format`."""
        return "braid"

    def schema(self) -> StructType:
        """The columns of a read."""
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read. Raises `Invalid` naming the option at fault."""
        _check_schema(schema)
        return BatchReader(batch_options(self._options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A streaming read. Raises `Invalid` or `Unsupported` naming the option at fault."""
        _check_schema(schema)
        return StreamReader(stream_options(self._options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A batch write. Raises `Invalid` naming the option or column at fault."""
        if overwrite:
            raise Invalid("a stream is only appended to", field="mode", remedy='use .mode("append")')
        check_frame(schema)
        return BatchWriter(write_options(self._options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """A streaming write. Raises `Invalid` naming the option or column at fault."""
        if overwrite:
            raise Invalid("a stream is only appended to", field="outputMode", remedy='use .outputMode("append")')
        check_frame(schema)
        return StreamWriter(write_options(self._options))


def _check_schema(schema: StructType) -> None:
    """Raises `Invalid` if the user chose other columns."""
    if schema != SCHEMA:
        raise Invalid("the columns of a stream cannot be chosen", field="schema", remedy="leave `.schema(…)` out")
