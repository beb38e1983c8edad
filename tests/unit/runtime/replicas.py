"""Whole replicas in one process on virtual time."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from google.protobuf.wrappers_pb2 import Int64Value

from braid.rpc.directory import Directory
from braid.rpc.memory.network import MemoryNetwork
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.mesh_client import ServiceClient
from braid.runtime.replica import Replica
from braid.stores.memory import MemoryStore
from braid.stores.memory_server import MemoryStoreServer
from tests.support.counters import CounterService
from tests.support.virtual_time import VirtualProcess, run_virtual, running_loop

ADDRESSES = {"registry-0": "r0:1", "registry-1": "r1:1", "registry-2": "r2:1"}


class World:
    """Replicas, each a virtual process, over one store and one network, and a client."""

    def __init__(self) -> None:
        loop = running_loop()
        self.host = VirtualProcess(loop, "world", 1).host
        self.server = MemoryStoreServer(self.host.clock)
        self.network = MemoryNetwork(self.host.clock, self.host.randomness)
        self.processes: dict[str, VirtualProcess] = {}
        self.replicas: dict[str, Replica] = {}
        self.services: dict[str, CounterService] = {}
        self.stores: dict[str, MemoryStore] = {}
        self.ended: list[str] = []
        self.failures: list[BaseException] = []
        self.directory = Directory(MemoryTransport(self.network, "client"), self.host, ["r0:1", "r1:1"])
        self.client = ServiceClient(self.directory, "registry", self.host)

    async def start(self, instance: str, service: CounterService | None = None) -> Replica:
        """Starts a replica and waits until it serves."""
        replica = self.begin(instance, service)
        await replica.ready()
        return replica

    def begin(self, instance: str, service: CounterService | None = None) -> Replica:
        """Starts a replica."""
        process = VirtualProcess(running_loop(), instance, 1, on_failure=self.failures.append)
        process.on_kill(lambda: self.network.kill(instance))
        store = MemoryStore(process.host, self.server)
        self.services[instance] = service or CounterService()
        transport = MemoryTransport(self.network, instance)
        replica = Replica(
            self.services[instance], process.host, store, transport, address=ADDRESSES[instance], instance=instance
        )
        self.processes[instance], self.replicas[instance], self.stores[instance] = process, replica, store

        async def run() -> None:
            await replica.run()
            self.ended.append(instance)

        process.tasks.spawn(run(), "run")
        return replica

    async def leader(self) -> Replica:
        """Waits until exactly one replica that lives leads."""
        async with asyncio.timeout(30):
            while True:
                leading = [self.replicas[name] for name, process in self.processes.items() if process.alive]
                leading = [replica for replica in leading if replica.leading()]
                assert len(leading) < 2
                if leading:
                    return leading[0]
                await asyncio.sleep(0.01)

    async def add(self, amount: int) -> int:
        """Adds through the client and returns the total."""
        return (await self.client.unary("Add", Int64Value(value=amount), Int64Value, timeout_seconds=20)).value


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs a test on virtual time."""
    run_virtual(work)
