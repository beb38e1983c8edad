"""Class archives, which spare JVMs the loading and checking of Kafka's or Spark's classes: where they are, for whom.

A dynamic archive of application class data sharing (JEP 350). The JVM that made it and the jars it was made of must be
the very same; the JVM checks that and goes on without one it refuses. `archiving` makes it.
"""

import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from devmesh.toolchain.cache import cache_directory
from devmesh.toolchain.jars import KAFKA_VERSION
from devmesh.toolchain.java import java_banner
from devmesh.toolchain.jvm import KafkaJvm

PREFIX: Final = f"kafka-{KAFKA_VERSION}-classes-"
FAILED: Final = "failed"  # a file in an entry: why no archive could be made

# The archive is an offer: a JVM that cannot take it says nothing and loads its classes as ever.
_QUIETLY: Final = ("-Xshare:auto", "-Xlog:cds*=off")


def archive_options(jvm: KafkaJvm) -> list[str]:
    """Options with which a JVM of Kafka shares the archive; none where there is none."""
    return sharing_options(archive_entry(jvm))


def archive_entry(jvm: KafkaJvm) -> Path:
    """The cache's entry for a JVM of Kafka."""
    return entry_of(PREFIX, jvm.java, jvm.classpath.split(os.pathsep))


def sharing_options(entry: Path) -> list[str]:
    """Options with which a JVM shares the archive of an entry; none where there is none."""
    archive = find_archive(entry)
    return [] if archive is None else [f"-XX:SharedArchiveFile={archive}", *_QUIETLY]


def entry_of(prefix: str, java: str, jars: Sequence[str]) -> Path:
    """The cache's entry for all that a JVM compares: itself and the jars, by version, path, size and time of change."""
    binary = os.path.realpath(shutil.which(java) or java)
    what = "\n".join([java_banner(Path(binary)) or "", *map(_looks, [binary, *jars])])
    return cache_directory() / f"{prefix}{hashlib.sha256(what.encode()).hexdigest()[:12]}"


def find_archive(entry: Path) -> Path | None:
    """The archive of an entry, if it is there and whole: a JVM dies of one that was cut short."""
    for archive in entry.glob("*.jsa"):
        if archive.name == archive_name(archive):
            return archive
    return None


def archive_name(archive: Path) -> str:
    """Returns the name of a whole archive: its size is in it. Empty for one that has just gone."""
    try:
        return f"classes-{archive.stat().st_size}.jsa"
    except FileNotFoundError:
        return ""


def _looks(path: str) -> str:
    try:
        found = Path(path).stat()
    except OSError:
        return f"{path} is missing"
    return f"{path} {found.st_size} {found.st_mtime_ns}"
