"""The event store's contract over a real etcd of one member, each client behind a proxy of its own."""

from contextlib import AsyncExitStack
from typing import Final

from braid.host.system import SystemClock, system_host
from braid.kernel.ports import Clock, EventStore, HistoryId
from braid.stores.etcd import EtcdStore, keys, requests
from braid.stores.etcd.client import EtcdClient
from braid.stores.etcd_wire import etcd_pb2 as wire
from testbed.etcd_process import EtcdCluster
from tests.support.etcd_proxy import EtcdProxy, Trap, etcd_proxy

LOGS: Final = HistoryId("registry", "stream", "logs")


class EtcdHarness:
    """The `EventStoreHarness` of the etcd store."""

    clock: Clock
    ttl_seconds: float = 2.0  # etcd grants no less

    def __init__(self, cluster: EtcdCluster, stack: AsyncExitStack) -> None:
        self.clock = SystemClock()
        self.cluster = cluster
        self._stack = stack
        self._proxies: dict[EventStore, EtcdProxy] = {}

    async def open(self) -> EventStore:
        """A client with a proxy of its own."""
        proxy = await self._stack.enter_async_context(etcd_proxy(self.cluster.endpoints[0]))
        store = EtcdStore([proxy.address], system_host(), self.cluster.credentials)
        self._stack.push_async_callback(store.close)
        self._proxies[store] = proxy
        return store

    def proxy_of(self, store: EventStore) -> EtcdProxy:
        """The proxy of a client."""
        return self._proxies[store]

    async def compact(self) -> None:
        """Compacts to the newest revision."""
        await self.cluster.compact()

    async def restore(self) -> None:
        """Puts a backup of this moment back and does what an operator does then."""
        self.cluster.put_back(self.cluster.back_up())
        self.cluster.nodes[0].start(self.cluster.nodes)
        await self.cluster.serving()
        operator = EtcdStore(self.cluster.endpoints, system_host(), self.cluster.credentials)
        next_one = str(await operator.incarnation() + 1).encode()
        await operator.close()
        client = EtcdClient(self.cluster.endpoints, self.clock, self.cluster.credentials)
        await client.transact(wire.TxnRequest(success=[requests.put(keys.INCARNATION, next_one)]))
        await client.close()

    async def silence(self, store: EventStore) -> None:
        """Cuts the client off for good."""
        await self._proxies[store].cut()

    async def interrupt(self, store: EventStore) -> None:
        """Cuts the client off."""
        await self._proxies[store].cut()

    async def mend(self, store: EventStore) -> None:
        """Lets the client connect again."""
        self._proxies[store].mend()

    async def lose_answer(self, store: EventStore, *, happens: bool) -> None:
        """Loses the next append to `LOGS`, or its answer."""
        before = await self.cluster.revision()

        async def applied() -> None:
            while await self.cluster.revision() == before:
                pass

        self._proxies[store].trap = Trap(append_marker(LOGS), applied if happens else None)

    async def lose_batch(self, history: HistoryId, sequence: int) -> None:
        """Deletes the batch that begins with the event."""
        await self.cluster.delete(keys.batch(history, sequence))


def append_marker(history: HistoryId) -> bytes:
    """Bytes that only an append's transaction to a history carries: its condition on the head."""
    condition = requests.modified_at(keys.head(history), 1).SerializeToString()
    return condition[: condition.index(keys.head(history)) + len(keys.head(history))]
