"""Kafka clusters of one or several brokers on 127.0.0.1: what their brokers share, and how such a cluster ends.

A directory holds one cluster. A cluster of one broker has its files there; one of several has the cluster's id there,
and a directory for each broker. Calls block, as those of `brokers` do.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path
from typing import Final

from braid.kernel.errors import Unavailable
from devmesh.blueprint import broker_names, controller_nodes
from devmesh.config import ZONES
from devmesh.limits import BROKER_POLL_SECONDS, DEV_CLUSTER_STOP_SECONDS, DEV_STEP_SECONDS, DEV_STOP_SECONDS
from devmesh.processes.brokers import BrokerPeers, KafkaBroker
from devmesh.processes.replication import ask_copies
from devmesh.processes.storage import kept_cluster_id

_ID_FILE: Final = "cluster-id"
_ASK_SECONDS: Final = 5.0


def make_cluster(
    name: str,
    directory: Path,
    ports: Sequence[tuple[int, int]],
    classpath: str,
    zone: str,
    *,
    java: str = "java",
    settings: Mapping[str, str] | None = None,
) -> list[KafkaBroker]:
    """Describes a cluster's brokers, in order; none is started. A single one is the broker that `KafkaBroker` makes.

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
        return [KafkaBroker(name, directory, *ports[0], classpath, zone, java=java, settings=settings)]
    cluster_id = kept_cluster_id(directory / _ID_FILE)
    controllers = {node: ports[node - 1][1] for node in controller_nodes(len(ports))}
    return [
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
