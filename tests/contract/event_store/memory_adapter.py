"""The store in memory under the contract, on virtual time."""

from pathlib import Path

from braid.kernel.ports import EventStore, HistoryId
from braid.stores.memory import Fate, MemoryStore
from braid.stores.memory_server import MemoryStoreServer
from tests.contract.event_store.harness import Body
from tests.support.virtual_time import VirtualProcess, run_virtual, running_loop


class MemoryHarness:
    """See `EventStoreHarness`; `server_type` and `store_type` let mutants in."""

    def __init__(
        self, server_type: type[MemoryStoreServer] = MemoryStoreServer, store_type: type[MemoryStore] = MemoryStore
    ) -> None:
        self._loop = running_loop()
        self.clock = VirtualProcess(self._loop, "server", 1).clock
        self.ttl_seconds = 3.0
        self.server = server_type(self.clock)
        self._store_type = store_type
        self._opened = 0

    async def open(self) -> MemoryStore:
        self._opened += 1
        process = VirtualProcess(self._loop, f"client-{self._opened}", 1)
        store = self._store_type(process.host, self.server)
        store.latency = lambda _: process.host.randomness.uniform(0.0, 0.005)
        return store

    async def compact(self) -> None:
        self.server.compact()

    async def restore(self) -> None:
        self.server.restore(self.server.backup())

    async def silence(self, store: EventStore) -> None:
        self._mine(store).fate = lambda operation: Fate.REQUEST_LOST if operation == "renew" else Fate.ANSWERED

    async def interrupt(self, store: EventStore) -> None:
        self._mine(store).disconnect()

    async def mend(self, store: EventStore) -> None:
        self._mine(store).reconnect()

    async def lose_answer(self, store: EventStore, *, happens: bool) -> None:
        client = self._mine(store)

        def fate_once(operation: str) -> Fate:
            if operation != "append":
                return Fate.ANSWERED
            client.fate = lambda _: Fate.ANSWERED
            return Fate.ANSWER_LOST if happens else Fate.REQUEST_LOST

        client.fate = fate_once

    async def lose_batch(self, history: HistoryId, sequence: int) -> None:
        self.server.lose_batch(history, sequence)

    @staticmethod
    def _mine(store: EventStore) -> MemoryStore:
        assert isinstance(store, MemoryStore)
        return store


def run_on_memory(body: Body, directory: Path) -> None:
    """Runs a body over a fresh store in memory."""
    run_mutant(body, MemoryStoreServer, MemoryStore)


def run_mutant(body: Body, server_type: type[MemoryStoreServer], store_type: type[MemoryStore]) -> None:
    """Runs a body over a fresh store with these parts."""

    async def run() -> None:
        await body(MemoryHarness(server_type, store_type))

    run_virtual(run())
