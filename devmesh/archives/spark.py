"""Spark's JVMs that live for minutes: their options, and the class archive that spares them two fifths of a small job.

Tests and the demo start many. The archive is made by a session that is thrown away, which takes as much as two such
jobs: `python -m devmesh.archives.spark` makes it, nothing else does.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from braid.kernel.errors import BraidError, Unavailable
from devmesh.archives.making import Say, ensure
from devmesh.limits import ARCHIVE_SECONDS
from devmesh.toolchain.class_archive import entry_of, sharing_options
from devmesh.toolchain.java import SHORT_LIVED_JVM, java_binary

PREFIX: Final = "spark-classes-"

# Loads what small jobs need: aggregation, tables, a stream with a function of Python's.
_SESSION: Final = """
import sys
from pyspark.sql import SparkSession
directory = sys.argv[1]
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.warehouse.dir", directory + "/warehouse").config("spark.local.dir", directory)
session = builder.config("spark.sql.shuffle.partitions", "2").config("spark.log.level", "ERROR").getOrCreate()
gateway = session.sparkContext._gateway
sums = session.range(1000).selectExpr("id % 7 as k", "id as v").groupBy("k").sum("v").toDF("k", "v")
sums.write.parquet(directory + "/table")
stream = session.readStream.schema(sums.schema).parquet(directory + "/table").writeStream
stream = stream.foreachBatch(lambda frame, _: frame.write.mode("append").parquet(directory + "/copy"))
stream.option("checkpointLocation", directory + "/checkpoint").trigger(availableNow=True).start().awaitTermination()
assert session.read.parquet(directory + "/copy").count() == 7
session.stop()
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait()
"""
_SAID_CHARACTERS_MAX: Final = 500


def short_lived_options() -> str:
    """Returns the `SPARK_SUBMIT_OPTS` for a Spark that lives for minutes: with the archive where there is one."""
    try:
        options = sharing_options(_entry())
    except (BraidError, OSError):  # whoever starts Spark is told what is wrong with Java
        options = []
    return " ".join([SHORT_LIVED_JVM, *options])


def ensure_spark_archive(say: Say, *, again: bool = False) -> Path | None:
    """The archive, made when missing; see `archiving.ensure_archive`. Raises `Unavailable` where there is no Java."""
    return ensure(_entry(), "Spark", _make, say, again=again)


def spark_jars() -> list[str]:
    """The jars of PySpark's wheel; none if it is not installed."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return []
    return [str(jar) for jar in sorted(Path(spec.origin).parent.glob("jars/*.jar"))]


def _entry() -> Path:
    return entry_of(PREFIX, str(java_binary()), spark_jars())


def _make(work: Path) -> Path:
    archive = work / "classes.jsa"
    home = str(java_binary().resolve().parent.parent)
    options = f"{SHORT_LIVED_JVM} -XX:ArchiveClassesAtExit={archive} -Xlog:cds*=off"
    environment = {**os.environ, "JAVA_HOME": home, "PYSPARK_PYTHON": sys.executable, "SPARK_SUBMIT_OPTS": options}
    command = [sys.executable, "-c", _SESSION, str(work)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=2 * ARCHIVE_SECONDS, env=environment)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"the session did not end within {error.timeout:.0f} s") from error
    if done.returncode or not archive.exists():
        said = done.stderr.strip()[-_SAID_CHARACTERS_MAX:]
        raise Unavailable(f"the JVM wrote none (exit code {done.returncode}): {said}")
    return archive


def main() -> int:
    """Makes the archive unless it is there. Succeeds without one, too; 1 only where Spark cannot run at all."""
    try:
        ensure_spark_archive(lambda line: print(line, flush=True), again=True)
    except BraidError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
