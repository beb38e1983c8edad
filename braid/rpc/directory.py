"""One process's knowledge of the mesh's replicas and leaders. Knows endpoints, not the meaning of calls."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from braid.api.mesh.v1.endpoint_pb2 import ListEndpointsRequest, ListEndpointsResponse
from braid.kernel.errors import DeadlineExceeded, QuotaExceeded, Unavailable, Unsupported
from braid.kernel.limits.rpc import (
    CHANNELS_KEPT_MAX,
    LEADER_PROBE_SECONDS,
    LEADER_WAIT_SECONDS,
    LIST_ENDPOINTS_SECONDS,
)
from braid.kernel.ports import CallOptions, Host, RpcChannel, RpcTransport
from braid.rpc.attempts import Attempts
from braid.rpc.methods import method_path

SERVICES: Final = ("registry", "assigner", "lagmon", "dlq")


class KnownEndpoint(NamedTuple):
    """A replica as the directory last described it; `tls_address` is where it serves mutual TLS, if it does."""

    service: str
    instance: str
    address: str
    leader: bool
    tls_address: str = ""


Source = Callable[[], Awaitable[Sequence[KnownEndpoint]]]


class Directory:
    """One process's list of the mesh's replicas, shared by its clients of all services; one channel per address.

    Seeds may be replicas of any service. Learned endpoints stay usable while nothing answers.
    """

    def __init__(
        self, transport: RpcTransport, host: Host, seeds: Sequence[str] = (), source: Source | None = None
    ) -> None:
        """Reads endpoints from `source` (a replica reads its store), or else by `ListEndpoints` from any known
        replica."""
        self._transport = transport
        self._host = host
        self._seeds = tuple(seeds)
        self._source: Callable[[str], Awaitable[Sequence[KnownEndpoint]]] = self._ask_replicas
        if source is not None:
            self._source = lambda leader_of: source()
        self._endpoints: tuple[KnownEndpoint, ...] = ()
        self._store_trouble = ""
        self._channels: dict[tuple[str, str], RpcChannel] = {}  # by address and TLS address
        self._tls_addresses: dict[str, str] = {}  # by address, of replicas that said so when last listed
        self._heard_at: dict[str, float] = {}
        self._silent: set[str] = set()  # asked last: they did not answer, or led and were not heard any more
        self._stale: set[str] = set()  # asked after others: the store did not answer them when they were last asked
        self._refreshing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)  # by whose leader is looked for
        self._refreshes: Counter[str] = Counter()

    @property
    def endpoints(self) -> Sequence[KnownEndpoint]:
        """All replicas known to this process."""
        return self._endpoints

    @property
    def store_trouble(self) -> str:
        """Why the replica that answered last has no session on the event store, and cannot lead; '' if it has one."""
        return self._store_trouble

    def leader(self, service: str) -> str:
        """The address of a service's leader, if known, or ''."""
        return next((known.address for known in self._endpoints if known.service == service and known.leader), "")

    def replicas(self, service: str) -> Sequence[str]:
        """Addresses of a service's known replicas. The leader's comes after the others, so that reads do not burden it.

        Replicas that stopped answering come last.
        """
        found = [known for known in self._endpoints if known.service == service]
        found.sort(key=lambda known: (known.address in self._silent, known.leader, known.address))
        return [known.address for known in found]

    def learn_leader(self, service: str, address: str) -> None:
        """Notes the leader named by a redirect; '' notes that there is none, and that the former one is not to be
        used."""
        if not address and (leader := self.leader(service)):
            self._silent.add(leader)
        self._endpoints = tuple(
            known._replace(leader=known.address == address) if known.service == service else known
            for known in self._endpoints
        )
        if address and address not in self.replicas(service):
            self._endpoints += (KnownEndpoint(service, "", address, True),)

    def forget(self, address: str) -> None:
        """Drops a replica that did not answer a read; the next refresh restores it if it still serves."""
        self._silent.add(address)
        self._endpoints = tuple(known for known in self._endpoints if known.address != address)

    def heard(self, address: str) -> None:
        """Notes that a message arrived on a stream from an address."""
        self._heard_at[address] = self._host.clock.elapsed()

    def heard_at(self, address: str) -> float:
        """The time at which the last message arrived from an address (`Clock.elapsed`)."""
        return self._heard_at.get(address, float("-inf"))

    def channel(self, address: str) -> RpcChannel:
        """This process's one connection to an address."""
        way = (address, self._tls_addresses.get(address, ""))
        if way not in self._channels:
            self._channels[way] = self._transport.channel(*way)
        return self._channels[way]

    async def refresh(self, leader_of: str = "") -> None:
        """Reads the directory again. Callers that wait for a refresh under way, for the same leader, share its result.

        Args:
            leader_of: The replica that is asked answers once this service has a leader not known as silent, or after
                `LEADER_WAIT_SECONDS`.

        Raises:
            Unavailable: no known replica answers.
        """
        before = self._refreshes[leader_of]
        async with self._refreshing[leader_of]:
            if self._refreshes[leader_of] == before:
                found = await self._doubted(await self._source(leader_of))
                self._endpoints = found or self._endpoints
                self._learn_tls(found)
                self._refreshes[leader_of] += 1
                await self._forget_channels()

    async def open(self, timeout_seconds: float) -> None:
        """Reads the directory for the first time, with retries: replicas may be starting, or the store may have no
        leader yet.

        Raises:
            Unavailable: no replica answered within the timeout.
        """
        attempts = Attempts(self._host, self._host.clock.elapsed() + timeout_seconds)
        while True:
            try:
                await self.refresh()
            except Unavailable as error:
                await attempts.next(error)
            else:
                return

    async def close(self) -> None:
        """Closes all connections."""
        channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            await channel.close()

    async def _forget_channels(self) -> None:
        """Closes connections to addresses no longer listed, once there are many: replicas move between ports."""
        known = {*self._seeds, *(endpoint.address for endpoint in self._endpoints)}
        gone = [way for way in self._channels if way[0] not in known]
        for way in gone[: max(0, len(self._channels) - CHANNELS_KEPT_MAX)]:
            self._heard_at.pop(way[0], None)
            await self._channels.pop(way).close()

    def _learn_tls(self, found: Sequence[KnownEndpoint]) -> None:
        """Remembers where replicas serve mutual TLS, for temporarily unlisted ones too."""
        if len(self._tls_addresses) > CHANNELS_KEPT_MAX:
            self._tls_addresses.clear()
        self._tls_addresses.update({known.address: known.tls_address for known in found})

    async def _ask_replicas(self, leader_of: str) -> Sequence[KnownEndpoint]:
        wait_ms = round(LEADER_WAIT_SECONDS * 1000) if leader_of else 0
        request = ListEndpointsRequest(leader_of=leader_of, silent=sorted(self._silent), wait_ms=wait_ms)
        outdated: dict[str, Sequence[KnownEndpoint]] = {}
        failures: dict[str, str] = {}
        known_stale = frozenset(self._stale)
        for service, address in self._askable():
            if address in failures or address in outdated:  # under the name of another service
                continue
            if outdated and address in known_stale:  # one of those tells as much as all
                continue
            try:
                response = await self._list_endpoints(service, address, request)
            except Unsupported:  # an address of unknown service: the next path may be its
                continue
            except (Unavailable, DeadlineExceeded, QuotaExceeded) as error:
                if not isinstance(error, QuotaExceeded):  # which is an answer
                    self._silent.add(address)
                failures[address] = f"{address}: {error.message.removeprefix(f'{address}: ')}"
                continue
            found = [
                KnownEndpoint(each.service, each.instance, each.address, each.leader, each.tls_address)
                for each in response.endpoints
            ]
            self._silent &= {each.address for each in found} - {address}
            if not response.stale:
                self._stale.discard(address)
                return found
            self._stale.add(address)
            outdated[address] = found
        if outdated:
            return next(iter(outdated.values()))
        tried = "; ".join(failures.values()) or "no address known"
        raise Unavailable(f"no replica of the mesh answers ({tried})", remedy="check the endpoint and that it runs")

    async def _doubted(self, found: Sequence[KnownEndpoint]) -> tuple[KnownEndpoint, ...]:
        """The same endpoints, where a named leader that fell silent counts only if it answers: it is named until its
        session ends."""
        doubtful = [known for known in found if known.leader and known.address in self._silent]
        answers = await asyncio.gather(*map(self._answers, doubtful))
        mute = {known.address for known, answered in zip(doubtful, answers, strict=True) if not answered}
        return tuple(known._replace(leader=known.leader and known.address not in mute) for known in found)

    async def _answers(self, known: KnownEndpoint) -> bool:
        """Whether a silent replica answers again."""
        try:
            await self._list_endpoints(known.service, known.address, seconds=LEADER_PROBE_SECONDS)
        except (Unavailable, DeadlineExceeded):
            return False
        except QuotaExceeded:  # it answers, and has had enough of this tenant
            pass
        self._silent.discard(known.address)
        return True

    def _askable(self) -> Sequence[tuple[str, str]]:
        """Replicas in the order to ask them: another one first each time, then those cut off from the store, silent
        ones last."""
        known = [(endpoint.service, endpoint.address) for endpoint in self._endpoints]
        turn = self._refreshes.total() % max(1, len(known))
        turned = [*known[turn:], *known[:turn], *((service, seed) for seed in self._seeds for service in SERVICES)]
        return sorted(dict.fromkeys(turned), key=lambda each: (each[1] in self._silent, each[1] in self._stale))

    async def _list_endpoints(
        self,
        service: str,
        address: str,
        request: ListEndpointsRequest | None = None,
        *,
        seconds: float = LIST_ENDPOINTS_SECONDS,
    ) -> ListEndpointsResponse:
        path, asked = method_path(service, "ListEndpoints"), request or ListEndpointsRequest()
        options = CallOptions(seconds + asked.wait_ms / 1000)
        response = await self.channel(address).unary(path, asked, ListEndpointsResponse, options)
        self._store_trouble = response.store_trouble
        return response
