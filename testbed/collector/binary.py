"""Obtains an OpenTelemetry Collector: a build of pinned Go modules with the components of deploy/collector/braid.yml.

Run as `python -m testbed.collector.binary` to have it now, in about a minute. Nothing is installed.
"""

import functools
import hashlib
import shutil
import sys
from pathlib import Path
from typing import Final

from braid.kernel.errors import Unavailable
from devmesh.toolchain.cache import cache_directory, resolving
from devmesh.toolchain.installing import install_command
from devmesh.toolchain.location import print_location
from testbed.prometheus.binaries import run_tool

COLLECTOR_VERSION: Final = "0.165.0"  # of the core; contrib's components have 0.165.1, as the image in compose.yaml

MODULE: Final = Path(__file__).parent
_SOURCES: Final = ("go.mod", "go.sum", "main.go")
_NAME: Final = "collector"


@functools.cache
def collector_binary() -> Path:
    """The collector to run, looked up once per process. The first call on a machine builds it, in about a minute.

    Raises:
        Unavailable: there is no Go, or the build failed.
    """
    return obtain()


def obtain() -> Path:
    """Builds the collector into the user's cache, unless it is there. A concurrent second process waits for the first.

    Raises:
        Unavailable: there is no Go, or the build failed.
    """
    entry = f"{_NAME}-{COLLECTOR_VERSION}-{_sources()}"
    directory = cache_directory() / entry
    with resolving(entry) as work:
        if not directory.exists():
            _build(work / "bin" / _NAME)
            (work / "bin").rename(directory)
    return directory / _NAME


def _sources() -> str:
    """Names what is built: another component or version is another binary."""
    found = hashlib.sha256()
    for name in _SOURCES:
        found.update((MODULE / name).read_bytes())
    return found.hexdigest()[:12]


def _build(output: Path) -> None:
    if shutil.which("go") is None:
        raise Unavailable(
            f"there is no Go to build an OpenTelemetry Collector {COLLECTOR_VERSION} with", remedy=install_command("go")
        )
    flags = ("-trimpath", "-buildvcs=false", "-ldflags=-s -w")
    run_tool(("go", "build", *flags, "-o", str(output), "."), MODULE)


if __name__ == "__main__":
    sys.exit(print_location(collector_binary))
