"""The life of one replica: serve, follow, hold a session, campaign, lead, step down; repeated until stopped.

This file only composes: rules are the service's, storage and transports come in as ports. `serve` runs one replica in a
process, simulation runs many in one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from braid.kernel.errors import CorruptHistory, Fenced, NotLeader, Unavailable
from braid.kernel.ids import make_epoch
from braid.kernel.limits.runtime import DRAIN_SECONDS
from braid.kernel.limits.store import SESSION_TTL_SECONDS, STORE_CALL_SECONDS
from braid.kernel.ports import Endpoint, EventStore, Host, Leader, RpcServer, RpcTransport, Session
from braid.kernel.timing.backoff import Backoff
from braid.rpc.directory import Directory, KnownEndpoint
from braid.rpc.mesh_client import ServiceClient
from braid.runtime.access.approvals import Approvals
from braid.runtime.access.control import AccessControl
from braid.runtime.access.identities import Identities
from braid.runtime.access.settings import AccessSettings
from braid.runtime.access.tenants import Tenants
from braid.runtime.archive.parts import ArchiveParts
from braid.runtime.archive.serving import Archive
from braid.runtime.audit.audit import Audit
from braid.runtime.audit.serving import AuditHistories
from braid.runtime.audit.settings import AuditSettings
from braid.runtime.clocks.waits import Waits
from braid.runtime.directory import StoreDirectory
from braid.runtime.histories.aggregates import Aggregates
from braid.runtime.histories.kinds import Leadership
from braid.runtime.rpc_service import build_rpc_service
from braid.runtime.service import Service
from braid.runtime.telemetry import Metrics, logger, make_metrics

if TYPE_CHECKING:
    from braid.api.mesh.v1.endpoint_pb2 import CertificateValidity, Plaintext

T = TypeVar("T")


class Replica:
    """One instance of a service. Services use only its public attributes and methods.

    Attributes:
        instance: Its name in the directory, and the actor of its own decisions (`registry-0`).
        plaintext: What it speaks with other machines in plain text about, beside control RPCs.
        certificates: Returns the times of the certificates that it uses.
        host: Clock, randomness, ids and tasks of its process.
        store: The event store.
        transport: Opens control RPCs.
        mesh: The id of the mesh it belongs to; known while it leads.
        aggregates: The service's histories.
        archive: What it serves of its archive of them.
        access: Who may call it, and the grants.
        identities: Whose calls it refuses, because a certificate or a name was revoked.
        tenants: Which tenant a caller is in, and how much it may have.
        approvals: Which destructive requests a second person approves first.
        audit: Records of calls: its own are written, and those of all replicas read.
        waits: What it waits for, for days, before it deletes or expires something.
        metrics: Its instruments; `metrics.registry` takes the service's own.
        log: Its structured logger.
    """

    def __init__(
        self,
        service: Service,
        host: Host,
        store: EventStore,
        transport: RpcTransport,
        *,
        address: str,
        instance: str,
        advertise: str = "",
        tls_advertise: str = "",
        session_ttl_seconds: float = SESSION_TTL_SECONDS,
        metrics: Metrics | None = None,
        archive: Archive | None = None,
        access: AccessSettings | None = None,
        audit: AuditSettings | None = None,
        plaintext: "Sequence[Plaintext.ValueType]" = (),
        certificates: "Callable[[], Sequence[CertificateValidity]]" = tuple,
    ) -> None:
        """Prepares a replica that listens at `address`; others reach it at `advertise`, by default where it listens.

        `tls_advertise` is where others reach a second address of mutual TLS. No `archive`: what snapshots take from the
        event store is gone. No `audit`: no call is recorded. It tells others `plaintext` and `certificates`."""
        self.instance, self.plaintext, self.mesh, self.certificates = instance, plaintext, "", certificates
        self.host = host
        self.store = store
        self.transport = transport
        self.metrics = metrics or make_metrics(service.name, instance)
        self.log = logger(service.name, instance)
        self._store_directory = StoreDirectory(store, host.clock)
        known = self._store_directory.endpoints
        self._archive = ArchiveParts(archive, service.name, host, transport, known, lambda: self.address)
        self.aggregates = Aggregates(store, service.kinds, host, service.name, self, self.metrics, self._archive.shelf)
        self.archive = self._archive.handlers(self.aggregates.archive_log, self.aggregates, self._archived_calls)
        self._service = service
        self._listen, self._advertise, self._tls_advertise = address, advertise, tls_advertise
        self._ttl_seconds = session_ttl_seconds
        self._directory = Directory(transport, host, source=known)
        self._server: RpcServer | None = None
        self._leadership: Leadership | None = None
        self._leader_address = ""
        self._store_trouble = ""
        self._term_over = asyncio.Event()
        self._stopping = asyncio.Event()
        self._ready = asyncio.Event()
        self.waits = Waits(self)
        self.access = AccessControl(self, service, access or AccessSettings())
        self.identities, self.tenants, self.approvals = Identities(self), Tenants(self), Approvals(self)
        self.audit = Audit(self, self._archive.shelf, session_ttl_seconds, audit)

    # --- what services ask ---------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The service's name."""
        return self._service.name

    @property
    def address(self) -> str:
        """The address it is reached at; '' before it serves."""
        return self._advertise or (self._server.address if self._server else "")

    @property
    def endpoint(self) -> Endpoint:
        """Its entry in the directory."""
        return Endpoint(self.name, self.instance, self.address, self._tls_address)

    @property
    def health_address(self) -> str:
        """The address for health checks without a certificate; '' before it serves."""
        return self._server.health_address if self._server else ""

    @property
    def _tls_address(self) -> str:
        """The address it is reached at over mutual TLS; '' if it serves none."""
        if self._server is None or not self._server.tls_address:
            return ""
        if self._server.tls_address == self._server.address:
            return self.address
        host, port = self.address.rpartition(":")[0], self._server.tls_address.rpartition(":")[2]
        return self._tls_advertise or f"{host}:{port}"

    @property
    def store_trouble(self) -> str:
        """Why it has no session on the event store, without which it cannot lead, for people; '' if it has one."""
        return self._store_trouble

    @property
    def directory_stale(self) -> bool:
        """Whether the store did not answer `endpoints`' last read: that result may be outdated."""
        return self._store_directory.stale

    @property
    def stopping(self) -> bool:
        """Whether it is about to stop."""
        return self._stopping.is_set()

    @property
    def leader_epoch(self) -> int:
        """The epoch of the present leadership. Raises `NotLeader`."""
        return self.require_leader().epoch

    def leading(self) -> bool:
        """Whether this replica leads, and its session has not expired at this instant."""
        return self._leadership is not None and self.authority()

    def authority(self) -> bool:
        """Whether it may still act as leader: false from the session's own deadline on, whatever the store says."""
        held = self._leadership
        return held is not None and self.host.clock.elapsed() < held.session.deadline()

    def require_leader(self) -> Leadership:
        """The present leadership. Raises `NotLeader` with the leader's address, if known."""
        if self.aggregates.corrupt is not None:
            raise self.aggregates.corrupt
        if self._leadership is None or not self.authority():
            raise NotLeader(
                f"{self.instance} does not lead {self.name}",
                remedy="ask the leader",
                metadata={"leader": self._leader_address},
            )
        return self._leadership

    def require_histories(self) -> None:
        """Raises `Unavailable` until it has read its histories once."""
        if not self._ready.is_set():
            raise self.aggregates.corrupt or Unavailable(
                f"{self.instance} has not read its histories yet", remedy="ask again in a moment"
            )

    def step_down(self, reason: str) -> None:
        """Ends the present leadership, if any; this replica follows again."""
        if self._leadership is not None:
            self.log.warning("leadership given up", reason=reason)
        self._leadership = None
        self._term_over.set()
        if self.aggregates.corrupt is not None and self._server is not None:
            self._server.set_serving(False)

    def client(self, service: str) -> ServiceClient:
        """A client of another service, using this replica's directory; its calls name this instance as principal."""
        return ServiceClient(self._directory, service, self.host, principal=self.instance)

    async def endpoints(self) -> Sequence[KnownEndpoint]:
        """All live replicas of all services in the store's directory; this one is listed as leader only if it leads."""
        found, leading = await self._store_directory.endpoints(), self.leading()
        return [each if leading or each.address != self.address else each._replace(leader=False) for each in found]

    async def _archived_calls(self) -> AuditHistories:
        return await self.audit.archived()

    async def refresh_leader(self) -> str:
        """Reads this service's leader, for redirects; '' if there is none or the store does not answer."""
        found = await self._store_directory.leader_address(self.name)
        self._leader_address = found if found != self.address or self.leading() else ""
        return self._leader_address

    async def ready(self) -> None:
        """Waits until it serves and its histories are loaded."""
        await self._ready.wait()

    # --- its life ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Runs until `stop`. Cancelling it ends it without grace.

        Raises:
            Unavailable: the address is in use.
        """
        spawn = self.host.tasks.spawn
        self._server = await self.transport.serve(self._listen, build_rpc_service(self._service, self))
        tasks = [
            spawn(self.identities.run(), f"{self.instance} identities"),
            spawn(self.tenants.run(), f"{self.instance} tenants"),
            spawn(self.approvals.run(), f"{self.instance} approvals"),
            spawn(self.aggregates.follow(), f"{self.instance} follow"),
        ]
        try:
            if self.access.needs_grants:
                tasks.append(spawn(self.access.run(), f"{self.instance} access"))
            if self.audit.records:
                tasks.append(spawn(self.audit.run(), f"{self.instance} audit"))
            await self._unless(self._stopping, self.aggregates.loaded())
            await self._unless(self._stopping, self.approvals.loaded())
            if self.aggregates.corrupt is None:  # else it never serves, and a store that nobody can read ends it
                await self._unless(self._stopping, self.identities.known())
                await self._unless(self._stopping, self.tenants.known())
            tasks.append(spawn(self._service.follow(self), f"{self.instance} service follow"))
            if (sweeper := self._archive.sweeper(self.metrics, self.leading)) is not None:
                tasks.append(spawn(sweeper.run(), f"{self.instance} archive"))
            self._server.set_serving(self.aggregates.corrupt is None)
            self._ready.set()
            backoff = Backoff(self.host)
            while not self._stopping.is_set():
                await self._hold_session(backoff)
        finally:
            for task in tasks:
                task.cancel()
            await self._directory.close()
            await self._archive.close()
            await self._server.stop(DRAIN_SECONDS)
            await self.audit.close()

    def stop(self) -> None:
        """Ends `run` gracefully: stops serving, resigns, lets running calls finish."""
        if self._server is not None:
            self._server.set_serving(False)
        self._stopping.set()

    async def _hold_session(self, backoff: Backoff) -> None:
        """Opens a session, registers in the directory and campaigns for as long as the session lives."""
        try:
            session = await self.store.open_session(self._ttl_seconds)
        except Unavailable as error:
            self._store_trouble = error.message
            self.log.warning("no session on the event store", error=str(error))
            await self._unless(self._stopping, backoff.wait())
            return
        self.metrics.sessions.inc()
        over = asyncio.Event()
        watches = [self._set_after(session.lost, over), self._set_after(self._stopping.wait, over)]
        watching = [self.host.tasks.spawn(watch, f"{self.instance} session") for watch in watches]
        try:
            await self.store.publish(self.endpoint, session)
            self._store_trouble = ""
            backoff.reset()
            while not over.is_set():
                await self._campaign(session, over)
        except (Unavailable, Fenced) as error:  # Fenced: the session ended first
            self.log.warning("session given up", error=str(error))
            await self._unless(self._stopping, backoff.wait())
        finally:
            for watch in watching:
                watch.cancel()
            await self._close(session)

    async def _campaign(self, session: Session, over: asyncio.Event) -> None:
        if self.aggregates.corrupt is not None:
            await over.wait()
            return
        leader = await self._unless(over, self.store.campaign(self.endpoint, session))
        if leader is None:
            return
        try:
            await self._lead(leader, session, over)
        except CorruptHistory:
            pass  # said and remembered by `aggregates`
        finally:
            if not over.is_set() or self._stopping.is_set():
                await self._resign(leader)

    async def _lead(self, leader: Leader, session: Session, over: asyncio.Event) -> None:
        """Leads, with state loaded to the head, until the session or the term is over."""
        self._term_over = asyncio.Event()
        await self._unless(over, self.aggregates.catch_up())
        epoch = make_epoch(await self.store.incarnation(), leader.fence.revision)
        self.mesh = await self.store.mesh()
        if over.is_set() or self._term_over.is_set():
            return
        self._leadership = Leadership(leader, session, epoch)
        self._leader_address = self.address
        self.metrics.leader.set(1)
        self.metrics.elections.inc()
        self.log.info("leading", epoch=epoch, revision=self.aggregates.revision)
        task = self.host.tasks.spawn(self._service.lead(self), f"{self.instance} lead")
        try:
            await self._unless(over, self._term_over.wait())
        finally:
            self._leadership = None
            self.metrics.leader.set(0)
            self.log.info("no longer leading", epoch=epoch)
            task.cancel()
            await task.ended()

    async def _resign(self, leader: Leader) -> None:
        try:
            await self.store.resign(leader)
        except Unavailable as error:
            self.log.warning("could not resign: the session's end will", error=str(error))

    async def _close(self, session: Session) -> None:
        try:
            async with asyncio.timeout(STORE_CALL_SECONDS):
                await session.close()
        except (Unavailable, TimeoutError) as error:
            self.log.warning("session not closed: it will expire", error=str(error))

    async def _set_after(self, wait: Callable[[], Awaitable[object]], event: asyncio.Event) -> None:
        await wait()
        event.set()

    async def _unless(self, event: asyncio.Event, work: Awaitable[T]) -> T | None:
        """Awaits some work; returns None and cancels it if the event comes first."""
        working = asyncio.ensure_future(work)
        waiting = asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else None
        finally:
            for future in (working, waiting):
                future.cancel()
            await asyncio.wait((working, waiting))
