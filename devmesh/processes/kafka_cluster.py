"""Kafka clusters of one or several brokers on 127.0.0.1: what their brokers share, and how such a cluster is rolled.

A directory holds one cluster. A cluster of one broker has its files there; one of several has the cluster's id there,
and a directory for each broker. Calls block, as those of `brokers` do.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path
from typing import Final

from braid.kernel.errors import NotFound, Unavailable
from devmesh.blueprint import broker_names, controller_nodes
from devmesh.config import ZONES
from devmesh.limits import BROKER_POLL_SECONDS, DEV_CLUSTER_STOP_SECONDS, DEV_STEP_SECONDS, DEV_STOP_SECONDS
from devmesh.processes.brokers import BrokerPeers, KafkaBroker
from devmesh.processes.replication import ask_copies
from devmesh.processes.storage import kept_cluster_id

_ID_FILE: Final = "cluster-id"
_ASK_SECONDS: Final = 5.0


class ClusterProcesses:
    """The brokers of one cluster, with verbs for all of them at once.

    Args:
        name: Of the cluster.
        brokers: In the order of their nodes.
    """

    def __init__(self, name: str, brokers: Sequence[KafkaBroker]) -> None:
        self.name = name
        self.brokers = tuple(brokers)

    @property
    def bootstrap(self) -> str:
        """Bootstrap addresses for clients."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    def broker(self, node: int) -> KafkaBroker:
        """Returns a broker by its number, from 1. Raises `NotFound`."""
        if not 1 <= node <= len(self.brokers):
            raise NotFound(f"Kafka cluster {self.name} has no broker {node}", remedy=f"1 to {len(self.brokers)}")
        return self.brokers[node - 1]

    def start(self) -> None:
        """Starts all brokers; `wait_ready` tells when they answer. Raises as `KafkaBroker.start` does."""
        _side_by_side(broker.start for broker in self.brokers)

    def wait_ready(self, timeout: float) -> None:
        """Waits until every broker serves clients (seconds). Raises `Unavailable` naming one that does not."""
        deadline = time.monotonic() + timeout
        for broker in self.brokers:
            broker.wait_ready(max(0.0, deadline - time.monotonic()))

    def kill(self) -> None:
        """Ends all brokers at once (SIGKILL). Fine when none runs."""
        _side_by_side(broker.kill for broker in self.brokers)

    def stop(self) -> None:
        """Shuts all down in order, those that cannot any more by force. Fine when none runs."""
        stop_together(self.brokers)

    def pause(self) -> None:
        """Freezes all brokers."""
        _side_by_side(broker.pause for broker in self.brokers)

    def resume(self) -> None:
        """Lets frozen brokers go on."""
        _side_by_side(broker.resume for broker in self.brokers)

    def wait_in_sync(self, timeout: float = DEV_STEP_SECONDS) -> None:
        """Waits until every copy of every partition is in sync. Raises `Unavailable` naming one that is not."""
        wait_in_sync(self.name, self.brokers, timeout)

    def roll(self, begun: Callable[[KafkaBroker], None] = lambda broker: None) -> None:
        """Restarts one broker after the other in order, and waits each time until every copy is in sync again.

        Args:
            begun: Gets each broker just before it is stopped.

        Raises:
            Unavailable: a broker does not come back, or stays behind.
        """
        self.wait_in_sync()
        for broker in self.brokers:
            begun(broker)
            broker.stop()
            broker.start()
            broker.wait_ready(DEV_STEP_SECONDS)
            self.wait_in_sync()


def make_cluster(
    name: str,
    directory: Path,
    ports: Sequence[tuple[int, int]],
    classpath: str,
    zone: str,
    *,
    java: str = "java",
    settings: Mapping[str, str] | None = None,
) -> ClusterProcesses:
    """Describes a cluster; no broker is started. That of one broker is the broker that `KafkaBroker` makes.

    Args:
        name: Of the cluster.
        directory: Holds everything; made when missing.
        ports: For clients and for the controller, of each broker.
        classpath: Kafka's jars, joined as Java wants them.
        zone: Rack of the first broker; the others are in the zones that follow, as in a cluster over several.
        java: The binary.
        settings: Further settings of every broker, overriding ours.
    """
    names = broker_names(name, len(ports))
    if len(ports) == 1:
        alone = KafkaBroker(name, directory, *ports[0], classpath, zone, java=java, settings=settings)
        return ClusterProcesses(name, [alone])
    cluster_id = kept_cluster_id(directory / _ID_FILE)
    controllers = {node: ports[node - 1][1] for node in controller_nodes(len(ports))}
    brokers = [
        KafkaBroker(
            names[node - 1],
            directory / str(node),
            *ports[node - 1],
            classpath,
            rack,
            java=java,
            settings=settings,
            peers=BrokerPeers(node, len(ports), controllers, cluster_id),
        )
        for node, rack in enumerate(racks(zone, len(ports)), start=1)
    ]
    return ClusterProcesses(name, brokers)


def racks(zone: str, count: int) -> list[str]:
    """Racks of a cluster's brokers: its own zone, then the zones that follow."""
    first = ZONES.find(zone) if len(zone) == 1 else -1
    if first < 0:
        return [zone] * count
    return list(islice(cycle(ZONES), first, first + count))


def wait_in_sync(name: str, brokers: Sequence[KafkaBroker], timeout: float = DEV_STEP_SECONDS) -> None:
    """Waits until every broker of a cluster is registered and every copy in sync, as every broker says.

    Args:
        name: Of the cluster.
        brokers: All of them.
        timeout: Seconds.

    Raises:
        Unavailable: that is not so in time, or a broker does not run; names a partition or the broker.
    """
    deadline = time.monotonic() + timeout
    while (missing := missing_copies(brokers)) is not None:
        ended = next((broker.name for broker in brokers if broker.pid is None), None)
        if ended is not None:
            raise Unavailable(f"{ended} has ended: Kafka cluster {name} cannot be in sync")
        if time.monotonic() > deadline:
            raise Unavailable(f"Kafka cluster {name} is not in sync after {timeout:.0f} s: {missing}")
        time.sleep(BROKER_POLL_SECONDS)


def missing_copies(brokers: Sequence[KafkaBroker]) -> str | None:
    """The reason why the cluster is not in sync yet; None if it is."""
    for broker in brokers:
        try:
            found = ask_copies(broker.port, _ASK_SECONDS)
        except Unavailable as error:
            return f"{broker.name}: {error.message}"
        if len(found.brokers) < len(brokers):
            return f"{broker.name} knows {len(found.brokers)} of {len(brokers)} brokers"
        lacking = next((each for each in found.partitions if not each.whole), None)
        if lacking is not None:
            return str(lacking)
    return None


def stop_together(brokers: Sequence[KafkaBroker]) -> None:
    """Shuts brokers of one cluster down at once, all that run: in order, as long as the others let them go."""
    _side_by_side([*(broker.stop for broker in brokers), lambda: end_stragglers(brokers)])


def end_stragglers(brokers: Sequence[KafkaBroker]) -> None:
    """Ends by force who is left of brokers that were all told to stop, once nobody can let them go.

    A broker asks the active controller before it ends. Once most brokers have ended nobody answers the rest: those get
    a moment, then they are killed, and look their logs over at the next start. Does nothing to a single broker.
    """
    deadline = time.monotonic() + DEV_STOP_SECONDS
    while len(brokers) > 1 and time.monotonic() < deadline:
        running = [broker for broker in brokers if broker.pid is not None]
        if len(running) <= len(brokers) // 2:
            deadline = min(deadline, time.monotonic() + DEV_CLUSTER_STOP_SECONDS)
            _wait_ended(running, deadline)
            for broker in running:
                broker.kill()
            return
        time.sleep(BROKER_POLL_SECONDS)


def _wait_ended(brokers: Sequence[KafkaBroker], deadline: float) -> None:
    while any(broker.pid is not None for broker in brokers) and time.monotonic() < deadline:
        time.sleep(BROKER_POLL_SECONDS)


def _side_by_side(calls: Iterable[Callable[[], object]]) -> None:
    """Makes blocking calls at once and waits for all. Raises what the first that failed raised."""
    listed = list(calls)
    with ThreadPoolExecutor(len(listed)) as pool:
        done = [pool.submit(call) for call in listed]
    for each in done:
        each.result()
