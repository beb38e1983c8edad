"""Braid as a Spark data source and sink: `spark.dataSource.register(braid.spark.BraidDataSource)`.

It needs the extra `spark` of the distribution. `braid.spark.source` says which part runs in which process.
"""

from braid.spark.rows import SCHEMA
from braid.spark.source import BraidDataSource

__all__ = ["SCHEMA", "BraidDataSource"]
