"""Obtains `prometheus` and `promtool`: from PATH, else Debian's pinned package, else a build of the pinned Go module.

Run as `python -m testbed.prometheus.binaries` to have them now. Nothing is installed, and nobody needs to be root.
"""

import functools
import hashlib
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from braid.kernel.errors import Unavailable
from devmesh.limits import TOOL_PROBE_SECONDS, TOOL_RESOLVE_SECONDS
from devmesh.toolchain.cache import cache_directory, resolving
from devmesh.toolchain.installing import install_command
from devmesh.toolchain.location import print_location

OLDEST: Final = (2, 42)
MODULE_VERSION: Final = "v0.313.5"  # Prometheus 3.13.5
DEBIAN_VERSION: Final = "2.42.0+ds-5+deb12u1"
# By what `platform.machine` says; machines that are not listed build the Go module.
DEBIAN_SHA256: Final = {"x86_64": "81d59a24fce84f7fbe97a45a4f2914b6a5881b5cd1db2a6a0e129e515e1a5f55"}

_ENTRY: Final = f"prometheus-{DEBIAN_VERSION.split('+')[0]}-{MODULE_VERSION}"
_MODULE: Final = Path(__file__).parent
_NAMES: Final = ("prometheus", "promtool")


class Binaries(NamedTuple):
    """The server and its tool, of one origin."""

    prometheus: Path
    promtool: Path


@functools.cache
def prometheus_binaries() -> Binaries:
    """The binaries to run, looked up once per process. The first call on a machine obtains them, in about 10 seconds.

    Raises:
        Unavailable: none are installed, and none could be downloaded or built.
    """
    on_path = [shutil.which(name) for name in _NAMES]
    found = [Path(each) for each in on_path if each and is_usable(version_of(Path(each)))]
    if len(found) == len(_NAMES):
        return Binaries(*found)
    return obtain()


def obtain() -> Binaries:
    """Puts the binaries into the user's cache, unless they are there. A concurrent second process waits for the first.

    Raises:
        Unavailable: they could be neither downloaded nor built; says why for both.
    """
    directory = cache_directory() / _ENTRY
    with resolving(_ENTRY) as work:
        if not directory.exists():
            _obtain_into(work).rename(directory)
    return Binaries(*(directory / name for name in _NAMES))


def version_of(binary: Path) -> tuple[int, int] | None:
    """Major and minor version that `prometheus` or `promtool` reports, or None when it does not run."""
    try:
        answer = subprocess.run(
            [binary, "--version"], capture_output=True, text=True, timeout=TOOL_PROBE_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"version (\d+)\.(\d+)\.", answer.stdout + answer.stderr)
    return (int(match[1]), int(match[2])) if match else None


def is_usable(version: tuple[int, int] | None) -> bool:
    """Whether a version knows all that Braid's rules and queries use."""
    return version is not None and version >= OLDEST


def _obtain_into(work: Path) -> Path:
    wanted = DEBIAN_SHA256.get(platform.machine())
    refused = ["Debian's package: there is no `apt-get` here, or it is pinned for another kind of processor"]
    if wanted and shutil.which("apt-get") and shutil.which("dpkg-deb"):
        try:
            return _gather(work, from_debian(work, "prometheus", DEBIAN_VERSION, wanted))
        except Unavailable as error:
            refused = [f"Debian's package: {error.message}"]
    if shutil.which("go") is None:
        reason = f"no prometheus and promtool of {OLDEST[0]}.{OLDEST[1]} or newer are on PATH, and there is no Go"
        raise Unavailable(f"{reason}; {refused[0]}", remedy=install_command("go"))
    return _build(work, refused[0])


def from_debian(work: Path, name: str, version: str, wanted: str) -> Path:
    """Downloads a pinned package and unpacks it, with this machine's package lists or else with fresh ones.

    Args:
        work: An empty directory to work in.
        wanted: The package's SHA-256.

    Returns:
        The directory with its programs.

    Raises:
        Unavailable: it cannot be downloaded, or is another one.
    """
    lists = work / "lists"
    (lists / "partial").mkdir(parents=True)
    mine = ("-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={work}", "-o", "Acquire::Languages=none")
    download = ("download", f"{name}={version}")
    try:
        run_tool(("apt-get", "-qq", *download), work)
    except Unavailable:
        run_tool(("apt-get", "-qq", *mine, "update"), work)
        run_tool(("apt-get", "-qq", *mine, *download), work)
    package = next(work.glob("*.deb"))
    with package.open("rb") as opened:
        actual = hashlib.file_digest(opened, "sha256").hexdigest()
    if actual != wanted:
        raise Unavailable(f"{package.name} has sha256 {actual}, but {wanted} is committed")
    run_tool(("dpkg-deb", "-x", str(package), "unpacked"), work)
    return work / "unpacked" / "usr" / "bin"


def _build(work: Path, refused: str) -> Path:
    """Builds the pinned module, whose checksums are committed beside it, without what finds servers in clouds."""
    try:
        for name in _NAMES:
            package = f"github.com/prometheus/prometheus/cmd/{name}"
            flags = ("-trimpath", "-buildvcs=false", "-tags=remove_all_sd")
            run_tool(("go", "build", *flags, "-o", str(work / "built" / name), package), _MODULE)
    except Unavailable as error:
        raise Unavailable(f"{error.message}\n{refused}") from error
    return _gather(work, work / "built")


def _gather(work: Path, where: Path) -> Path:
    output = work / "bin"
    output.mkdir()
    for name in _NAMES:
        (where / name).rename(output / name)
    return output


def run_tool(command: Sequence[str], directory: Path) -> None:
    """Runs a tool to its end. Raises `Unavailable` with the end of what it printed if it fails."""
    try:
        answer = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, timeout=TOOL_RESOLVE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"`{command[0]}` took more than {error.timeout:.0f} s") from error
    if answer.returncode:
        tail = "\n".join(answer.stderr.splitlines()[-12:])
        verb = next(word for word in command[1:] if word[0] != "-" and "=" not in word)
        raise Unavailable(f"`{command[0]} {verb}` failed (exit code {answer.returncode}):\n{tail}")


if __name__ == "__main__":
    sys.exit(print_location(prometheus_binaries))
