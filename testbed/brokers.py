"""Real Kafka brokers and clusters for tests: free ports, Kafka's jars, and the end of every process.

`kafka_operator` has an operator's actions on a cluster of several brokers.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from devmesh.blueprint import STOCK_SESSION as STOCK_SESSION
from devmesh.processes.brokers import KafkaBroker
from devmesh.processes.storage import copy_template, new_kafka_id, template
from devmesh.toolchain.jars import KAFKA_VERSION, kafka_classpath
from devmesh.toolchain.java import java_binary
from devmesh.toolchain.jvm import KafkaJvm
from testbed.ports import free_port

READY_SECONDS = 240.0  # one that ends is noticed at once: this only ends a hang


def new_broker(
    name: str,
    directory: Path,
    settings: Mapping[str, str] | None = None,
    jvm_options: Sequence[str] | None = None,
    version: str = KAFKA_VERSION,
) -> KafkaBroker:
    """A broker of a Kafka release, not started yet."""
    return KafkaBroker(
        name,
        directory,
        free_port(),
        free_port(),
        kafka_classpath(version),
        "a",
        java=str(java_binary()),
        settings=settings,
        jvm_options=jvm_options,
    )


@contextlib.contextmanager
def running_broker(
    name: str, directory: Path, settings: Mapping[str, str] | None = None, version: str = KAFKA_VERSION
) -> Iterator[KafkaBroker]:
    """A running broker of a Kafka release; killed at the end, whatever happened to it."""
    broker = new_broker(name, directory, settings, version=version)
    try:
        broker.start()
        broker.wait_ready(READY_SECONDS)
        yield broker
    finally:
        broker.kill()


@contextlib.contextmanager
def parted_cluster(name: str, directory: Path) -> Iterator[tuple[KafkaBroker, KafkaBroker]]:
    """A cluster of a broker and a separate controller, each its own process; both killed at the end.

    The controller serves no clients: `wait_ready` is for the broker alone.
    """
    jvm, cluster_id, controller_port = KafkaJvm(str(java_binary()), kafka_classpath()), new_kafka_id(), free_port()
    voters = {"controller.quorum.voters": f"2@127.0.0.1:{controller_port}"}
    broker = new_broker(f"{name}-broker", directory / "broker", {**voters, "process.roles": "broker"})
    broker.own_settings["listeners"] = f"PLAINTEXT://{broker.bootstrap}"
    controlling = {
        "process.roles": "controller",
        "node.id": "2",
        "listeners": f"CONTROLLER://127.0.0.1:{controller_port}",
    }
    unused = {"advertised.listeners": "", "inter.broker.listener.name": ""}
    controller = new_broker(f"{name}-controller", directory / "controller", {**voters, **controlling, **unused})
    for node, number in ((broker, "1"), (controller, "2")):
        copy_template(template(jvm), node.directory / "data", cluster_id, number)
    try:
        controller.start()
        broker.start()
        broker.wait_ready(READY_SECONDS)
        yield broker, controller
    finally:
        broker.kill()
        controller.kill()
