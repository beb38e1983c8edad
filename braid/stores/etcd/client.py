"""A thin client of etcd on grpc.aio: channels, rotation over endpoints, deadlines, and the meaning of etcd's statuses.

It knows etcd's methods but none of Braid's keys. Reads and other idempotent calls are tried on one endpoint after the
other within a bound. A transaction is sent once, whatever happens.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import grpc
from google.protobuf.message import Message

from braid.kernel.errors import BraidError, Compacted, Exhausted, NotFound, OutcomeUnknown, Refused, StoreUnavailable
from braid.kernel.limits.store import (
    ETCD_CONNECT_MS,
    ETCD_KEEPALIVE_MS,
    ETCD_KEEPALIVE_TIMEOUT_MS,
    ETCD_MESSAGE_BYTES_MAX,
    ETCD_READ_SECONDS,
    ETCD_RECONNECT_MS_MAX,
    ETCD_RECONNECT_MS_MIN,
    STORE_CALL_SECONDS,
)
from braid.kernel.ports import Clock
from braid.stores.etcd import requests
from braid.stores.etcd.streaming import EtcdStream, cancelled_from_outside
from braid.stores.etcd_wire import etcd_pb2 as wire

Q = TypeVar("Q", bound=Message)
R = TypeVar("R", bound=Message)


@dataclass(frozen=True, slots=True)
class Method(Generic[Q, R]):
    """One of etcd's methods: its path and the messages it takes and gives."""

    path: str
    request: type[Q]
    response: type[R]


TXN: Final = Method("/etcdserverpb.KV/Txn", wire.TxnRequest, wire.TxnResponse)
RANGE: Final = Method("/etcdserverpb.KV/Range", wire.RangeRequest, wire.RangeResponse)
PUT: Final = Method("/etcdserverpb.KV/Put", wire.PutRequest, wire.PutResponse)
WATCH: Final = Method("/etcdserverpb.Watch/Watch", wire.WatchRequest, wire.WatchResponse)
LEASE_GRANT: Final = Method("/etcdserverpb.Lease/LeaseGrant", wire.LeaseGrantRequest, wire.LeaseGrantResponse)
LEASE_REVOKE: Final = Method("/etcdserverpb.Lease/LeaseRevoke", wire.LeaseRevokeRequest, wire.LeaseRevokeResponse)
LEASE_KEEP_ALIVE: Final = Method(
    "/etcdserverpb.Lease/LeaseKeepAlive", wire.LeaseKeepAliveRequest, wire.LeaseKeepAliveResponse
)

_OPTIONS: Final = (
    ("grpc.enable_retries", 0),  # also switches off gRPC's own, "transparent" retries: a transaction is sent once
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.max_send_message_length", ETCD_MESSAGE_BYTES_MAX),
    ("grpc.max_receive_message_length", ETCD_MESSAGE_BYTES_MAX),
    ("grpc.keepalive_time_ms", ETCD_KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", ETCD_KEEPALIVE_TIMEOUT_MS),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", ETCD_RECONNECT_MS_MIN),
    ("grpc.max_reconnect_backoff_ms", ETCD_RECONNECT_MS_MAX),
    ("grpc.min_reconnect_backoff_ms", ETCD_CONNECT_MS),
    ("grpc.use_local_subchannel_pool", 1),  # connections of our own: closing one store leaves the others alone
)
# With this, a member that has lost its leader ends the stream instead of falling silent on it.
_REQUIRE_LEADER: Final = (("hasleader", "true"),)
_PAUSE_SECONDS: Final = ETCD_RECONNECT_MS_MIN / 1000
# Statuses of calls that were not carried out and never will be. After any other, a write may have happened.
_REFUSALS: Final[dict[grpc.StatusCode, type[BraidError]]] = {
    grpc.StatusCode.INVALID_ARGUMENT: Exhausted,  # request too large, too many operations
    grpc.StatusCode.NOT_FOUND: NotFound,  # a lease that has ended
    grpc.StatusCode.OUT_OF_RANGE: Compacted,
    grpc.StatusCode.FAILED_PRECONDITION: Refused,
    grpc.StatusCode.PERMISSION_DENIED: Refused,
    grpc.StatusCode.UNAUTHENTICATED: Refused,
    grpc.StatusCode.UNIMPLEMENTED: Refused,
}


def refusal(code: grpc.StatusCode, details: str) -> BraidError | None:
    """Returns the error of a call that etcd refused outright; None when its outcome is not known."""
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and details.startswith("etcdserver:"):
        return StoreUnavailable(details, remedy="etcd is overloaded or out of space; see its alarms and quota")
    kind = _REFUSALS.get(code)
    return kind(details) if kind else None


class EtcdClient:
    """Sends calls to one of several endpoints, and to the next one when that fails."""

    def __init__(self, endpoints: Sequence[str], clock: Clock, credentials: grpc.ChannelCredentials | None) -> None:
        if not endpoints:
            raise ValueError("etcd needs at least one endpoint, host:port")
        self._endpoints = tuple(endpoints)
        self._clock = clock
        self._credentials = credentials
        self._channels: dict[int, grpc.aio.Channel] = {}
        self._current = 0
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    async def call(self, method: Method[Q, R], request: Q, seconds: float = ETCD_READ_SECONDS) -> R:
        """Makes an idempotent call, on one endpoint after the other until `seconds` are over.

        Raises:
            StoreUnavailable: no endpoint answered in time.
            BraidError: etcd refused it (see `refusal`).
        """
        deadline = self._clock.elapsed() + seconds
        while True:
            remaining_seconds = deadline - self._clock.elapsed()
            try:
                return await self._attempt(method, request, min(STORE_CALL_SECONDS, remaining_seconds))
            except OutcomeUnknown as failure:
                if self._closed or self._clock.elapsed() + _PAUSE_SECONDS >= deadline:
                    raise self._unavailable(failure.message) from failure
            await self._clock.sleep(_PAUSE_SECONDS)

    async def read(self, *ranges: wire.RangeRequest) -> requests.Answer:
        """Reads several ranges at one revision, linearizably. Raises as `call` does."""
        request = wire.TxnRequest(success=[requests.reading(each) for each in ranges])
        return requests.answer(await self.call(TXN, request))

    async def transact(self, request: wire.TxnRequest) -> requests.Answer:
        """Sends a transaction once.

        Raises:
            OutcomeUnknown: it was not answered; it may have happened, or may still.
            BraidError: etcd refused it, nothing was written (see `refusal`).
        """
        return requests.answer(await self._attempt(TXN, request, STORE_CALL_SECONDS))

    @asynccontextmanager
    async def stream(self, method: Method[Q, R]) -> AsyncIterator[EtcdStream[Q, R]]:
        """Opens a bidirectional stream on the current endpoint; when it breaks, the next one is current.

        Raises:
            StoreUnavailable: it broke, while it is used.
        """
        index = self._current
        opened: grpc.aio.StreamStreamMultiCallable[Q, R] = self._channel(index).stream_stream(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        stream = EtcdStream(opened(metadata=_REQUIRE_LEADER))
        try:
            yield stream
        except StoreUnavailable:
            self._rotate(index)
            raise
        finally:
            await stream.close()

    async def close(self) -> None:
        """Closes every connection; calls under way end in `StoreUnavailable`."""
        self._closed = True
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.close()

    async def _attempt(self, method: Method[Q, R], request: Q, timeout_seconds: float) -> R:
        index = self._current
        call = self._channel(index).unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        try:
            return await call(request, timeout=timeout_seconds)
        except grpc.aio.AioRpcError as error:
            details = error.details() or ""
            refused = refusal(error.code(), details)
            if refused:
                raise refused from error
            self._rotate(index)
            raise OutcomeUnknown(f"{self._endpoints[index]}: {error.code().name}: {details}") from error
        except asyncio.CancelledError as error:
            if not self._closed or cancelled_from_outside():
                raise
            raise OutcomeUnknown("the store was closed") from error

    def _channel(self, index: int) -> grpc.aio.Channel:
        if self._closed:
            raise self._unavailable("the store was closed")
        if index not in self._channels:
            target = self._endpoints[index]
            self._channels[index] = (
                grpc.aio.secure_channel(target, self._credentials, options=_OPTIONS)
                if self._credentials
                else grpc.aio.insecure_channel(target, options=_OPTIONS)
            )
        return self._channels[index]

    def _rotate(self, failed: int) -> None:
        """Moves on from an endpoint, once, however many calls failed on it."""
        if self._current == failed:
            self._current = (failed + 1) % len(self._endpoints)

    def _unavailable(self, why: str) -> StoreUnavailable:
        return StoreUnavailable(
            f"etcd does not answer at {', '.join(self._endpoints)}: {why}", remedy="check that most members of etcd run"
        )


@contextmanager
def settled_by_next_read() -> Iterator[None]:
    """Turns an unknown outcome into `StoreUnavailable`, for callers that read again anyhow."""
    try:
        yield
    except OutcomeUnknown as error:
        raise StoreUnavailable(error.message) from error
