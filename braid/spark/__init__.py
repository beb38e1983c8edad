"""Braid as a Spark data source and sink: `spark.dataSource.register(braid.spark.BraidDataSource)`.

Needs the extra `spark` of the distribution. What runs in which process is told in `braid.spark.source`.
"""

from braid.spark.rows import SCHEMA
from braid.spark.source import BraidDataSource

__all__ = ["SCHEMA", "BraidDataSource"]
