"""Finds an etcd server of a sound version on PATH, else builds the pinned one with Go into the user's cache.

Run as `python -m devmesh.toolchain.etcd_binary` to have one now.
"""

import functools
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from braid.kernel.errors import Unavailable
from devmesh.limits import TOOL_PROBE_SECONDS, TOOL_RESOLVE_SECONDS
from devmesh.toolchain.cache import cache_directory, resolving
from devmesh.toolchain.installing import install_command
from devmesh.toolchain.location import print_location

ETCD_VERSION: Final = "3.7.3"

_ENTRY: Final = f"etcd-{ETCD_VERSION}"
_MODULE: Final = Path(__file__).with_name("etcd")
# Older patches of these lines read stale data after a pause, have holes in their access control, or let clients that
# stall in the TLS handshake keep everybody else out.
_SOUND_FROM: Final = {(3, 5): 33, (3, 6): 14, (3, 7): 1}
SOUND_VERSIONS: Final = ", ".join(f"{major}.{minor}.{patch}" for (major, minor), patch in _SOUND_FROM.items())


@functools.cache
def etcd_binary() -> Path:
    """The etcd server to run, looked up once per process; the first call on a machine may build it (about a minute).

    Raises:
        Unavailable: none of a sound version is installed, and it could not be built.
    """
    on_path = shutil.which("etcd")
    if on_path and is_sound(etcd_version(Path(on_path))):
        return Path(on_path)
    built = cache_directory() / _ENTRY / "etcd"
    return built if built.exists() else build_etcd()


def build_etcd() -> Path:
    """Builds the pinned etcd into the cache, unless it is there. A concurrent second builder waits for the first.

    Raises:
        Unavailable: Go is missing, or the build failed.
    """
    directory = cache_directory() / _ENTRY
    with resolving(_ENTRY) as work:
        if not directory.exists():
            output = work / "bin"
            _run_go(output / "etcd")
            output.rename(directory)
    return directory / "etcd"


def etcd_version(binary: Path) -> tuple[int, int, int] | None:
    """The version an `etcd` reports, or None when it does not run."""
    try:
        answer = subprocess.run(
            [binary, "--version"], capture_output=True, text=True, timeout=TOOL_PROBE_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"etcd Version: (\d+)\.(\d+)\.(\d+)", answer.stdout)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def is_sound(version: tuple[int, int, int] | None) -> bool:
    """Whether Braid may trust a version with its histories."""
    if version is None or version[:2] < min(_SOUND_FROM):
        return False
    return version[2] >= _SOUND_FROM.get(version[:2], 0)


def _run_go(output: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise Unavailable(
            f"no etcd on PATH is as new as one of {SOUND_VERSIONS}, and there is no Go to build {ETCD_VERSION}",
            remedy=install_command("go"),
        )
    command = [go, "build", "-trimpath", "-buildvcs=false", "-o", str(output), "."]
    try:
        answer = subprocess.run(command, cwd=_MODULE, capture_output=True, text=True, timeout=TOOL_RESOLVE_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"`go build` of etcd {ETCD_VERSION} took more than {error.timeout:.0f} s") from error
    if answer.returncode:
        tail = "\n".join(answer.stderr.splitlines()[-12:])
        raise Unavailable(f"`go build` of etcd {ETCD_VERSION} failed (exit code {answer.returncode}):\n{tail}")


if __name__ == "__main__":
    sys.exit(print_location(etcd_binary))
