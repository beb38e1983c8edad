"""Spark for tests: one small local session, with the data source registered."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from braid.spark import BraidDataSource
from devmesh.toolchain.java import java_binary
from pipelines.interpreter import local_python


@contextmanager
def running_spark(directory: Path, *, cores: int = 2) -> Iterator[SparkSession]:
    """A session on `local[cores]`; its files lie in `directory`. Ended afterwards, Java with it."""
    os.environ["JAVA_HOME"] = str(java_binary().resolve().parent.parent)
    os.environ["PYSPARK_PYTHON"] = local_python()
    settings = {
        "spark.driver.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.local.dir": str(directory / "local"),
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
    }
    conf = SparkConf().setMaster(f"local[{cores}]").setAppName("tests").setAll(list(settings.items()))
    gateway = launch_gateway(conf)  # type: ignore[no-untyped-call]
    try:
        session = SparkSession(SparkContext(conf=conf, gateway=gateway))
        try:
            session.dataSource.register(BraidDataSource)
            yield session
        finally:
            session.stop()
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(30)
        # Spark remembers its Java for good: the next session of this process would call one that has ended.
        SparkContext._gateway = SparkContext._jvm = None
