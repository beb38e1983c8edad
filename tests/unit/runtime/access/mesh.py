"""Replicas that enforce access, over one store and one network; their handlers count who reached them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Final

from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from braid.archive.memory import MemoryArchive
from braid.kernel.access.grants import ServicePrincipals
from braid.kernel.access.requests import Lookup
from braid.kernel.access.roles import Resource, Role
from braid.kernel.ports import (
    Caller,
    CallOptions,
    DuplexHandler,
    DuplexServing,
    RpcChannel,
    RpcService,
    StreamHandler,
    UnaryHandler,
)
from braid.rpc.grpc.reflection import REFLECTION_PATH
from braid.rpc.memory.network import MemoryNetwork
from braid.rpc.methods import duplex, server_stream, service_path, unary
from braid.runtime.access.grant_history import GrantRole, RevokeRole
from braid.runtime.access.settings import AccessMode, AccessSettings
from braid.runtime.archive.serving import Archive
from braid.runtime.audit.settings import AuditSettings
from braid.runtime.histories.kinds import AnyKind
from braid.runtime.replica import Replica
from braid.stores.memory import MemoryStore
from braid.stores.memory_server import MemoryStoreServer
from tests.support.authenticated import AuthenticatedTransport
from tests.support.virtual_time import VirtualProcess, running_loop
from tests.unit.kernel.access.api import Method, methods

ADMIN: Final = "spiffe://braid.local/user/ann"
ENFORCED: Final = AccessSettings(AccessMode.ENFORCED, (ADMIN,), services=ServicePrincipals("braid.local"))
ANN: Final = Caller(ADMIN, "default", "", "ann", authenticated=True)
RUNTIMES: Final = frozenset(
    {
        "ListEndpoints",
        "ReadMany",
        "ListEvents",
        "WatchEvents",
        "GetArchive",
        "VerifyArchive",
        "ListArchive",
        "ReadArchive",
    }
    | {REFLECTION_PATH.rpartition("/")[2]}
)


class CountingService:
    """Every method of a service; each handler counts, and answers with nothing. Duplex ones echo what they read."""

    kinds: Mapping[str, AnyKind] = {}

    def __init__(self, name: str) -> None:
        self.name = name
        self.reached: Counter[str] = Counter()
        self.delays: dict[str, float] = {}  # seconds by unary method, before it answers
        self.group_streams: dict[str, tuple[str, ...]] = {"indexer": ("logs",)}

    def resources(self, replica: Replica) -> Lookup:
        """See `KnowsResources`."""
        return Lookup(lambda group: self.group_streams.get(group, ()), lambda id: "logs" if id else "")

    def rpc(self, replica: Replica) -> RpcService:
        """See `Service`."""
        return self.counting()

    def counting(self) -> RpcService:
        """Its methods, with handlers that count."""
        mine = [each for each in methods() if each.service == self.name and each.name not in RUNTIMES]
        return RpcService(
            service_path(self.name),
            {self._path(each): self._unary(each) for each in mine if not each.server_streams},
            {self._path(each): self._stream(each) for each in mine if each.server_streams and not each.client_streams},
            {self._path(each): self._duplex(each) for each in mine if each.client_streams},
        )

    async def lead(self, replica: Replica) -> None:
        """Nothing to do."""

    async def follow(self, replica: Replica) -> None:
        """Nothing to do."""

    def _path(self, method: Method) -> str:
        return method.path

    def _unary(self, method: Method) -> tuple[type, UnaryHandler]:
        async def handle(request: Message, caller: Caller) -> Message:
            self.reached[method.name] += 1
            await asyncio.sleep(self.delays.get(method.name, 0.0))
            return method.message()

        return unary(GetMessageClass(method.request), handle)

    def _stream(self, method: Method) -> tuple[type, StreamHandler]:
        async def handle(request: Message, caller: Caller) -> AsyncIterator[Message]:
            self.reached[method.name] += 1
            while True:
                yield method.message()
                await asyncio.sleep(0.5)

        return server_stream(GetMessageClass(method.request), handle)

    def _duplex(self, method: Method) -> tuple[type, DuplexHandler]:
        async def handle(stream: DuplexServing) -> None:
            self.reached[method.name] += 1
            while (message := await stream.receive()) is not None:
                await stream.send(message)

        return duplex(GetMessageClass(method.request), handle)


class Mesh:
    """A registry, which holds the grants, and one other service; clients are processes with principals."""

    def __init__(
        self,
        *services: str,
        access: AccessSettings = ENFORCED,
        audit: AuditSettings | None = None,
        archive: MemoryArchive | None = None,
    ) -> None:
        loop = running_loop()
        self.me = VirtualProcess(loop, "me", 1)
        self.server = MemoryStoreServer(self.me.host.clock)
        self.network = MemoryNetwork(self.me.host.clock, self.me.host.randomness)
        self.principals: dict[str, str] = {}
        self.services: dict[str, CountingService] = {}
        self.replicas: dict[str, Replica] = {}
        self.processes: dict[str, VirtualProcess] = {}
        self.stores: dict[str, MemoryStore] = {}
        self.audit = audit
        self.archive = Archive(archive, "memory") if archive is not None else None
        for name in dict.fromkeys(["registry", *services]):
            self.begin(name, access)

    def begin(self, name: str, access: AccessSettings, number: int = 0) -> Replica:
        """Starts a replica of a service; a later one takes the place of the one before it."""
        instance = f"{name}-{number}"
        process = self.processes[name] = VirtualProcess(running_loop(), instance, 1)
        service = self.services[name] = CountingService(name)
        transport = AuthenticatedTransport(self.network, instance, self.principals)
        store = self.stores[name] = MemoryStore(process.host, self.server)
        replica = self.replicas[name] = Replica(
            service,
            process.host,
            store,
            transport,
            address=f"{name}:1",
            instance=instance,
            access=access,
            audit=self.audit,
            archive=self.archive,
        )
        process.tasks.spawn(replica.run(), "run")
        return replica

    async def start(self) -> "Mesh":
        """Waits until all serve, the registry leads, and grants are read."""
        for replica in self.replicas.values():
            await replica.ready()
        async with asyncio.timeout(10):
            while not self.replicas["registry"].leading():  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        return self

    async def grant(self, principal: str, role: Role, *resources: Resource, lasting_ms: int = 0) -> None:
        """Gives a role, and waits until every replica knows."""
        for resource in resources:
            command = GrantRole(principal, role, resource, lasting_ms=lasting_ms)
            await self.replicas["registry"].access.execute(command, ANN)
        await asyncio.sleep(0.5)

    async def revoke(self, principal: str, role: Role, resource: Resource) -> None:
        """Takes a role back."""
        await self.replicas["registry"].access.execute(RevokeRole(principal, role, resource), ANN)

    def client(self, service: str, principal: str | None, process: str = "") -> "Client":
        """A client of a service whose principal the wire verifies; None for one that it does not."""
        process = process or f"client of {principal}"
        if principal is not None:
            self.principals[process] = principal
        channel = AuthenticatedTransport(self.network, process, self.principals).channel(f"{service}:1")
        return Client(service, channel)


class Client:
    """Calls methods of one replica by name."""

    def __init__(self, service: str, channel: RpcChannel) -> None:
        self.service = service
        self.channel = channel

    async def call(self, method: Method, request: Message, tenant: str = "default") -> None:
        """Calls a method whatever its form, up to its first answer. Raises what it answers."""
        path = method.path
        answer, options = answer_type(method), CallOptions(5.0, tenant=tenant)
        if method.client_streams:
            stream = self.channel.duplex(path, answer, options)
            try:
                await stream.send(request)
                await stream.receive()
            finally:
                await stream.close()
        elif method.server_streams:
            responses = self.channel.server_stream(path, request, answer, options)
            try:
                async with asyncio.timeout(0.2):
                    await anext(responses)
            except TimeoutError:
                pass  # it was let in, and there is nothing to tell
        else:
            await self.channel.unary(path, request, answer, options)


def answer_type(method: Method) -> type[Message]:
    """Counting handlers answer with what they are asked; the runtime's with what the proto says."""
    return GetMessageClass(method.response if method.name in RUNTIMES else method.request)
