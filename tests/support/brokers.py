"""Real Kafka brokers for tests: free ports, the resolved jars, and an end to every process."""

import contextlib
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from devmesh.brokers import KafkaBroker
from devmesh.jars import kafka_classpath
from devmesh.java import java_binary

READY_SECONDS = 240.0  # one that ends is noticed at once: this only ends a hang


def free_port() -> int:
    """A TCP port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def new_broker(
    name: str,
    directory: Path,
    settings: Mapping[str, str] | None = None,
    jvm_options: Sequence[str] | None = None,
) -> KafkaBroker:
    """A broker that is not started."""
    return KafkaBroker(
        name,
        directory,
        free_port(),
        free_port(),
        kafka_classpath(),
        "a",
        java=str(java_binary()),
        settings=settings,
        jvm_options=jvm_options,
    )


@contextlib.contextmanager
def running_broker(name: str, directory: Path, settings: Mapping[str, str] | None = None) -> Iterator[KafkaBroker]:
    """A broker that serves; killed at the end, whatever was done to it."""
    broker = new_broker(name, directory, settings)
    try:
        broker.start()
        broker.wait_ready(READY_SECONDS)
        yield broker
    finally:
        broker.kill()
