"""Kafka's jars: resolved once by Maven coordinates, checked against committed checksums, kept in the user's cache.

`mvn` resolves them where it is installed, else the Ivy jar that PySpark's wheel carries. Both yield the same files.
Run as `python -m devmesh.toolchain.jars` to resolve them now.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from braid.kernel.errors import Unavailable
from devmesh.limits import TOOL_RESOLVE_SECONDS
from devmesh.toolchain.cache import cache_directory, resolving
from devmesh.toolchain.installing import install_command
from devmesh.toolchain.java import java_binary
from devmesh.toolchain.location import print_location

KAFKA_VERSION: Final = "4.3.1"  # of a local mesh
# Releases that the suite plays, the oldest supported one first.
PLAYED_VERSIONS: Final = ("3.7.2", "3.9.2", "4.0.1", KAFKA_VERSION, "4.4.0")

Coordinates = Sequence[tuple[str, str, str]]


def coordinates(version: str = KAFKA_VERSION) -> Coordinates:
    """Maven coordinates of a release of Kafka and of the logger that keeps it silent."""
    return (("org.apache.kafka", "kafka_2.13", version), ("org.slf4j", "slf4j-nop", "1.7.36"))


def kafka_classpath(version: str = KAFKA_VERSION) -> str:
    """The class path that runs `kafka.Kafka` and `kafka.tools.StorageTool`; resolves the jars first when need be.

    Raises:
        Unavailable: the jars are not in the cache and could not be resolved.
    """
    directory = cache_directory() / _entry(version)
    names = expected_checksums(version)
    if not all((directory / name).exists() for name in names):
        directory = resolve_kafka(version)
    return os.pathsep.join(str(directory / name) for name in sorted(names))


def resolve_kafka(version: str = KAFKA_VERSION) -> Path:
    """Makes sure the cache holds exactly the committed jars of a release, and returns their directory.

    Downloads nothing when they are there already. A concurrent second resolver waits for the first.

    Raises:
        Unavailable: no resolver is installed, it failed, or a jar does not have its committed checksum.
    """
    directory = cache_directory() / _entry(version)
    checksums = expected_checksums(version)
    with resolving(_entry(version)) as work:
        if directory.exists():
            verify(directory, checksums, f"remove {directory} and run `make setup` again")
            return directory
        jars = work / "jars"
        _run_resolver(work, jars, coordinates(version))
        verify(jars, checksums, "nothing was kept; see which repository the resolver is configured for")
        jars.rename(directory)
    return directory


def verify(directory: Path, checksums: Mapping[str, str], remedy: str) -> None:
    """Compares a directory's jars with their checksums (sha256, hexadecimal, by file name).

    Raises:
        Unavailable: a jar is missing, unexpected or different; names the file, with the remedy.
    """
    present = {path.name for path in directory.glob("*")}
    for name in sorted(present.symmetric_difference(checksums)):
        what = "is not among Kafka's jars" if name in present else "is missing"
        raise Unavailable(f"{directory / name} {what}", remedy=remedy)
    for name, wanted in sorted(checksums.items()):
        with (directory / name).open("rb") as jar:
            actual = hashlib.file_digest(jar, "sha256").hexdigest()
        if actual != wanted:
            raise Unavailable(f"{directory / name} has sha256 {actual}, but {wanted} is committed", remedy=remedy)


def expected_checksums(version: str = KAFKA_VERSION) -> dict[str, str]:
    """The committed sha256 of each jar of a release, by file name."""
    pairs = (line.split() for line in _checksum_file(version).read_text().splitlines())
    return {name: checksum for checksum, name in pairs}


def ivy_jar() -> Path | None:
    """The Ivy that PySpark's wheel carries, or None when PySpark is not installed."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    return next(iter(sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar"))), None)


def _entry(version: str) -> str:
    return f"kafka-{version}"


def _checksum_file(version: str) -> Path:
    return Path(__file__).with_name(f"{_entry(version)}.sha256")


def _run_resolver(work: Path, jars: Path, wanted: Coordinates) -> None:
    ivy = ivy_jar()
    if mvn := shutil.which("mvn"):
        _run(maven_command(mvn, work, jars, wanted))
    elif ivy is not None:
        _run(ivy_command(ivy, work, jars, wanted))
    else:
        raise Unavailable(
            "Kafka's jars cannot be resolved: there is neither `mvn` nor the Ivy that PySpark carries",
            remedy=f"{install_command('mvn')}, or `{sys.executable} -m pip install -r requirements/spark.txt`",
        )


def maven_command(mvn: str, work: Path, jars: Path, wanted: Coordinates) -> list[str]:
    """Writes a project that needs the jars, and returns the command that copies its runtime closure into `jars`."""
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
        for group, name, version in wanted
    )
    project = work / "pom.xml"
    project.write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>braid</groupId><artifactId>kafka-jars</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
    return [
        *(mvn, "--batch-mode", "--quiet", "--file", str(project), "dependency:copy-dependencies"),
        *("-DincludeScope=runtime", f"-DoutputDirectory={jars}"),
    ]


def ivy_command(ivy: Path, work: Path, jars: Path, wanted: Coordinates) -> list[str]:
    """Writes a module that needs the jars, and returns the command that copies its runtime closure into `jars`.

    Artifacts of type `bundle` are jars too (OSGi); without them snappy, snakeyaml and HdrHistogram would be missing.
    """
    dependencies = "".join(
        f'<dependency org="{group}" name="{name}" rev="{version}" conf="default->master,runtime"/>'
        for group, name, version in wanted
    )
    module = work / "ivy.xml"
    module.write_text(
        '<ivy-module version="2.0"><info organisation="braid" module="kafka-jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )
    return [
        *(str(java_binary()), "-jar", str(ivy), "-cache", str(work / "ivy"), "-ivy", str(module)),
        *("-types", "jar", "bundle", "-retrieve", f"{jars}/[artifact]-[revision].[ext]"),
    ]


def _run(command: Sequence[str]) -> None:
    tool = Path(command[0]).name
    try:
        answer = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TOOL_RESOLVE_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"`{tool}` did not resolve Kafka's jars within {error.timeout:.0f} s") from error
    if answer.returncode:
        tail = "\n".join(answer.stdout.splitlines()[-12:])
        raise Unavailable(f"`{tool}` could not resolve Kafka's jars (exit code {answer.returncode}):\n{tail}")


def is_cached(version: str = KAFKA_VERSION) -> bool:
    """Whether the cache holds the jars of a release already."""
    return (cache_directory() / _entry(version)).exists()


def main(arguments: Sequence[str]) -> int:
    """Resolves the jars and says where they are; 1 with the reason on stderr when that fails.

    Args:
        arguments: `--cached` only asks: 0 when the jars are there, else 1.
    """
    if "--cached" in arguments:
        return 0 if is_cached() else 1
    return print_location(resolve_kafka)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
