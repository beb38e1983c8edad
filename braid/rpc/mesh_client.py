"""Clients of the services: they follow redirects to the leader, and retry within a deadline.

They know endpoints and errors, not the meaning of calls.
"""

from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from braid.kernel.access.quotas import retry_seconds
from braid.kernel.errors import (
    BraidError,
    ClusterUnavailable,
    DeadlineExceeded,
    NotLeader,
    QuotaExceeded,
    StreamExpired,
    Unavailable,
)
from braid.kernel.limits.rpc import UNARY_DEADLINE_SECONDS
from braid.kernel.ports import CallOptions, DuplexCall, Host
from braid.rpc.attempts import Attempts
from braid.rpc.directory import Directory
from braid.rpc.methods import method_path
from braid.telemetry.calls import call_tracer, called

T = TypeVar("T")


class ServiceClient:
    """Calls one service, wherever its leader is. Methods are short names (`MoveStream`)."""

    def __init__(
        self, directory: Directory, service: str, host: Host, *, principal: str = "", tenant: str = "default"
    ) -> None:
        self._directory = directory
        self._service = service
        self._host = host
        self._principal = principal
        self._tenant = tenant
        self._tracer = call_tracer()

    async def unary(
        self,
        method: str,
        request: object,
        response_type: type[T],
        *,
        timeout_seconds: float = UNARY_DEADLINE_SECONDS,
        request_id: str = "",
        any_replica: bool = False,
    ) -> T:
        """Sends a request until it is answered: follows redirects, and retries while replicas are unavailable, within
        the timeout.

        Every attempt carries the same request id (a fresh one if none is given), so that a mutation happens once.

        Raises:
            Unavailable: no replica answered within the timeout; the last reason is in the message.
            QuotaExceeded: the tenant of the caller has too much, or called too often for all of the timeout.
            DeadlineExceeded: the replica that was asked did not answer within the timeout.
            BraidError: the service's answer is this error.
        """
        path = method_path(self._service, method)
        request_id = request_id or self._host.ids.ulid()
        deadline = self._host.clock.elapsed() + timeout_seconds
        attempts = Attempts(self._host, deadline)
        while True:
            left, address = attempts.left(), ""
            try:
                address = await self._address(any_replica, attempts.count)
                with called(self._tracer, path, address) as trace:
                    options = CallOptions(left, request_id, self._tenant, self._principal, trace)
                    return await self._directory.channel(address).unary(path, request, response_type, options)
            except ClusterUnavailable:  # the replica's own answer about a Kafka cluster
                raise
            except DeadlineExceeded as error:  # it may be frozen: the next call asks around first
                self._learn(address, error, any_replica)
                raise
            except (Unavailable, NotLeader) as error:
                self._learn(address, error, any_replica)
                await attempts.next(error)
            except QuotaExceeded as error:  # its tenant calls too often; of what it has too much, no time gives back
                if not retry_seconds(error):
                    raise
                await attempts.next(error)

    async def server_stream(
        self, method: str, request: object, response_type: type[T], *, any_replica: bool = False
    ) -> AsyncIterator[T]:
        """Opens one stream and yields its messages; after an error the caller decides where to resume.

        Raises:
            NotLeader: leadership changed, and the directory has been updated; open the stream again.
            Unavailable: the stream broke, or no replica can be reached.
        """
        address = await self._address(any_replica, wait=not any_replica)
        path = method_path(self._service, method)
        try:
            stream = self._directory.channel(address).server_stream(
                path, request, response_type, self._stream_options()
            )
            async for message in stream:
                yield message
        except (Unavailable, NotLeader) as error:
            self._learn(address, error, any_replica)
            raise

    async def duplex(self, method: str, response_type: type, *, any_replica: bool = False) -> DuplexCall:
        """Opens a bidirectional stream, to the leader or to any replica. Redirects update the directory.

        If there is no leader, the replica that is asked waits briefly for one.

        Raises:
            Unavailable: no known replica can be asked.
        """
        address = await self._address(any_replica, wait=not any_replica)
        path = method_path(self._service, method)
        call = self._directory.channel(address).duplex(path, response_type, self._stream_options())
        return _LearningCall(
            call, lambda error: self._learn(address, error, any_replica), lambda: self._directory.heard(address)
        )

    def hearing(self) -> Callable[[], float]:
        """A function that returns when the present leader last sent a message on any stream (`Clock.elapsed`)."""
        address = self._directory.leader(self._service)
        return lambda: self._directory.heard_at(address)

    def forget_leader(self) -> None:
        """Notes that the leader is silent: the next call refreshes the directory first."""
        self._directory.learn_leader(self._service, "")

    def _stream_options(self) -> CallOptions:
        return CallOptions(0.0, self._host.ids.ulid(), self._tenant, self._principal)

    async def _address(self, any_replica: bool, attempt: int = 0, *, wait: bool = False) -> str:
        found = self._known(any_replica, attempt)
        if not found:
            await self._directory.refresh(self._service if wait else "")
            found = self._known(any_replica, attempt)
        if not found:
            why = f": {self._directory.store_trouble}" if self._directory.store_trouble else ""
            raise Unavailable(f"no {'replica' if any_replica else 'leader'} of {self._service} is known{why}")
        return found

    def _known(self, any_replica: bool, attempt: int) -> str:
        replicas = self._directory.replicas(self._service)
        if any_replica and replicas:
            return replicas[attempt % len(replicas)]
        return self._directory.leader(self._service)

    def _learn(self, address: str, error: BraidError, any_replica: bool = False) -> None:
        if isinstance(error, StreamExpired):  # nothing is wrong with who said so
            return
        if isinstance(error, NotLeader):
            self._directory.learn_leader(self._service, error.leader if error.leader != address else "")
        elif address and self._directory.leader(self._service) == address:
            self._directory.learn_leader(self._service, "")
        if any_replica and address and not isinstance(error, NotLeader):
            self._directory.forget(address)


class _LearningCall:
    """A duplex call that updates the directory from its errors, and counts its messages as signs of life."""

    def __init__(self, call: DuplexCall, learn: Callable[[BraidError], None], heard: Callable[[], None]) -> None:
        self._call = call
        self._learn = learn
        self._heard = heard

    async def send(self, message: object) -> None:
        try:
            await self._call.send(message)
        except (Unavailable, NotLeader) as error:
            self._learn(error)
            raise

    async def receive(self) -> object | None:
        try:
            message = await self._call.receive()
        except (Unavailable, NotLeader) as error:
            self._learn(error)
            raise
        self._heard()
        return message

    async def close(self) -> None:
        await self._call.close()
