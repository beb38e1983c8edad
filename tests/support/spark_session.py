"""Spark for tests: one small local session, with the data source registered."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from braid.spark import BraidDataSource
from devmesh.toolchain.java import java_binary
from pipelines.interpreter import local_python


@contextmanager
def running_spark(directory: Path, *, cores: int = 2) -> Iterator[SparkSession]:
    """A session on `local[cores]`; its files lie in `directory`. Ended afterwards, Java with it."""
    os.environ["JAVA_HOME"] = str(java_binary().resolve().parent.parent)
    os.environ["PYSPARK_PYTHON"] = local_python()
    session = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.driver.memory", "512m")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.local.dir", str(directory / "local"))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    gateway = session.sparkContext._gateway
    try:
        session.dataSource.register(BraidDataSource)
        yield session
    finally:
        session.stop()
        if gateway is not None:
            gateway.shutdown()
            process = gateway.proc
            process.stdin.close()
            process.wait(30)
