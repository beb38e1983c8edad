"""`WatchClusters`: one stream per consumer process. It says which clusters the process reads, and answers questions
about them.

It needs no session: nothing waits for it, and it ends with its connection. A connected process counts as a user of the
clusters it names, whether it reports anything or not. While no cluster is suspected, nothing is sent and nothing runs.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from collections.abc import Set as AbstractSet

from braid.api.registry.v1.route_pb2 import ReachQuestion
from braid.api.registry.v1.witness_pb2 import (
    WatchClustersRequest,
    WatchClustersResponse,
    WitnessHello,
    WitnessWelcome,
)
from braid.kernel.access.requests import Need
from braid.kernel.access.roles import Action, Resource, ResourceKind
from braid.kernel.capabilities import KNOWS_DENIALS
from braid.kernel.errors import BraidError, EvidenceRefused, Exhausted, Invalid, Unavailable, Unsupported
from braid.kernel.limits.registry.health import (
    CLUSTERS_READ_MAX,
    READERS_MAX,
    READING_KNOWN_SECONDS,
    WITNESSES_ASKED_MAX,
)
from braid.kernel.ports import DuplexServing
from braid.runtime.replica import Replica
from services.registry.histories import CLUSTERS, STREAMS
from services.registry.liveness.cluster_use import RefusedEvidence, reading
from services.registry.liveness.own_lateness import Lateness
from services.registry.liveness.witnesses import Reporter, Use, Witnesses

PROTOCOL_VERSION = 1


class Readers:
    """Serves all `WatchClusters` streams for one term."""

    def __init__(
        self,
        replica: Replica,
        witnesses: Witnesses,
        lateness: Lateness,
        on_refused: Callable[[RefusedEvidence], None],
    ) -> None:
        """Prepares a term.

        Args:
            replica: The leading replica.
            witnesses: Receives the reports.
            lateness: This process's lateness, by which they are timed.
            on_refused: Called for each report that changes nothing.
        """
        self._replica = replica
        self._witnesses = witnesses
        self._lateness = lateness
        self._on_refused = on_refused
        self._connections: dict[_Connection, None] = {}
        self._reading: dict[str, dict[_Connection, None]] = {}
        self._opened = 0
        self._over = False
        self._known_since = float("-inf")  # who may read what is decided once in a while for all
        self._streams_on: dict[str, Sequence[str]] = {}
        self._may_consume: dict[tuple[str, str], bool] = {}

    async def serve(self, call: DuplexServing) -> None:
        """Serves one stream until it ends.

        Raises:
            NotLeader: the term is over.
            Exhausted: too many processes are connected.
            Invalid: the client sent a malformed message.
            EvidenceRefused: the client reported on a cluster that no stream of its own is on.
        """
        hello = await _read_hello(call)
        self._replica.require_leader()
        if len(self._connections) >= READERS_MAX:
            raise Exhausted(f"the registry serves {READERS_MAX} processes of consumers already")
        self._opened += 1
        host = hello.host or call.caller.peer.rpartition(":")[0] or f"reader {self._opened}"
        principal = call.caller.principal if call.caller.authenticated else ""
        knows_denials = KNOWS_DENIALS in hello.capabilities
        connection = _Connection(Reporter(host, principal), call.caller.principal, knows_denials=knows_denials)
        self._connections[connection] = None
        self._reads(connection, hello.clusters.names)
        reading = self._replica.host.tasks.spawn(self._read(call, connection), f"reader {self._opened}")
        try:
            welcome = WitnessWelcome(protocol_version=PROTOCOL_VERSION)
            await call.send(WatchClustersResponse(welcome=welcome))
            await self._push(call, connection)
        finally:
            reading.cancel()
            await reading.ended()
            self._reads(connection, ())
            del self._connections[connection]

    def ask(self, cluster: str, heard: AbstractSet[Reporter]) -> AbstractSet[Reporter]:
        """Asks who reads a cluster whether they reach it, one of each host first; who they are.

        `heard` are those of whom producers are asked: theirs are the last to be.
        """
        connections = [each for each in self._reading.get(cluster, {}) if self._may_read(each, cluster)]
        first = {connection.reporter: connection for connection in connections}
        others = [connection for connection in connections if first[connection.reporter] is not connection]
        ordered = sorted(first.values(), key=lambda connection: connection.reporter in heard)
        for connection in [*ordered, *others][:WITNESSES_ASKED_MAX]:
            connection.questions.add(cluster)
            connection.stirred.set()
        return first.keys()

    def close(self) -> None:
        """Ends all streams at the end of the term."""
        self._over = True
        for connection in self._connections:
            connection.stirred.set()

    async def _push(self, call: DuplexServing, connection: "_Connection") -> None:
        while not connection.ended:
            self._replica.require_leader()
            if self._over:
                raise Unavailable("the registry's term is over", remedy="ask who leads")
            while connection.questions:
                question = ReachQuestion(cluster=connection.questions.pop())
                await call.send(WatchClustersResponse(reach=question))
            await connection.stirred.wait()
            connection.stirred.clear()
        if connection.error is not None:
            raise connection.error

    async def _read(self, call: DuplexServing, connection: "_Connection") -> None:
        try:
            while (message := await call.receive()) is not None:
                assert isinstance(message, WatchClustersRequest)
                self._take(message, connection)
        except Unavailable:
            pass  # the pushing side ends with it
        except BraidError as error:  # a message that is none
            connection.error = error
        connection.ended = True
        connection.stirred.set()

    def _take(self, message: WatchClustersRequest, connection: "_Connection") -> None:
        now = self._lateness.attentive(self._replica.host.clock.elapsed())
        match message.WhichOneof("message"):
            case "clusters":
                self._reads(connection, message.clusters.names)
            case "errors" if self._may_speak(connection, message.errors.cluster):
                cluster, credible = message.errors.cluster, connection.knows_denials
                self._witnesses.complains(cluster, connection.reporter, now, Use.READS, credible=credible)
            case "reach" if self._may_speak(connection, message.reach.cluster):
                if message.reach.acknowledged_ms_ago >= 0:
                    at = now - message.reach.acknowledged_ms_ago / 1_000
                    self._witnesses.reached(message.reach.cluster, connection.reporter, at, Use.READS)
            case _:
                pass  # a second hello, a cluster that it does not read, or a message of a later release

    def _may_speak(self, connection: "_Connection", cluster: str) -> bool:
        """Whether a process reads a registered cluster: reports of processes that are not counted are ignored.

        Raises:
            EvidenceRefused: it reads no stream that is there.
        """
        if cluster not in connection.clusters or not self._replica.aggregates.state(CLUSTERS, cluster).exists:
            return False
        if not self._may_read(connection, cluster):
            self._on_refused(RefusedEvidence.FOREIGN_CLUSTER)
            who = connection.reporter.principal or connection.reporter.host
            message = f"{who} reads no stream that is on {cluster}"
            raise EvidenceRefused(message, field="cluster", remedy="report on clusters that your leases lie on")
        return True

    def _may_read(self, connection: "_Connection", cluster: str) -> bool:
        """Whether any stream that the process may consume is on a cluster, or was a moment ago."""
        now, access = self._replica.host.clock.elapsed(), self._replica.access
        if now - self._known_since > READING_KNOWN_SECONDS:
            self._known_since, self._streams_on, self._may_consume = now, {}, {}
        if cluster not in self._streams_on:
            self._streams_on[cluster] = self._read_from(cluster)
        if not access.enforced:
            return bool(self._streams_on[cluster])
        key = (connection.principal, cluster)
        if key not in self._may_consume:
            needs = (Need(Action.CONSUME, Resource(ResourceKind.STREAM, name)) for name in self._streams_on[cluster])
            self._may_consume[key] = any(access.decide(connection.principal, need).allowed for need in needs)
        return self._may_consume[key]

    def _read_from(self, cluster: str) -> Sequence[str]:
        """Streams whose members read from a cluster."""
        now_ms, streams = self._replica.host.clock.now_ms(), self._replica.aggregates.states(STREAMS)
        return [name for name, stream in streams.items() if reading(stream, cluster, now_ms)]

    def _reads(self, connection: "_Connection", clusters: Sequence[str]) -> None:
        """Sets the clusters that a process reads from now on."""
        named = clusters[:CLUSTERS_READ_MAX]
        for cluster in connection.clusters:
            reading = self._reading.get(cluster, {})
            reading.pop(connection, None)
            if not reading:
                self._reading.pop(cluster, None)
        connection.clusters = frozenset(named)
        for cluster in connection.clusters:
            self._reading.setdefault(cluster, {})[connection] = None


class _Connection:
    """One `WatchClusters` stream of a consumer process.

    Attributes:
        reporter: The reporter that its reports come from.
        knows_denials: Whether it never complains of a cluster that refuses it; older SDKs do.
        clusters: That its process reads.
        questions: Clusters it is to be asked about.
        principal: Who may read what it may.
        stirred: Something is to be done for it.
    """

    def __init__(self, reporter: Reporter, principal: str, *, knows_denials: bool) -> None:
        self.reporter = reporter
        self.principal = principal
        self.knows_denials = knows_denials
        self.clusters: Collection[str] = ()
        self.questions: set[str] = set()
        self.stirred = asyncio.Event()
        self.ended = False
        self.error: BraidError | None = None


async def _read_hello(call: DuplexServing) -> WitnessHello:
    message = await call.receive()
    if not isinstance(message, WatchClustersRequest) or message.WhichOneof("message") != "hello":
        raise Invalid("the first message must say hello", field="hello")
    if message.hello.protocol_version != PROTOCOL_VERSION:
        remedy = f"this registry speaks version {PROTOCOL_VERSION}"
        raise Unsupported(f"protocol version {message.hello.protocol_version} is unknown", remedy=remedy)
    return message.hello
