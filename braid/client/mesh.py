"""`connect`: the door to a mesh. A `Mesh` opens producers and consumers that share its connections."""

import importlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from braid.api.assigner.v1 import join_pb2
from braid.api.registry.v1.route_pb2 import ProducerHello
from braid.client.consumer_settings import Backlog, ConsumerSettings, Retry, Start, stream_names
from braid.client.consuming.cluster_session import ClusterSession
from braid.client.membership.heartbeats import Heartbeats
from braid.client.producing.settings import ProducerSettings
from braid.host.endpoints import Endpoint, resolve_here, unreachable
from braid.host.system import system_host
from braid.host.tls.files import TlsFiles
from braid.host.tls.paths import Tls
from braid.host.token_files import TokenFiles
from braid.host.tokens import Token
from braid.host.tracebacks import tracebacks_here
from braid.kafka.late import LateKafka
from braid.kernel.capabilities import KNOWS_DENIALS
from braid.kernel.errors import BraidError, Invalid, Unavailable
from braid.kernel.ids import DLQ_LANE, check_name
from braid.kernel.limits.assigner.leases import HELLO_TEXT_MAX, LEASE_MS_DEFAULT
from braid.kernel.limits.client import (
    COMMIT_INTERVAL_SECONDS,
    DELIVERY_TIMEOUT_SECONDS,
    DETACHED_SECONDS_MAX,
    FIRST_ROUTE_SECONDS,
    IN_FLIGHT_BYTES_MAX,
    PRODUCER_BUFFER_BYTES,
)
from braid.kernel.ports import Host, Kafka, RpcTransport
from braid.rpc.directory import Directory
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.mesh_client import ServiceClient

if TYPE_CHECKING:  # a second of work to import: commands that only ask services are spared it
    from braid.client.consuming.consumer import Consumer
    from braid.client.membership.lease_protocol import LeaseKeeper, LeaseListener
    from braid.client.producing.lane_rules import LaneRule
    from braid.client.producing.producer import Producer
    from braid.client.producing.route_session import RouteSource
    from braid.client.producing.routes import RouteTable
    from braid.client.records.where import Where
    from braid.client.telemetry.pathways.recorder import Recorder
    from braid.client.telemetry.pathways.reporter import Reporter

_log: Final = logging.getLogger("braid.client")
_CLIENTS: Final = (
    "braid.client.consuming.consumer",
    "braid.client.consuming.hello",
    "braid.client.membership.lease_session",
    "braid.client.producing.producer",
    "braid.client.producing.route_session",
    "braid.kafka.cluster",
)


class MeshOfStreams:
    """The producers and consumers that every mesh offers, wherever its routes and leases come from."""

    _cluster_watch: ClusterSession | None = None  # where there is a registry to tell
    _recorder: "Recorder | None" = None  # of pathways, where they are followed

    def __init__(self, host: Host, kafka: Kafka, client_id: str, zone: str) -> None:
        self._host = host
        self._kafka = kafka
        self._named = bool(client_id)
        self._client_id = client_id or own_client_id("braid", host)
        self._zone = zone

    @property
    def client_id(self) -> str:
        """The client id that people see: the one given, else a name that no other process has."""
        return self._client_id

    def producer(
        self,
        stream: str,
        *,
        max_buffer_bytes: int = PRODUCER_BUFFER_BYTES,
        delivery_timeout_seconds: float = DELIVERY_TIMEOUT_SECONDS,
        compression: str | None = None,
        linger_ms: int = 5,
        lane_rule: "LaneRule | None" = None,
    ) -> "Producer":
        """A producer for one stream; settings as `ProducerSettings` explains them. Raises `Invalid` naming a field."""
        check_name(stream, "stream")
        settings = ProducerSettings(max_buffer_bytes, delivery_timeout_seconds, compression, linger_ms, lane_rule)
        return self._make_producer(stream, settings)

    def consumer(
        self,
        streams: Sequence[str],
        *,
        group: str,
        start: Start = "earliest",
        lanes: Mapping[str, int] | None = None,
        ordering: str = "none",
        concurrency: int | Mapping[str, int] = 64,
        retry: Retry | None = None,
        ownership: str = "at_least_once",
        fencing: str | None = None,
        lease_seconds: float = LEASE_MS_DEFAULT / 1000,
        commit_interval_seconds: float = COMMIT_INTERVAL_SECONDS,
        quarantine_bytes: int = 0,
        dead_letter_tracebacks: str | None = None,
        max_in_flight_bytes: int = IN_FLIGHT_BYTES_MAX,
        detached_seconds_max: float = DETACHED_SECONDS_MAX,
        on_assigned: Callable[[list[str]], None] | None = None,
        on_revoked: Callable[[list[str]], None] | None = None,
        where: "Where | None" = None,
        handler_timeout_seconds: float | None = None,
        cancel_at_loss: bool = False,
        backlog: Backlog | None = None,
        max_concurrency: int | None = None,
    ) -> "Consumer":
        """A member of a group; settings as `ConsumerSettings` explains them. Raises `Invalid` naming a field."""
        settings = ConsumerSettings(
            streams=stream_names(streams),
            group=group,
            start=start,
            lanes=dict(lanes or {}),
            ordering=ordering,
            concurrency=concurrency if isinstance(concurrency, int) else dict(concurrency),
            retry=retry or Retry(),
            ownership=ownership,
            fencing=fencing,
            lease_seconds=lease_seconds,
            commit_interval_seconds=commit_interval_seconds,
            quarantine_bytes=quarantine_bytes,
            dead_letter_tracebacks=dead_letter_tracebacks or tracebacks_here(),
            max_in_flight_bytes=max_in_flight_bytes,
            detached_seconds_max=detached_seconds_max,
            on_assigned=on_assigned,
            on_revoked=on_revoked,
            where=where,
            handler_timeout_seconds=handler_timeout_seconds,
            cancel_at_loss=cancel_at_loss, backlog=backlog, max_concurrency=max_concurrency,
        )  # fmt: skip
        return self._make_consumer(settings)

    def _make_producer(self, stream: str, settings: ProducerSettings) -> "Producer":
        from braid.client.producing.producer import Producer

        return Producer(
            self._host,
            self._kafka,
            lambda *listening: self._routes(stream, settings.lanes, *listening),
            stream=stream,
            zone=self._zone,
            settings=settings,
            pathways=None if DLQ_LANE in settings.lanes else self._recorder,
        )

    def _make_consumer(self, settings: ConsumerSettings) -> "Consumer":
        from braid.client.consuming.consumer import Consumer

        return Consumer(
            self._host,
            self._kafka,
            lambda *listening: self._leases(settings, *listening),
            lambda stream: self._make_producer(stream, ProducerSettings(lanes=(DLQ_LANE,))),
            zone=self._zone,
            settings=settings,
            cluster_watch=self._cluster_watch,
            pathways=self._recorder,
        )

    def _routes(
        self,
        stream: str,
        lanes: Sequence[str],
        producer_id: str,
        on_route: "Callable[[RouteTable], None]",
        on_refused: Callable[[BraidError], None],
    ) -> "RouteSource":
        """Opens the routes of a new producer that writes to some lanes only; to all when it names none."""
        raise NotImplementedError

    def _leases(
        self,
        settings: ConsumerSettings,
        listener: "LeaseListener",
        loads: Callable[[], join_pb2.Heartbeat],
        capabilities: Sequence[str] = (),
    ) -> "LeaseKeeper":
        """Opens the leases of a new member, which states these capabilities besides the usual ones."""
        raise NotImplementedError


class Mesh(MeshOfStreams):
    """A connection to a mesh of services; use it as an asynchronous context."""

    def __init__(
        self,
        host: Host,
        kafka: Kafka,
        transport: RpcTransport,
        endpoints: Sequence[str],
        client_id: str,
        zone: str,
        *,
        open_seconds: float = FIRST_ROUTE_SECONDS,
        found: Endpoint | None = None,
        pathways: str = "",
    ) -> None:
        """Names a mesh by `endpoints`, replicas of any of its services.

        Args:
            open_seconds: Bounds how long opening tries again; with 0 each endpoint is asked once.
            found: Where the endpoints came from, which an error says.
            pathways: The name under which pathways of records are followed; empty where they are not.
        """
        super().__init__(host, kafka, client_id, zone)
        self._directory = Directory(transport, host, endpoints)
        self._heartbeats = Heartbeats(host, self.service("assigner"))
        self._cluster_watch = ClusterSession(host, self.service("registry"), self._client_id)
        self._members = 0
        self._open_seconds = open_seconds
        self._found = found
        self._reporter: Reporter | None = None
        if pathways:
            self._follow_pathways(pathways)

    async def __aenter__(self) -> Self:
        try:
            await self._directory.open(self._open_seconds)
        except BaseException as error:
            await self._directory.close()
            if isinstance(error, Unavailable) and self._found is not None:
                raise unreachable(error, self._found) from error
            raise
        if self._reporter is not None:
            self._reporter.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._reporter is not None:
            await self._reporter.close()
        if self._cluster_watch is not None:
            await self._cluster_watch.close()
        await self._heartbeats.close()
        await self._directory.close()

    def _follow_pathways(self, service: str) -> None:
        from braid.client.telemetry.pathways.recorder import Recorder
        from braid.client.telemetry.pathways.reporter import Reporter

        self._recorder = Recorder(check_name(service, "pathways"))
        self._reporter = Reporter(self._host, self.service("lagmon"), self._recorder)

    def service(self, name: str) -> ServiceClient:
        """Returns a client of one service's control API (`registry`, `assigner` and others)."""
        return ServiceClient(self._directory, name, self._host, principal=self._client_id)

    def _routes(
        self,
        stream: str,
        lanes: Sequence[str],
        producer_id: str,
        on_route: "Callable[[RouteTable], None]",
        on_refused: Callable[[BraidError], None],
    ) -> "RouteSource":
        from braid.client.producing import route_session

        hello = ProducerHello(
            protocol_version=route_session.PROTOCOL_VERSION,
            capabilities=[KNOWS_DENIALS],
            producer_id=producer_id,
            client_id=self._client_id,
            zone=self._zone,
            stream=stream,
            host=self._host.name,
            lanes=lanes,
        )
        return route_session.RouteSession(self._host, self.service("registry"), hello, on_route, on_refused)

    def _leases(
        self,
        settings: ConsumerSettings,
        listener: "LeaseListener",
        loads: Callable[[], join_pb2.Heartbeat],
        capabilities: Sequence[str] = (),
    ) -> "LeaseKeeper":
        from braid.client.consuming.hello import member_hello
        from braid.client.membership import lease_session

        self._members += 1
        own = self._named or self._members == 1
        client_id = self._client_id if own else f"{self._client_id}-{self._members}"
        hello = member_hello(settings, client_id, self._zone, capabilities, divides_work=listener.divides_work)
        return lease_session.LeaseSession(
            self._host,
            self.service("assigner"),
            hello,
            listener,
            loads=loads,
            exclusive=settings.ownership == "exclusive",
            detached_seconds_max=settings.detached_seconds_max,
            heartbeats=self._heartbeats,
        )


def connect(
    endpoint: str | None = None,
    *,
    client_id: str = "",
    zone: str = "",
    tls: Tls | None = None,
    token: str | Token | None = None,
    token_file: str | Path | None = None,
    pathways: str = "",
) -> Mesh:
    """Names a mesh by any replica of any of its services; the rest is found from there.

    Args:
        endpoint: `host:port`, or several separated by commas: one that answers is enough. Without it, the mesh is
            the one that the command line finds: see `braid.find_endpoint`.
        client_id: Who connects, as people will see it, and rules name it; it stays over restarts, so that what a member
            held goes back to it. One a process. Empty for a name that no other process has, until this one ends.
        zone: Where this process runs; nearer clusters are preferred.
        tls: This process's certificate and whom it trusts. Without it, those of BRAID_TLS_CERTIFICATE, BRAID_TLS_KEY
            and BRAID_TLS_CA, or what stands beside the endpoint that is found; else plaintext.
        token: A signed token (JWT) that this process shows in place of a certificate; it travels over TLS alone. Of
            `tls`, or the environment, only `ca` counts then. A `braid.Token` says more. Without it and `token_file`:
            BRAID_TOKEN or BRAID_TOKEN_FILE.
        token_file: A file that holds the token, which is read again when it changes.

    Raises:
        Invalid: the endpoint is not of that form, or none is given and nothing names a mesh; or a file of mutual TLS
            or a token cannot be used; or `pathways` is not a name.
        Unavailable: (on entering the context) no replica answered in 15 s; says where the endpoint is from.
    """
    found = resolve_here(endpoint, tls, token_of(token, token_file))
    if found.note:
        _log.info("%s", found.note)
    kafka = LateKafka(client_id or "braid")
    load_clients()
    transport = transport_to(found)
    return Mesh(system_host(), kafka, transport, found.addresses, client_id, zone, found=found, pathways=pathways)


def load_clients() -> None:
    """Imports what producers and consumers are made of: in an application, no import may hold up a running loop."""
    for name in _CLIENTS:
        importlib.import_module(name)


def token_of(token: str | Token | None, token_file: str | Path | None) -> Token | None:
    """The token that was named; None where none was. Raises `Invalid` where two are, or an empty one."""
    if token is None and token_file is None:
        return None
    if isinstance(token, Token):
        if token_file is not None:
            raise Invalid("is given, and token, too", field="token_file", remedy="give one of them")
        return token
    return Token(None if token_file is None else Path(token_file).expanduser(), token or "")


def transport_to(found: Endpoint) -> GrpcTransport:
    """The way to a mesh that was found. Raises `Invalid` for files that cannot be used."""
    if found.token is not None:
        return GrpcTransport(TokenFiles(found.token))
    return GrpcTransport(TlsFiles(found.tls) if found.tls else None)


def own_client_id(kind: str, host: Host) -> str:
    """A client id that no other process has, which names its host where that has a name that headers may carry."""
    name = host.name[: HELLO_TEXT_MAX // 2] if host.name.isascii() and host.name.isprintable() else ""
    return "-".join(filter(None, (kind, name, host.ids.ulid()[-6:].lower())))


@dataclass(frozen=True, slots=True)
class Ports:
    """A process's clock and dice, its way to Kafka, its way to services, and what it shows these."""

    host: Host
    kafka: Kafka
    transport: RpcTransport
    tls: Tls | None = None
    token: TokenFiles | None = None


def system_ports(client_id: str, found: Endpoint | None = None) -> Ports:
    """The real ones, to a mesh that was found. Brokers know the process as `client_id`.

    Raises:
        Invalid: files cannot be used.
    """
    found = found or Endpoint((), "")
    token = TokenFiles(found.token) if found.token is not None else None
    return Ports(system_host(), LateKafka(client_id), transport_to(found), found.tls, token)
