"""A Spark session for jobs: small, quiet, in UTC, without a web page; and its workers find this package."""

import os
import sys
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from pipelines.interpreter import local_python
from pipelines.limits import SPARK_ARROW_BATCH_BYTES, SPARK_TASK_ATTEMPTS

DRIVER_MEMORY: Final = "768m"
CORES: Final = 2


def local_master(cores: int = CORES) -> str:
    """Returns Spark's master for this machine; unlike plain `local[n]` it runs a failed task again."""
    return f"local[{cores},{SPARK_TASK_ATTEMPTS}]"


def spark_session(
    name: str, *, master: str = "", driver_memory: str = DRIVER_MEMORY, scratch: str = ""
) -> SparkSession:
    """Starts Spark, or returns the session that runs.

    Args:
        name: Of the application.
        master: Spark's master; `local_master()` when empty.
        driver_memory: Heap of the driver, which in local mode does everything.
        scratch: Directory for shuffles; Spark's own choice when empty.
    """
    where = master or local_master()
    os.environ.setdefault("PYSPARK_PYTHON", local_python() if where.startswith("local") else sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    path = package_path(os.environ.get("PYTHONPATH", ""))
    os.environ["PYTHONPATH"] = path  # planners and local workers inherit it from the driver's JVM
    settings = {
        "spark.driver.memory": driver_memory,
        "spark.executorEnv.PYTHONPATH": path,
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.worker.reuse": "true",
        "spark.sql.adaptive.enabled": "false",  # a merge asks for its tasks by number
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(SPARK_ARROW_BATCH_BYTES),
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.speculation": "false",
    } | ({"spark.local.dir": scratch} if scratch else {})
    builder = SparkSession.builder.appName(name).master(where)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def package_path(inherited: str) -> str:
    """Returns a PYTHONPATH on which `pipelines` is found, wherever it was started from."""
    root = str(Path(__file__).resolve().parent.parent)
    return os.pathsep.join(dict.fromkeys([root, *filter(None, inherited.split(os.pathsep))]))
