"""Formats the directory of a broker without a JVM: copies what Kafka's own tool wrote once on this machine.

A formatted directory (KRaft, KIP-631) holds `bootstrap.checkpoint`, the features a new cluster begins with, alike for
all of one version, and `meta.properties`: the ids of the cluster, of the node, and of the directory (KIP-858), which
are written anew. A broker takes a directory for formatted once it has the latter, so that comes last and whole: what
was interrupted before it is done again by the next start.
"""

import base64
import hashlib
import os
import subprocess
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from braid.kernel.errors import Unavailable
from devmesh.blueprint import BROKER_SETTINGS, BrokerPlace, broker_settings
from devmesh.limits import BROKER_FORMAT_SECONDS
from devmesh.toolchain.cache import cache_directory, resolving
from devmesh.toolchain.jars import KAFKA_VERSION
from devmesh.toolchain.jvm import FORMAT_CLASS, KafkaJvm

META: Final = "meta.properties"
CHECKPOINT: Final = "bootstrap.checkpoint"

# Settings that decide what the tool writes, or where: who sets one gets the tool itself.
_FORMATTED_BY: Final = (
    "process.roles",
    "log.dir",
    "metadata.log.dir",
    "controller.quorum.",
    "controller.listener.names",
    "unstable.",
)
_SAID_BYTES_MAX: Final = 2_000


class Template(NamedTuple):
    """A formatted directory's two files."""

    meta: str
    checkpoint: bytes


def is_formatted(data: Path) -> bool:
    """Whether a broker takes a directory for formatted."""
    return (data / META).exists()


def format_directory(
    jvm: KafkaJvm, config: Path, data: Path, cluster_id: str, node_id: str, overridden: Iterable[str]
) -> None:
    """Formats a new broker's directory, by the template where that will do.

    Args:
        jvm: What runs Kafka's tool where it is needed.
        config: The broker's, for the tool.
        data: The directory.
        cluster_id: Of its cluster.
        node_id: Of the broker.
        overridden: Settings in which it differs from others.

    Raises:
        Unavailable: Kafka's tool failed; ends with its own words.
    """
    if is_templated(overridden):
        try:
            source = template(jvm)
        except OSError:  # there is no cache to be used
            pass
        else:
            copy_template(source, data, cluster_id, node_id)
            return
    run_format(jvm, config, cluster_id)


def kept_cluster_id(path: Path) -> str:
    """The id of a cluster of several brokers: the one in the file, or a new one, which the file has from now on.

    It is written before the first broker is formatted: a start that was interrupted formats the others with the same.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(path, f"{new_kafka_id()}\n".encode())
    return path.read_text().strip()


def is_templated(overridden: Iterable[str]) -> bool:
    """Whether a broker that overrides these settings is formatted as any other."""
    return not any(key.startswith(_FORMATTED_BY) for key in overridden)


def template(jvm: KafkaJvm) -> Template:
    """Returns the files that this Kafka's tool writes; kept in the cache, so that it runs once.

    Raises:
        Unavailable: the tool failed; ends with its own words.
        OSError: the cache cannot be used.
    """
    entry = template_name(jvm.classpath)
    kept = cache_directory() / entry
    if not kept.exists():
        with resolving(entry) as work:
            if not kept.exists():
                (work / "kept").mkdir()
                written = _made(jvm, work)
                write_durably(work / "kept" / CHECKPOINT, written.checkpoint)
                write_durably(work / "kept" / META, written.meta.encode())
                (work / "kept").rename(kept)
    return Template((kept / META).read_text(), (kept / CHECKPOINT).read_bytes())


def template_name(classpath: str) -> str:
    """The cache's entry for what this class path and our settings give."""
    what = "\n".join([classpath, *(f"{key}={value}" for key, value in BROKER_SETTINGS.items())])
    return f"kafka-{KAFKA_VERSION}-format-{hashlib.sha256(what.encode()).hexdigest()[:12]}"


def copy_template(source: Template, data: Path, cluster_id: str, node_id: str) -> None:
    """Formats a directory (made when missing) for a cluster and node. Done again after an interruption, it is whole."""
    data.mkdir(parents=True, exist_ok=True)
    write_durably(data / CHECKPOINT, source.checkpoint)
    own = {"cluster.id": cluster_id, "node.id": node_id, "directory.id": new_kafka_id()}
    write_durably(data / META, with_values(source.meta, own).encode())


def with_values(properties: str, values: dict[str, str]) -> str:
    """A properties file with the values of some keys replaced; keys it lacks are added, comments dropped.

    Keys and values are of the kinds above, which need no escapes.
    """
    lines = (line.strip() for line in properties.splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return properties_text({**{key: value for key, _, value in pairs}, **values})


def properties_text(settings: dict[str, str]) -> str:
    """Settings as Java's properties files want them."""
    pairs = ((key, value.replace("\\", "\\\\")) for key, value in settings.items() if value)
    return "".join(f"{key}={value}\n" for key, value in pairs)


def run_format(jvm: KafkaJvm, config: Path, cluster_id: str) -> None:
    """Runs Kafka's own tool on the directory that a configuration names.

    Raises:
        Unavailable: it failed; ends with its own words.
    """
    command = jvm.command(FORMAT_CLASS, "format", "-t", cluster_id, "-c", str(config))
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=BROKER_FORMAT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(str(error)) from error
    if done.returncode != 0:
        raise Unavailable((done.stderr or done.stdout).strip()[-_SAID_BYTES_MAX:])


def new_kafka_id() -> str:
    """A random id as Kafka writes them. None begins with a hyphen, which its tools take for an option."""
    while True:
        kafka_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not kafka_id.startswith("-"):
            return kafka_id


def write_durably(path: Path, content: bytes) -> None:
    """Writes a file that is there whole or not at all, also after the machine itself went down."""
    part = path.with_name(f".{path.name}.new")
    with part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def _made(jvm: KafkaJvm, work: Path) -> Template:
    config, data = work / "server.properties", work / "data"
    config.write_text(properties_text(broker_settings(BrokerPlace("a", "127.0.0.1", 9092, 9093, str(data)))))
    run_format(jvm, config, new_kafka_id())
    return Template((data / META).read_text(), (data / CHECKPOINT).read_bytes())
