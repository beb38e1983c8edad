"""Makes class archives, once per machine: that of Kafka's JVMs by a broker that is thrown away.

It only makes starts cheaper: where it cannot be made, that is said in a line and remembered, and brokers start as ever.
Run as `python -m devmesh.archives.making` to make it now, also where that failed before.
"""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from braid.kernel.errors import BraidError, Unavailable
from devmesh.blueprint import CLUSTER_PORT
from devmesh.limits import ARCHIVE_SECONDS, ARCHIVES_KEPT_MAX
from devmesh.processes.brokers import KafkaBroker
from devmesh.processes.ports import PortClaims
from devmesh.toolchain.cache import resolving
from devmesh.toolchain.class_archive import FAILED, archive_entry, archive_name, find_archive
from devmesh.toolchain.jars import kafka_classpath
from devmesh.toolchain.java import java_binary
from devmesh.toolchain.jvm import KafkaJvm

_PORT: Final = CLUSTER_PORT + 500  # away from those that meshes want
_LOG_TAIL_BYTES: Final = 500

Say = Callable[[str], None]
Make = Callable[[Path], Path]


def ensure_archive(jvm: KafkaJvm, say: Say, *, again: bool = False) -> Path | None:
    """The archive for a JVM, made when missing; who comes while it is made waits for it.

    Args:
        jvm: What runs Kafka.
        say: Gets a line when it takes time, and one when it fails.
        again: Whether to try also where it failed before.

    Returns:
        None where there is none to be had.
    """
    return ensure(archive_entry(jvm), "Kafka", lambda work: _make(jvm, work), say, again=again)


def ensure(entry: Path, whose: str, make: Make, say: Say, *, again: bool = False) -> Path | None:
    """`ensure_archive` for any entry.

    Args:
        entry: Of the cache.
        whose: Classes they are, for messages.
        make: Writes the archive in a working directory; raises `BraidError` or OSError.
        say: As above.
        again: As above.
    """
    if _settled(entry) and not (again and _failed(entry)):
        return find_archive(entry)
    say(f"archiving {whose}'s classes, which makes its starts cheaper; only the first one on a machine does")
    try:
        with resolving(entry.name) as work:
            if find_archive(entry) is None and (again or not _failed(entry)):
                _publish(entry, work, make)
    except (BraidError, OSError) as error:
        reason = " ".join(str(error).split())
        say(f"{whose}'s classes could not be archived, its starts go on without: {reason}")
    return find_archive(entry)


def _settled(entry: Path) -> bool:
    return find_archive(entry) is not None or _failed(entry)


def _failed(entry: Path) -> bool:
    return (entry / FAILED).exists()


def _publish(entry: Path, work: Path, make: Make) -> None:
    """Puts the archive, or why there is none, in place at once. Raises what the making raised."""
    kept = work / "kept"
    kept.mkdir()
    try:
        made = make(work)
        _flush(made)
        made.rename(kept / archive_name(made))
    except (BraidError, OSError) as error:
        (kept / FAILED).write_text(f"{error}\n")
        raise
    finally:
        shutil.rmtree(entry, ignore_errors=True)
        kept.rename(entry)
    _forget_old(entry)


def _make(jvm: KafkaJvm, work: Path) -> Path:
    """Runs a broker until it serves and ends it in order: its JVM writes the archive when it exits."""
    archive = work / "classes.jsa"
    with PortClaims() as claims:
        broker = KafkaBroker(
            "classes",
            work / "broker",
            claims.claim_above(_PORT),
            claims.claim_above(_PORT),
            jvm.classpath,
            "a",
            java=jvm.java,
            jvm_options=(f"-XX:ArchiveClassesAtExit={archive}",),
        )
        try:
            broker.start()
            broker.wait_ready(ARCHIVE_SECONDS)
            broker.stop(ARCHIVE_SECONDS)
        finally:
            broker.kill()
    if not archive.exists():
        raise Unavailable(f"the JVM wrote none: {_tail(broker.log_path)}")
    return archive


def _flush(archive: Path) -> None:
    """Its name says its size: that must be true after the machine went down, too."""
    with archive.open("rb") as written:
        os.fsync(written.fileno())


def _tail(log: Path) -> str:
    return log.read_bytes()[-_LOG_TAIL_BYTES:].decode("utf-8", "replace").strip() or "it said nothing"


def _forget_old(entry: Path) -> None:
    """Removes archives of JVMs and jars that are hardly used any more; one that a JVM has open stays readable to it."""
    prefix = entry.name.rpartition("-")[0]
    entries = (path for path in entry.parent.glob(f"{prefix}-*") if path.is_dir() and path != entry)
    for old in sorted(entries, key=lambda path: path.stat().st_mtime, reverse=True)[ARCHIVES_KEPT_MAX - 1 :]:
        shutil.rmtree(old, ignore_errors=True)


def main() -> int:
    """Makes the archive unless it is there. Succeeds without one, too; 1 only where Kafka cannot run at all."""
    try:
        jvm = KafkaJvm(str(java_binary()), kafka_classpath())
    except BraidError as error:
        print(error, file=sys.stderr)
        return 1
    ensure_archive(jvm, lambda line: print(line, flush=True), again=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
