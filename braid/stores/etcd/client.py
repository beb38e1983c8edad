"""A thin client of etcd on grpc.aio: rotation over endpoints, deadlines, tokens, and what a failure leaves open.

It knows etcd's methods but none of Braid's keys. Reads and other idempotent calls are tried on one endpoint after the
other within a bound. A transaction is carried out once at most: it is sent again only where it cannot have been taken,
because no connection was made or etcd refused the user's token.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import grpc
from google.protobuf.message import Message

from braid.host.store_credentials import StoreCredentials
from braid.host.tls.files import TlsFiles
from braid.kernel.errors import BraidError, OutcomeUnknown, StoreAccessDenied, StoreUnavailable
from braid.kernel.limits.store import ETCD_READ_SECONDS, ETCD_RECONNECT_MS_MIN, STORE_CALL_SECONDS
from braid.kernel.ports import Clock
from braid.stores.etcd import requests
from braid.stores.etcd.denials import TOKEN, denial, refusal, user_missing
from braid.stores.etcd.links import EtcdLink
from braid.stores.etcd.streaming import EtcdStream, cancelled_from_outside
from braid.stores.etcd.users import EtcdUser
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
AUTHENTICATE: Final = Method("/etcdserverpb.Auth/Authenticate", wire.AuthenticateRequest, wire.AuthenticateResponse)
LEASE_KEEP_ALIVE: Final = Method(
    "/etcdserverpb.Lease/LeaseKeepAlive", wire.LeaseKeepAliveRequest, wire.LeaseKeepAliveResponse
)

# With this, a member that has lost its leader ends the stream instead of falling silent on it.
_REQUIRE_LEADER: Final = (("hasleader", "true"),)
_PAUSE_SECONDS: Final = ETCD_RECONNECT_MS_MIN / 1000


class EtcdClient:
    """Sends calls to one of several endpoints, and to the next one when that fails.

    Args:
        endpoints: Of the members, `host:port` each.
        clock: The process's.
        credentials: What to show them; None for plain text without a user.

    Raises:
        Invalid: the files of TLS cannot be used.
    """

    def __init__(self, endpoints: Sequence[str], clock: Clock, credentials: StoreCredentials | None = None) -> None:
        if not endpoints:
            raise ValueError("etcd needs at least one endpoint, host:port")
        shown = credentials or StoreCredentials()
        self._endpoints = tuple(endpoints)
        self._clock = clock
        self._files = TlsFiles(shown.tls) if shown.tls is not None else None
        self._user: EtcdUser | None = None
        if shown.password_file is not None:
            self._user = EtcdUser(shown.user, shown.password_file, clock, self._authenticate)
        self._links: dict[int, EtcdLink] = {}
        self._current = 0
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    async def call(self, method: Method[Q, R], request: Q, seconds: float = ETCD_READ_SECONDS) -> R:
        """Makes an idempotent call, on one endpoint after the other until `seconds` are over.

        Raises:
            StoreAccessDenied: no endpoint lets this process in, or etcd does not allow it the call.
            StoreUnavailable: no endpoint answered in time.
            BraidError: etcd refused it (see `denials.refusal`).
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
        """Sends a transaction, which is carried out once at most.

        Raises:
            OutcomeUnknown: it was not answered; it may have happened, or may still.
            StoreAccessDenied: no endpoint lets this process in, or etcd does not allow it; nothing was written.
            BraidError: etcd refused it, nothing was written (see `denials.refusal`).
        """
        return requests.answer(await self._attempt(TXN, request, STORE_CALL_SECONDS))

    @asynccontextmanager
    async def stream(self, method: Method[Q, R]) -> AsyncIterator[EtcdStream[Q, R]]:
        """Opens a bidirectional stream on the current endpoint; when it breaks, the next one is current.

        Raises:
            StoreAccessDenied: the endpoint does not let this process in, or etcd does not allow the stream.
            StoreUnavailable: it broke, while it is used.
        """
        token = await self._token()
        index = self._current
        link = self._link(index)
        with link.channel() as channel:
            opened: grpc.aio.StreamStreamMultiCallable[Q, R] = channel.stream_stream(
                method.path,
                request_serializer=method.request.SerializeToString,
                response_deserializer=method.response.FromString,
            )
            metadata = (*_REQUIRE_LEADER, *_shown(token))
            stream = EtcdStream(opened(metadata=metadata), lambda: link.outdated(channel))
            try:
                yield stream
            except StoreUnavailable as failure:
                raise await self._end_of_stream(index, token, failure) from failure
            finally:
                await stream.close()

    async def heard(self, cancel_reason: str) -> bool:
        """Takes note of why etcd cancelled a watch; True when another token, on another stream, may help."""
        return self._token_is_over(denial(cancel_reason), await self._token())

    async def close(self) -> None:
        """Closes every connection; calls under way end in `StoreUnavailable`."""
        self._closed = True
        links, self._links = self._links, {}
        for link in links.values():
            await link.close()

    async def _attempt(self, method: Method[Q, R], request: Q, timeout_seconds: float) -> R:
        """Sends a call, and again if etcd refused the token: then it did not look at the request."""
        token = await self._token()
        try:
            return await self._send(method, request, timeout_seconds, token)
        except StoreAccessDenied as error:
            if not self._token_is_over(error, token):
                raise user_missing() if error.problem == TOKEN else error from None
        return await self._send(method, request, timeout_seconds, await self._token())

    async def _send(self, method: Method[Q, R], request: Q, timeout_seconds: float, token: str) -> R:
        """Sends a call to the first endpoint that lets this process in. The others were sent nothing."""
        for _ in self._endpoints[1:]:
            try:
                return await self._send_once(method, request, timeout_seconds, token)
            except StoreAccessDenied as error:
                if error.problem != "connection":
                    raise
        return await self._send_once(method, request, timeout_seconds, token)

    async def _send_once(self, method: Method[Q, R], request: Q, timeout_seconds: float, token: str) -> R:
        index = self._current
        try:
            return await self._ask(index, method, request, timeout_seconds, token)
        except grpc.aio.AioRpcError as error:
            refused = refusal(error.code(), error.details() or "")
            raise refused or await self._broken(index, error) from error

    async def _ask(self, index: int, method: Method[Q, R], request: Q, timeout_seconds: float, token: str) -> R:
        link = self._link(index)
        with link.channel() as channel:
            call = channel.unary_unary(
                method.path,
                request_serializer=method.request.SerializeToString,
                response_deserializer=method.response.FromString,
            )
            try:
                answer = await call(request, timeout=timeout_seconds, metadata=_shown(token))
            except asyncio.CancelledError as error:
                if not self._closed or cancelled_from_outside():
                    raise
                raise OutcomeUnknown("the store was closed") from error
        link.answered()
        return answer

    async def _broken(self, index: int, error: grpc.aio.AioRpcError) -> StoreAccessDenied | OutcomeUnknown:
        """The error of a call that etcd did not refuse; the next one goes to another endpoint."""
        self._rotate(index)
        said, link = f"{self._endpoints[index]}: {error.code().name}: {error.details() or ''}", self._links.get(index)
        if link is None:  # the client was closed
            return OutcomeUnknown(said)
        return await link.denial(error) or OutcomeUnknown(f"{said}{link.hint(error)}")

    async def _end_of_stream(self, index: int, token: str, failure: StoreUnavailable) -> StoreUnavailable:
        error = failure.__cause__
        if not isinstance(error, grpc.aio.AioRpcError):
            self._rotate(index)
            return failure
        refused = denial(error.details() or "")
        if self._token_is_over(refused, token):
            return failure
        if refused is not None and refused.problem == TOKEN:
            return user_missing()
        broken = refused or await self._broken(index, error)
        return broken if isinstance(broken, StoreAccessDenied) else failure

    def _token_is_over(self, refused: StoreAccessDenied | None, token: str) -> bool:
        """Whether another token may help; this one is not shown again then.

        Before etcd's users are switched on there is none. Afterwards etcd takes the certificate's name for a user.
        """
        if self._user is None or refused is None:
            return False
        unknown = refused.problem == "permission" and not token
        if not unknown and refused.problem != TOKEN:
            return False
        self._user.forget(token)
        return True

    async def _token(self) -> str:
        return await self._user.token() if self._user is not None else ""

    async def _authenticate(self, name: str, password: str) -> str:
        """Asks for a token on one endpoint after the other."""
        request = wire.AuthenticateRequest(name=name, password=password)
        failure: BraidError = self._unavailable("it was not asked")
        for _ in self._endpoints:
            index = self._current
            try:
                return (await self._ask(index, AUTHENTICATE, request, STORE_CALL_SECONDS, "")).token
            except grpc.aio.AioRpcError as error:
                if refusal(error.code(), error.details() or ""):
                    raise
                failure = await self._broken(index, error)
        raise failure if isinstance(failure, StoreAccessDenied) else self._unavailable(failure.message)

    def _link(self, index: int) -> EtcdLink:
        if self._closed:
            raise self._unavailable("the store was closed")
        if index not in self._links:
            self._links[index] = EtcdLink(self._endpoints[index], self._files)
        return self._links[index]

    def _rotate(self, failed: int) -> None:
        """Moves on from an endpoint, once, however many calls failed on it."""
        if self._current == failed:
            self._current = (failed + 1) % len(self._endpoints)

    def _unavailable(self, why: str) -> StoreUnavailable:
        return StoreUnavailable(
            f"etcd does not answer at {', '.join(self._endpoints)}: {why}", remedy="check that most members of etcd run"
        )


def _shown(token: str) -> tuple[tuple[str, str], ...]:
    return (("token", token),) if token else ()


@contextmanager
def settled_by_next_read() -> Iterator[None]:
    """Turns an unknown outcome into `StoreUnavailable`, for callers that read again anyhow."""
    try:
        yield
    except OutcomeUnknown as error:
        raise StoreUnavailable(error.message) from error
