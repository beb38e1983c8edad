"""Reports the clusters of all consumers in one process to the registry, over one stream: `WatchClusters`.

The stream opens with the first consumer and closes with the last. While clusters answer, the process only sends which
clusters it reads, whenever that changes. It complains of a cluster that has owed an answer for too long: first at once,
then whenever the registry asks, and unasked less and less often, because thousands of processes lose a cluster
together. It says when a cluster last answered if the registry asks. No consumer waits for this stream, so a registry
that is away, or does not have it, delays nothing.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from functools import partial
from math import inf, isinf
from typing import NamedTuple, Protocol

from braid.api.registry.v1 import route_pb2
from braid.api.registry.v1 import witness_pb2 as wire
from braid.client.session_errors import is_final, is_strange
from braid.client.tasks import hanging_up, race
from braid.kernel.access.quotas import retry_seconds
from braid.kernel.capabilities import KNOWS_DENIALS
from braid.kernel.errors import BraidError, Unavailable
from braid.kernel.limits.client import (
    PRODUCER_LATE_SECONDS,
    RECONNECT_SECONDS,
    SEND_ERRORS_AFTER_SECONDS,
)
from braid.kernel.limits.kafka import DENIED_AGAIN_SECONDS
from braid.kernel.limits.registry.health import COMPLAIN_AGAIN_SECONDS, CONTACT_LOOK_SECONDS, UNKNOWN_CALL_TRIES
from braid.kernel.ports import Contact, DuplexCall, Host, Task
from braid.kernel.timing.backoff import Backoff
from braid.rpc.mesh_client import ServiceClient

_log = logging.getLogger("braid.consumer")
PROTOCOL_VERSION = 1


class Reader(Protocol):
    """A user of clusters: the leases of one consumer."""

    def contacts(self) -> Mapping[str, Contact]:
        """Returns, by cluster with leases, whether it answers."""
        ...


def silent_seconds(contact: Contact, forgiven_seconds_ago: float = inf) -> float:
    """Returns how long a cluster has owed answers and given none; 0 while it owes none.

    Silence before `forgiven_seconds_ago` does not count. A cluster that refuses this client has answered, so it owes
    nothing and is not complained of.
    """
    if contact.denied:
        return 0.0
    return min(contact.owed_seconds, contact.answered_seconds_ago, forgiven_seconds_ago)


class _Complaint(NamedTuple):
    """When to complain of a cluster next without being asked, and how long after the last complaint that is."""

    due: float
    interval_seconds: float


class ClusterSession:
    """The `WatchClusters` stream of one process."""

    def __init__(self, host: Host, registry: ServiceClient, client_id: str) -> None:
        """`registry` is the client that opens the stream."""
        self._host = host
        self._registry = registry
        self._client_id = client_id
        self._readers: dict[Reader, None] = {}
        self._running: Task | None = None
        self._ending: Task | None = None
        self._unheard = False  # this registry has no such stream
        self._welcomed = False
        self._forgiven_at = -inf
        self._told: tuple[str, ...] = ()
        self._complaints: dict[str, _Complaint] = {}  # complaints about silent clusters
        self._asked: dict[str, None] = {}
        self._denied_at: dict[str, float] = {}  # when a denial was last logged, by cluster
        self._stirred = asyncio.Event()

    def add(self, reader: Reader) -> None:
        """Adds a consumer."""
        self._readers[reader] = None
        if self._running is None and not self._unheard:
            self._running = self._host.tasks.spawn(self._run(), "cluster-watch")

    def remove(self, reader: Reader) -> None:
        """Removes a consumer; the stream ends with the last one, and nobody waits for its end."""
        self._readers.pop(reader, None)
        if not self._readers and self._running is not None:
            self._running.cancel()
            self._ending, self._running = self._running, None

    async def close(self) -> None:
        """Ends the stream."""
        self._readers.clear()
        for task in (self._running, self._ending):
            if task is not None:
                task.cancel()
                await task.ended()
        self._running = None

    async def _run(self) -> None:
        await race(self._host.tasks, "cluster-watch", self._connect, self._look)

    # --- the stream

    async def _connect(self) -> None:
        """Keeps a stream open until cancelled, or until the registry is known to have none."""
        backoff, unknown = Backoff(self._host, RECONNECT_SECONDS), 0
        while True:
            self._welcomed, told_seconds = False, 0.0
            try:
                await self._session()
            except BraidError as error:
                told_seconds = retry_seconds(error)
                unknown = unknown + 1 if is_strange(error) else 0
                if is_final(error) or unknown >= UNKNOWN_CALL_TRIES:
                    self._unheard = True
                    return
                if unknown:
                    self._registry.forget_leader()
            if self._welcomed:
                backoff.reset()
            await backoff.wait(told_seconds)

    async def _session(self) -> None:
        call = await self._registry.duplex("WatchClusters", wire.WatchClustersResponse)
        async with hanging_up(self._host.tasks, call):
            self._complaints.clear()
            self._asked.clear()
            await race(self._host.tasks, "cluster-watch", partial(self._receive, call), partial(self._send, call))

    async def _receive(self, call: DuplexCall) -> None:
        while (message := await call.receive()) is not None:
            assert isinstance(message, wire.WatchClustersResponse)
            self._welcomed = True
            if message.WhichOneof("message") == "reach":
                self._asked[message.reach.cluster] = None
                self._stirred.set()

    async def _send(self, call: DuplexCall) -> None:
        self._told = tuple(self._contacts())
        hello = wire.WitnessHello(
            protocol_version=PROTOCOL_VERSION,
            capabilities=[KNOWS_DENIALS],
            client_id=self._client_id,
            host=self._host.name,
            clusters=wire.ClustersRead(names=self._told),
        )
        try:
            await call.send(wire.WatchClustersRequest(hello=hello))
            while True:
                await self._stirred.wait()
                self._stirred.clear()
                for message in self._due():
                    await call.send(message)
        except Unavailable:
            await asyncio.Event().wait()  # the receiving side sees the same end, and why

    def _due(self) -> Iterator[wire.WatchClustersRequest]:
        """Returns the reports that are due now; reports that could not be sent earlier are dropped."""
        contacts, now = self._contacts(), self._host.clock.elapsed()
        if tuple(contacts) != self._told:
            self._told = tuple(contacts)
            yield wire.WatchClustersRequest(clusters=wire.ClustersRead(names=self._told))
        asked, self._asked = self._asked, {}
        for cluster, complaint in list(self._complaints.items()):
            unasked = now >= complaint.due
            if unasked:
                longer = min(2 * complaint.interval_seconds, COMPLAIN_AGAIN_SECONDS[1])
                self._complaints[cluster] = _Complaint(now + complaint.interval_seconds, longer)
            if unasked or cluster in asked:
                errors = route_pb2.SendErrors(cluster=cluster, reason="fetches are not answered")
                yield wire.WatchClustersRequest(errors=errors)
        for cluster in asked:
            ago = contacts.get(cluster, Contact()).answered_seconds_ago
            ago_ms = -1 if isinf(ago) else int(ago * 1_000)
            answer = route_pb2.ReachAnswer(cluster=cluster, acknowledged_ms_ago=ago_ms)
            yield wire.WatchClustersRequest(reach=answer)

    # --- the clusters

    async def _look(self) -> None:
        """Checks at intervals whether a report is due."""
        while True:
            before = self._host.clock.elapsed()
            await self._host.clock.sleep(CONTACT_LOOK_SECONDS)
            now = self._host.clock.elapsed()
            if now - before > CONTACT_LOOK_SECONDS + PRODUCER_LATE_SECONDS:
                self._forgiven_at = now  # this process was stopped or busy: count silence from now on
            self._log_denials(now)
            if self._welcomed:
                self._see(now)

    def _see(self, now: float) -> None:
        contacts, forgiven_seconds_ago = self._contacts(), now - self._forgiven_at
        silent = [
            name
            for name, contact in contacts.items()
            if silent_seconds(contact, forgiven_seconds_ago) > SEND_ERRORS_AFTER_SECONDS
        ]
        new = _Complaint(now, COMPLAIN_AGAIN_SECONDS[0])
        self._complaints = {name: self._complaints.get(name, new) for name in silent}
        if tuple(contacts) != self._told or any(now >= complaint.due for complaint in self._complaints.values()):
            self._stirred.set()

    def _log_denials(self, now: float) -> None:
        """Logs which clusters refuse this client, and when one stops refusing it."""
        denied = {name: contact.denied for name, contact in self._contacts().items() if contact.denied}
        for name, why in denied.items():
            if now - self._denied_at.get(name, -inf) >= DENIED_AGAIN_SECONDS:
                self._denied_at[name] = now
                _log.error("cluster %s gives this client no access, nothing is fetched there: %s", name, why)

    def _contacts(self) -> dict[str, Contact]:
        """Returns by cluster, in order of names, how it answers any of the consumers."""
        found: dict[str, Contact] = {}
        for reader in self._readers:
            for name, contact in reader.contacts().items():
                found[name] = found[name].joined(contact) if name in found else contact
        return dict(sorted(found.items()))
