"""The interpreter of Spark's Python processes on this machine: the driver's own, without Spark's archive of sources.

Spark puts that archive first on their path. Nothing in it is compiled, so each process compiles what it imports, which
costs 3.4 s of CPU time instead of 0.9 s before it even connects; and Spark waits 10 s for it, by the wall.
"""

import atexit
import functools
import shlex
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Final

import pyspark

_LAUNCHER: Final = """#!/bin/sh
set -f
kept=
IFS=:
for each in $PYTHONPATH; do
    case $each in
        */pyspark.zip | */py4j-*-src.zip) ;;
        *) kept=${kept:+$kept:}$each ;;
    esac
done
PYTHONPATH=$kept exec {python} "$@"
"""


@functools.cache
def local_python() -> str:
    """Path of a program that starts this interpreter, for `PYSPARK_PYTHON`; it is gone when this process ends.

    The interpreter itself where it has no PySpark of its own, and needs the archive.
    """
    if not Path(pyspark.__file__).is_relative_to(sysconfig.get_path("purelib")):
        return sys.executable
    directory = tempfile.mkdtemp(prefix="braid-python-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    launcher = Path(directory) / "python"
    launcher.write_text(_LAUNCHER.replace("{python}", shlex.quote(sys.executable)))
    launcher.chmod(0o700)
    return str(launcher)
