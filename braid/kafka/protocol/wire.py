"""Requests to one cluster's brokers over connections made when used: the part of a client that outlives its cluster.

A request ends within its timeout whatever state the broker is in (ended, frozen, unreachable), and a connection that
timed out is dropped, so a cluster that comes back works again. Answers are passed on unread; retries belong to callers.
"""

import asyncio
import contextlib
import errno
import socket
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import KafkaError
from aiokafka.protocol.api import Request, Response

from braid.kafka.errors import access_error
from braid.kafka.protocol.sasl_sessions import is_answered, is_due, open_connection
from braid.kafka.protocol.schemas import DescribeTopicsRequest
from braid.kafka.refusals import Refusals
from braid.kafka.security import Security
from braid.kernel.errors import ClusterAccessDenied, ClusterUnavailable, Invalid
from braid.kernel.ids import read_number
from braid.kernel.limits.kafka import ANY_BROKER_SECONDS, KAFKA_CLOSE_SECONDS

Address = tuple[str, int]
ANY_BROKER: Final = -1
REFUSED: Final = "refused"  # in an error's metadata: nobody listens there
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)  # SO_LINGER: what is not sent yet is dropped
# What connecting or asking may raise; protocol violations of a broken peer arrive as ValueError or struct.error.
FAILURES: Final = (
    OSError,
    KafkaError,
    TimeoutError,
    asyncio.IncompleteReadError,
    ValueError,
    struct.error,
    AssertionError,
)


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """A topic in a metadata answer; `leaders` by partition, -1 where there is none; `thin` lack copies in step.

    `epochs` are the leaders' numbers, `replicas` the brokers with copies, both by partition.
    """

    error_code: int
    topic_id: bytes
    leaders: Mapping[int, int]
    thin: Sequence[int] = ()
    epochs: Mapping[int, int] = field(default_factory=dict)
    replicas: Mapping[int, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """One answer to a metadata request: the cluster's id, its brokers and topics."""

    cluster_id: str
    controller: int
    brokers: Mapping[int, Address]
    topics: Mapping[str, TopicMetadata] = field(default_factory=dict)
    racks: Mapping[int, str] = field(default_factory=dict)


def parse_bootstrap(bootstrap: str) -> list[Address]:
    """Reads `host:port,host:port`. Raises `Invalid` for any other form."""
    addresses = []
    for part in bootstrap.split(","):
        host, _, port = part.strip().rpartition(":")
        number = read_number(port)
        if not host or number is None or not 0 < number < 65_536:
            raise Invalid(f"{bootstrap!r} names no brokers", field="bootstrap", remedy="write host:port[,host:port…]")
        addresses.append((host.strip("[]"), number))
    return addresses


class Wire:
    """Connections to the brokers of one cluster, shared by one client's calls."""

    def __init__(
        self,
        bootstrap: str,
        client_id: str,
        security: Security,
        request_seconds: float,
        refusals: Refusals | None = None,
    ) -> None:
        """Connects to nobody yet. `refusals` are those of the cluster's other clients with the same credentials."""
        self._refusals = refusals or Refusals()
        self._settings = (bootstrap, client_id, security, request_seconds, self._refusals)
        self._bootstrap = parse_bootstrap(bootstrap)
        self._client_id = client_id
        self._security = security
        self._request_seconds = request_seconds
        self._brokers: dict[int, Address] = {}
        self._connections: dict[Address, AIOKafkaConnection] = {}
        self._replaced: set[AIOKafkaConnection] = set()  # whose sessions end soon, with requests under way
        self._locks: dict[Address, asyncio.Lock] = {}
        self._silences = count(1)
        self._silent: dict[Address, int] = {}  # those that did not answer when last asked, numbered in that order
        self._left: set[asyncio.Future[Response]] = set()  # questions that another broker has answered
        self._going: set[asyncio.Future[None]] = set()  # of connections that were closed and are not gone yet
        self._closed = False

    def beside(self) -> "Wire":
        """Returns other connections to the same brokers, for requests that must not wait behind a held one."""
        other = Wire(*self._settings)
        other._brokers = self._brokers
        return other

    async def ask(self, broker: int, request: Request) -> Response:
        """Sends a request of aiokafka's protocol to a broker (or `ANY_BROKER`) and returns the decoded answer.

        Raises:
            ClusterUnavailable: no connection, or no answer within the request timeout; it may have had its effect.
        """
        if broker == ANY_BROKER:
            address, connection = await self._connect_any()
        else:
            if broker not in self._brokers:
                await self.metadata([])
            if broker not in self._brokers:
                raise ClusterUnavailable(f"broker {broker} is not part of its cluster now")
            address = self._brokers[broker]
            connection = await self._connect(address)
        return await self._send(address, connection, request)

    async def ask_any(self, request: Request) -> Response:
        """Asks any broker a question that changes nothing.

        Raises as `ask`, once no broker answers. Raises as `ask`, once none of them does.

        One that takes its time is left to it, and another is asked beside it, as connections are tried in RFC 8305: it
        may be frozen, and whoever asks may have no time to find that out.
        """
        untried, failures = iter(self._by_silence()), list[ClusterUnavailable]()
        asked: dict[asyncio.Future[Response], Address] = {}
        try:
            while True:
                address = next(untried, None)
                if address is not None:
                    asked[asyncio.ensure_future(self._ask_at(address, request))] = address
                elif not asked:
                    raise _worst(failures)
                patience = ANY_BROKER_SECONDS if address is not None else None
                ended, _ = await asyncio.wait(asked, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                for each in ended:
                    del asked[each]
                answers = [each for each in ended if not isinstance(each.exception(), ClusterUnavailable)]
                if answers:
                    self._leave(asked)
                    return answers[0].result()
                failures += [error for each in ended if isinstance(error := each.exception(), ClusterUnavailable)]
        finally:
            for each in asked:
                each.cancel()

    def _leave(self, asked: dict[asyncio.Future[Response], Address]) -> None:
        """Leaves questions under way, which may still be answered; until then other brokers are asked first."""
        for each, address in asked.items():
            self._silent[address] = next(self._silences)
            self._left.add(each)
            each.add_done_callback(self._left.discard)
            each.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody wants to hear of it
        asked.clear()

    async def metadata(self, topics: Sequence[str] | None) -> ClusterMetadata:
        """Brokers and these topics (all when None), as any broker knows them now; the brokers are remembered."""
        answer = await self.ask_any(DescribeTopicsRequest(None if topics is None else list(topics)))
        brokers = {node: (host, port) for node, host, port, *_ in answer.brokers}
        found = {
            name: TopicMetadata(
                code,
                topic_id,
                {partition: leader for _, partition, leader, *_ in partitions},
                [number for _, number, _, _, replicas, in_step, *_ in partitions if len(in_step) < len(replicas)],
                {partition: epoch for _, partition, _, epoch, *_ in partitions},
                {partition: replicas for _, partition, _, _, replicas, *_ in partitions},
            )
            for code, name, topic_id, _, partitions, *_ in answer.topics
        }
        racks = {node: rack for node, _, _, rack, *_ in answer.brokers if rack}
        self._brokers.clear()
        self._brokers.update(brokers)
        return ClusterMetadata(answer.cluster_id or "", answer.controller_id, brokers, found, racks)

    async def close(self) -> None:
        """Drops all connections. A request under way fails."""
        self._closed = True
        for each in self._left:
            each.cancel()
        connections, self._connections = [*self._connections.values(), *self._replaced], {}
        self._replaced = set()
        for connection in connections:
            hang_up(connection)
        if self._going:
            await asyncio.wait(self._going, timeout=KAFKA_CLOSE_SECONDS)

    async def _send(self, address: Address, connection: AIOKafkaConnection, request: Request) -> Response:
        answered = False
        try:
            async with asyncio.timeout(self._request_seconds):
                answer = await connection.send(request)
            answered = True
            self._silent.pop(address, None)
        except FAILURES as error:
            raise self._silence(address, error) from error
        finally:
            # Also on cancellation: an answer that comes later would keep others on this connection waiting.
            if not answered or (connection in self._replaced and is_answered(connection)):
                self._drop(address, connection)
        return answer

    async def _ask_at(self, address: Address, request: Request) -> Response:
        return await self._send(address, await self._connect(address), request)

    def _by_silence(self) -> list[Address]:
        """Returns all known brokers: first those that answer, last the one that fell silent last."""
        known = dict.fromkeys([*self._connections, *self._brokers.values(), *self._bootstrap])
        return sorted(known, key=lambda address: self._silent.get(address, 0))

    async def _connect_any(self) -> tuple[Address, AIOKafkaConnection]:
        failures: list[ClusterUnavailable] = []
        for address in self._by_silence():
            try:
                return address, await self._connect(address)
            except ClusterUnavailable as error:
                failures.append(error)
        raise _worst(failures)

    async def _connect(self, address: Address) -> AIOKafkaConnection:
        async with self._locks.setdefault(address, asyncio.Lock()):
            connection = self._connections.get(address)
            if connection is not None and connection.connected() and not is_due(connection):
                return connection
            if connection is not None:
                self._replace(address, connection)
            if self._closed:
                raise ClusterUnavailable("the client is closed")
            connection = await self._open(address)
            self._keep(address, connection)
            return connection

    def _keep(self, address: Address, connection: AIOKafkaConnection) -> None:
        if self._closed:  # while it was opened: nobody else would ever hang it up
            hang_up(connection)
            raise ClusterUnavailable("the client is closed")
        self._connections[address] = connection

    async def _open(self, address: Address) -> AIOKafkaConnection:
        security = self._security.current()
        denial = security.denial(*address) or self._refusals.standing(address)
        if denial is not None:
            raise self._silence(address, denial)
        try:
            async with asyncio.timeout(self._request_seconds):
                await security.prepare()
                return await open_connection(
                    address[0],
                    address[1],
                    client_id=self._client_id,
                    request_timeout_ms=int(self._request_seconds * 1_000),
                    on_close=self._note_going,
                    **security.client_settings(),
                )
        except FAILURES as error:
            failure = self._silence(address, error)
            if isinstance(failure, ClusterAccessDenied):
                failure = security.explained(failure)
                self._refusals.note(address, failure)
            raise failure from error

    def _note_going(self, connection: AIOKafkaConnection, reason: object) -> None:
        """Notes a connection that ends, also by a refusal while it is opened: over TLS that takes a round trip."""
        gone: asyncio.Future[None] = connection._closed_fut
        if not gone.done():
            self._going.add(gone)
            gone.add_done_callback(self._going.discard)

    def _silence(self, address: Address, error: BaseException) -> ClusterUnavailable:
        """Notes that a broker does not answer: other brokers are asked first from now on."""
        self._silent[address] = next(self._silences)
        return _unavailable(address, error)

    def _replace(self, address: Address, connection: AIOKafkaConnection) -> None:
        """Makes room for another connection. What is under way over this one is still answered."""
        if connection.connected() and not is_answered(connection):
            del self._connections[address]
            self._replaced.add(connection)
        else:
            self._drop(address, connection)

    def _drop(self, address: Address, connection: AIOKafkaConnection) -> None:
        if self._connections.get(address) is connection:
            del self._connections[address]
        self._replaced.discard(connection)
        hang_up(connection)


def _worst(failures: Sequence[ClusterUnavailable]) -> ClusterUnavailable:
    """Returns the most telling of all brokers' errors."""
    if not failures:
        return ClusterUnavailable("the cluster has no brokers")
    for failure in failures:
        if isinstance(failure, ClusterAccessDenied):  # says more than that another one is away
            return failure
    if not all(error.metadata.get(REFUSED) for error in failures):
        failures[-1].metadata.pop(REFUSED, None)  # some broker may only be slow to answer
    return failures[-1]


def hang_up(connection: AIOKafkaConnection) -> None:
    """Ends a connection at once, dropping what is not on the wire yet.

    aiokafka's own `close` waits until everything written was taken, which a frozen broker never does.
    """
    writer = connection._writer
    if writer is not None:
        raw = writer.transport.get_extra_info("socket")
        if raw is not None:
            with contextlib.suppress(OSError):
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        writer.transport.abort()
    connection.close()


@contextlib.asynccontextmanager
async def bounded(seconds: float, subject: str) -> AsyncIterator[None]:
    """Bounds a call's whole time. Raises `ClusterUnavailable` at its end."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise ClusterUnavailable(f"{subject}: the cluster did not answer within {seconds} s") from error


def _unavailable(address: Address, error: BaseException) -> ClusterUnavailable:
    denied = access_error(error, f"broker {address[0]}:{address[1]}")
    if denied is not None:
        return denied
    reason = str(error) or type(error).__name__
    refused = {REFUSED: "true"} if _is_refusal(error) else None
    return ClusterUnavailable(f"broker {address[0]}:{address[1]} does not answer: {reason}", metadata=refused)


def _is_refusal(error: BaseException) -> bool:
    """Whether every address of a name refused the connection; asyncio puts those into one text."""
    texts = str(error).split("[Errno ")[1:]
    return (
        isinstance(error, OSError) and all(text.startswith(f"{errno.ECONNREFUSED}]") for text in texts) and bool(texts)
    )
