"""One Kafka broker (KRaft, with a controller in the same process unless others are) on 127.0.0.1, with fault verbs.

A directory holds one broker: started again on it, the broker has its cluster's id and its data. Calls block (the first
formatting on a machine takes a JVM start): asynchronous callers run them beside their loop. No gRPC may be imported
here. `kafka_cluster` makes clusters of several.
"""

import contextlib
import os
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from braid.kernel.errors import Refused, Unavailable
from devmesh.blueprint import (
    BROKER_HEAP_MB,
    METADATA_ANSWER_BYTES,
    METADATA_REQUEST,
    BrokerPlace,
    broker_settings,
)
from devmesh.limits import BROKER_POLL_SECONDS
from devmesh.processes.process import Process
from devmesh.processes.storage import format_directory, is_formatted, new_kafka_id, properties_text
from devmesh.toolchain.class_archive import archive_options
from devmesh.toolchain.jvm import BROKER_CLASS, KafkaJvm

_LOG_TAIL_BYTES: Final = 2_000


class BrokerPeers(NamedTuple):
    """The other brokers of its cluster, as a broker has to know them.

    Attributes:
        node: The broker's own number, from 1.
        brokers: How many there are.
        controllers: Port of each controller by its node.
        cluster_id: The cluster's, with which new directories are formatted.
    """

    node: int
    brokers: int
    controllers: Mapping[int, int]
    cluster_id: str


class KafkaBroker(Process):
    """One broker, alone or of a cluster of several: where it lives, and the verbs that start, stop and hurt it."""

    def __init__(
        self,
        name: str,
        directory: Path,
        port: int,
        controller_port: int,
        classpath: str,
        zone: str,
        *,
        java: str = "java",
        heap_mb: int = BROKER_HEAP_MB,
        tiered_stop_at_level: int | None = 1,
        settings: Mapping[str, str] | None = None,
        jvm_options: Sequence[str] | None = None,
        peers: BrokerPeers | None = None,
    ) -> None:
        """Describes a broker; nothing is started or written yet.

        Args:
            name: Of the cluster, or of the broker in it (`east/2`); for messages.
            directory: Holds configuration, log and data; created when missing.
            port: Clients connect here.
            controller_port: The controller's own; may differ from one start to the next, like `port`.
            classpath: Kafka's jars, joined as Java wants them.
            zone: The broker's rack.
            java: The binary.
            heap_mb: Largest heap; 256 is enough for tests, not for benchmarks.
            tiered_stop_at_level: 1 starts fast and peaks low; None lets the JVM optimise fully.
            settings: Further broker settings, overriding ours.
            jvm_options: Further options of the JVM; None to share the class archive where there is one.
            peers: The cluster it is of; None for one of its own.
        """
        super().__init__(name, directory / "broker.log")
        self.directory = directory
        self.port = port
        self.zone = zone
        self.controller_port = controller_port
        self._jvm = KafkaJvm(java, classpath, heap_mb, tiered_stop_at_level)
        self.own_settings = dict(settings or {})
        self._jvm_options = jvm_options
        self.peers = peers

    @property
    def bootstrap(self) -> str:
        """The address that clients connect to."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Starts the process, formatting the directory when it is new; `wait_ready` tells when it answers.

        Raises:
            Refused: it is running already, or one of its ports is taken.
            Unavailable: the directory could not be formatted; the message ends with Kafka's own words.
        """
        if self.pid is not None:
            raise Refused(f"Kafka broker {self.name} is running already", remedy="kill or stop it first")
        for port in (self.port, self.controller_port):
            check_free(port, self.name)
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.write_config()
        if not is_formatted(self._data):
            cluster_id = self.peers.cluster_id if self.peers is not None else new_kafka_id()
            node_id = self.settings()["node.id"]
            try:
                format_directory(self._jvm, config, self._data, cluster_id, node_id, self.own_settings)
            except Unavailable as error:
                raise Unavailable(f"Kafka broker {self.name} could not be formatted: {error}") from error
        options = archive_options(self._jvm) if self._jvm_options is None else self._jvm_options
        command = self._jvm.command(BROKER_CLASS, str(config), options=options)
        self._spawn(command)

    def wait_ready(self, timeout: float) -> None:
        """Waits until the broker serves clients.

        Args:
            timeout: Seconds.

        Raises:
            Unavailable: it ended, or did not answer in time; the message ends with the tail of its log.
        """
        deadline = time.monotonic() + timeout
        while not self._answers(max(0.05, min(1.0, deadline - time.monotonic()))):
            if self.pid is None:
                raise Unavailable(f"Kafka broker {self.name} ended while starting: {self._log_tail()}")
            if time.monotonic() > deadline:
                raise Unavailable(f"Kafka broker {self.name} is not ready after {timeout} s: {self._log_tail()}")
            time.sleep(BROKER_POLL_SECONDS)

    def pause(self) -> None:
        """Freezes it (SIGSTOP): connections stay open, nothing answers. Returns once its last thread stands still."""
        super().pause()
        if self._process is not None:
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def last_words(self) -> str:
        """Where they are: brokers write too much around the reason of their end."""
        return f"see {self.log_path}"

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def settings(self) -> dict[str, str]:
        """Returns the settings that its process gets."""
        place = BrokerPlace(self.zone, "127.0.0.1", self.port, self.controller_port, str(self._data))
        if (peers := self.peers) is not None:
            place = place._replace(node=peers.node, controllers=peers.controllers, brokers=peers.brokers)
        return {**broker_settings(place), **self.own_settings}

    def write_config(self) -> Path:
        """Writes the file that the process is started with; returns where it lies."""
        config = self.directory / "server.properties"
        config.write_text(properties_text(self.settings()), encoding="utf-8")
        return config

    def _answers(self, timeout: float) -> bool:
        """Asks for metadata: a broker that serves names at least itself."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout) as connection:
                connection.settimeout(timeout)
                connection.sendall(METADATA_REQUEST)
                answer = connection.recv(4096)
        except OSError:
            return False
        return (
            len(answer) >= METADATA_ANSWER_BYTES and struct.unpack_from(">i", answer, METADATA_ANSWER_BYTES - 4)[0] > 0
        )

    def _log_tail(self) -> str:
        if not self.log_path.exists():
            return "it wrote nothing"
        with self.log_path.open("rb") as log:
            log.seek(max(0, self.log_path.stat().st_size - _LOG_TAIL_BYTES))
            return log.read().decode("utf-8", "replace").strip() or "it wrote nothing"


def check_free(port: int, name: str) -> None:
    """Kafka itself would end without a word. Raises `Refused`."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise Refused(
                f"port {port} of Kafka broker {name} is in use", remedy="choose another port, or end its user"
            ) from error
