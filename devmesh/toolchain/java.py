"""Finds the Java that runs Kafka: version 17 or 21, from JAVA_HOME, PATH or where distributions put it.

Run as `python -m devmesh.toolchain.java` to see which.
"""

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from braid.kernel.errors import Unavailable
from devmesh.limits import TOOL_PROBE_SECONDS
from devmesh.toolchain.installing import install_command
from devmesh.toolchain.location import print_location

SUPPORTED: Final = (17, 21)

# For a Spark that lives for minutes (`SPARK_SUBMIT_OPTS` gives it to the driver's JVM): the optimising compiler and the
# concurrent collector cost such a job more CPU time than they save; without them a small one takes half of it.
SHORT_LIVED_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

_JVM_DIRECTORIES: Final = (Path("/usr/lib/jvm"), Path("/opt/homebrew/opt"), Path("/Library/Java/JavaVirtualMachines"))


@functools.cache
def java_binary() -> Path:
    """The `java` to run Kafka with, looked up once per process.

    Raises:
        Unavailable: there is no Java 17 or 21; says what was found instead and how to install one.
    """
    return choose_java(_candidates())


def choose_java(candidates: Iterable[Path]) -> Path:
    """The first candidate of a supported version.

    Args:
        candidates: Executables to ask for their version, in order of preference.

    Raises:
        Unavailable: none fits.
    """
    found = []
    for candidate in candidates:
        version = java_version(candidate)
        if version in SUPPORTED:
            return candidate
        found.append(f"{candidate} is {f'Java {version}' if version else 'no working Java'}")
    what = f"; {', '.join(found)}" if found else ""
    raise Unavailable(
        f"Kafka needs Java 17 or 21 and none was found{what}",
        remedy=f"{install_command('java')}, or point JAVA_HOME at one",
    )


def java_version(binary: Path) -> int | None:
    """The major version a `java` reports, or None when it does not run."""
    match = re.search(r'version "(?:1\.)?(\d+)', java_banner(binary) or "")
    return int(match[1]) if match else None


@functools.cache
def java_banner(binary: Path) -> str | None:
    """Reads the version, build and maker that a `java` reports; None when it does not run. Asked once per process."""
    try:
        answer = subprocess.run(
            [binary, "-version"], capture_output=True, text=True, timeout=TOOL_PROBE_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stderr


def _candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)
    for directory in _JVM_DIRECTORIES:
        yield from sorted(directory.glob("*/bin/java"))
        yield from sorted(directory.glob("*/Contents/Home/bin/java"))


if __name__ == "__main__":
    sys.exit(print_location(java_binary))
