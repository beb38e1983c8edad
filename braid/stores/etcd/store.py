"""The event store on etcd: `EventStore`, put together from this package's parts."""

from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from braid.host.store_credentials import StoreCredentials
from braid.kernel.errors import CorruptHistory, NotFound, OutcomeUnknown, StoreAccessDenied, StoreUnavailable
from braid.kernel.limits.store import ETCD_HEADS_MAX, ETCD_RECONNECT_MS_MIN
from braid.kernel.ports import Appended, Endpoint, EventBatch, Fence, HistoryId, Host, Leader, Loaded, Session, Snapshot
from braid.stores.batches import check_append
from braid.stores.etcd import appending, election, keys, leasing, loading, requests, snapshots, watching
from braid.stores.etcd.appending import Attempt, Head
from braid.stores.etcd.client import PUT, EtcdClient, settled_by_next_read
from braid.stores.etcd.reading import assemble
from braid.stores.etcd_wire import etcd_pb2 as wire
from braid.stores.session import KeptSession, session_over


class EtcdStore:
    """The `kernel.ports.EventStore` of one process.

    Args:
        endpoints: Of the etcd members, `host:port` each.
        host: Of the process.
        credentials: What to show them; None for plain text without a user.

    Raises:
        Invalid: the files of TLS cannot be used.
    """

    def __init__(self, endpoints: Sequence[str], host: Host, credentials: StoreCredentials | None = None) -> None:
        self._host = host
        self._client = EtcdClient(endpoints, host.clock, credentials)
        self._heads: OrderedDict[HistoryId, Head] = OrderedDict()
        self._incarnation = 0  # as last seen; 0 before the first look
        self._sessions: list[KeptSession] = []

    # --- histories

    async def incarnation(self) -> int:
        """See `EventStore`. The first process to ask a fresh etcd writes the first one."""
        found = await self._client.read(requests.get(keys.INCARNATION))
        self._incarnation = watching.read_incarnation(found.one(0)) or await self._begin()
        return self._incarnation

    async def mesh(self) -> str:
        """See `EventStore`. Of several processes that ask a fresh etcd at once the first one's id counts for all."""
        found = (await self._client.read(requests.get(keys.MESH))).one(0)
        return found.value.decode() if found is not None else await self._make_mesh(self._host.ids.ulid())

    async def load(self, history: HistoryId) -> Loaded:
        """See `EventStore`."""
        try:
            return self._loaded(await loading.read_pinned(self._client, history))
        except CorruptHistory:  # what a second read shows too is no race
            return self._loaded(await loading.read_pinned(self._client, history))

    async def load_many(self, histories: Sequence[HistoryId]) -> Sequence[Loaded]:
        """See `EventStore`."""
        try:
            return [self._loaded(each) for each in await loading.read_many(self._client, histories)]
        except CorruptHistory:
            return [await self.load(each) for each in histories]

    async def heads(self, histories: Sequence[HistoryId]) -> Sequence[int]:
        """See `EventStore`."""
        return await loading.read_heads(self._client, histories)

    async def histories(self, service: str) -> tuple[Sequence[HistoryId], int]:
        """See `EventStore`."""
        names, revision, self._incarnation = await loading.list_histories(self._client, service)
        return names, revision

    async def append(self, history: HistoryId, events: Sequence[bytes], expected: int, fence: Fence) -> Appended:
        """See `EventStore`."""
        check_append(history, events)
        appending.check_taken(fence)
        head = self._heads.get(history)
        if head is None or head.sequence != expected:
            head = await self._read_head(history, expected, fence)
        attempt = Attempt(history, events, head, fence, self._host.ids.ulid())
        self._heads.pop(history, None)
        appended = await self._send(attempt)
        self._remember(history, Head(appended.sequence, appended.revision))
        return appended

    async def save_snapshot(self, history: HistoryId, snapshot: Snapshot, fence: Fence) -> None:
        """See `EventStore`."""
        with settled_by_next_read():
            await snapshots.save(self._client, history, snapshot, fence, self._host.ids.ulid())

    def watch(self, service: str, after_revision: int) -> AsyncIterator[EventBatch]:
        """See `EventStore`."""
        return self._watch(watching.Cursor(service, after_revision), self._incarnation)

    # --- sessions, election, directory

    async def open_session(self, ttl_seconds: float) -> Session:
        """See `EventStore`. etcd grants whole seconds, and no less than two."""
        sent = self._host.clock.elapsed()
        granted = await leasing.grant(self._client, ttl_seconds)
        keep_alive = leasing.LeaseKeepAlive(self._client, self._host.clock, granted.ttl_seconds)
        name = leasing.name_of(granted.id)
        session = KeptSession(self._host, name, granted.ttl_seconds, sent, keep_alive)
        self._sessions = [kept for kept in self._sessions if kept.live()] + [session]
        return session

    async def campaign(self, endpoint: Endpoint, session: Session) -> Leader:
        """See `EventStore`. Raises `Fenced` when the session ends first."""
        kept = self._own(session)
        return await kept.while_live(election.win(self._client, self._host.clock, endpoint, leasing.lease_of(kept.id)))

    async def resign(self, leader: Leader) -> None:
        """See `EventStore`."""
        await election.resign(self._client, leader)

    async def leader(self, service: str) -> Leader | None:
        """See `EventStore`."""
        return await election.find_leader(self._client, service)

    async def publish(self, endpoint: Endpoint, session: Session) -> None:
        """See `EventStore`. Raises `Fenced` when the session has ended."""
        key = keys.endpoint(endpoint.service, endpoint.instance)
        value = election.store_endpoint(endpoint)
        try:
            await self._client.call(PUT, wire.PutRequest(key=key, value=value, lease=leasing.lease_of(session.id)))
        except NotFound as error:
            raise session_over(session.id) from error

    async def directory(self) -> Sequence[Endpoint]:
        """See `EventStore`."""
        found = await self._client.read(requests.scan(keys.directory()))
        endpoints = map(election.read_endpoint, found.found[0])
        return sorted(endpoints, key=lambda each: (each.service, each.instance))

    async def close(self) -> None:
        """See `EventStore`. Sessions are no longer kept alive; they expire."""
        for session in self._sessions:
            session.abandon()
        await self._client.close()

    # --- parts

    async def _begin(self) -> int:
        """Writes the first incarnation unless another process came first; returns the one that counts."""
        request = wire.TxnRequest(
            compare=[requests.created_at(keys.INCARNATION, 0)],
            success=[requests.put(keys.INCARNATION, b"1")],
            failure=[requests.reading(requests.get(keys.INCARNATION))],
        )
        with settled_by_next_read():
            answer = await self._client.transact(request)
        return 1 if answer.succeeded else watching.read_incarnation(answer.one(0))

    async def _make_mesh(self, fresh: str) -> str:
        """Writes the mesh's id unless another process came first; returns the one that counts."""
        request = wire.TxnRequest(
            compare=[requests.created_at(keys.MESH, 0)],
            success=[requests.put(keys.MESH, fresh.encode())],
            failure=[requests.reading(requests.get(keys.MESH))],
        )
        with settled_by_next_read():
            answer = await self._client.transact(request)
        kept = None if answer.succeeded else answer.one(0)
        return fresh if kept is None else kept.value.decode()

    def _loaded(self, read: loading.HistoryRead) -> Loaded:
        loaded = assemble(read.pinned)
        self._incarnation = read.incarnation
        self._remember(read.pinned.history, read.head)
        return loaded

    async def _watch(self, cursor: watching.Cursor, incarnation: int) -> AsyncIterator[EventBatch]:
        known = incarnation or await self._patiently(self.incarnation)
        async for batch in watching.watch_batches(self._client, self._host.clock, cursor, known):
            yield batch

    async def _read_head(self, history: HistoryId, expected: int, fence: Fence) -> Head:
        found = await self._client.read(requests.get(keys.head(history)), requests.get(keys.leader(fence.service)))
        appending.check_fence(fence, found.one(1))
        head = appending.read_head(found.one(0))
        appending.check_expected(history, expected, head)
        return head

    async def _send(self, attempt: Attempt) -> Appended:
        try:
            answer = await self._client.transact(appending.transaction(attempt))
        except OutcomeUnknown:
            return await self._read_back(attempt)
        return appending.conclude(attempt, answer)

    async def _read_back(self, attempt: Attempt) -> Appended:
        try:
            found = await self._client.read(*appending.read_back(attempt))
        except StoreUnavailable as error:
            raise appending.unknown(attempt) from error
        return appending.judge(attempt, found)

    async def _patiently(self, look: Callable[[], Awaitable[int]]) -> int:
        while True:
            try:
                return await look()
            except StoreAccessDenied:
                raise
            except StoreUnavailable:
                if self._client.closed:
                    raise
            await self._host.clock.sleep(ETCD_RECONNECT_MS_MIN / 1000)

    def _remember(self, history: HistoryId, head: Head) -> None:
        self._heads[history] = head
        self._heads.move_to_end(history)
        if len(self._heads) > ETCD_HEADS_MAX:
            self._heads.popitem(last=False)

    def _own(self, session: Session) -> KeptSession:
        for kept in self._sessions:
            if kept.id == session.id:
                return kept
        raise session_over(session.id)
