"""A bidirectional stream of grpc.aio: its every end is `StoreUnavailable`, and reads can be waited for in parts."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar, cast

import grpc
from google.protobuf.message import Message

from braid.kernel.errors import StoreUnavailable
from braid.kernel.limits.store import STORE_CALL_SECONDS

Q = TypeVar("Q", bound=Message)
R = TypeVar("R", bound=Message)


class EtcdStream(Generic[Q, R]):
    """An open stream; `EtcdClient.stream` makes and closes it.

    Args:
        call: The stream as grpc has it.
        outdated: Whether certificates changed since its connection was made.
    """

    def __init__(self, call: grpc.aio.StreamStreamCall[Q, R], outdated: Callable[[], bool]) -> None:
        self._call = call
        self.outdated = outdated
        self._reading: asyncio.Task[R] | None = None

    async def send(self, message: Q) -> None:
        """Sends a message. Raises `StoreUnavailable` when the stream is broken or does not take it in time."""
        try:
            async with asyncio.timeout(STORE_CALL_SECONDS):
                await self._call.write(message)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError, TimeoutError) as error:
            raise StoreUnavailable(f"etcd takes nothing on a stream: {error}") from error
        except asyncio.CancelledError as error:
            if cancelled_from_outside():
                raise
            raise StoreUnavailable("the store was closed") from error

    async def receive(self, timeout_seconds: float) -> R | None:
        """Returns the next message; None if there was none in time and the stream continues.

        Raises:
            StoreUnavailable: the stream ended.
        """
        # Cancelling a read of grpc.aio ends the whole call; hence a task that outlives the wait for it.
        reading = self._reading or asyncio.ensure_future(self._read())
        self._reading = reading
        done, _ = await asyncio.wait({reading}, timeout=timeout_seconds)
        if not done:
            return None
        self._reading = None
        if reading.cancelled():
            raise StoreUnavailable("the store was closed")
        return reading.result()

    async def close(self) -> None:
        """Ends the stream."""
        self._call.cancel()
        if self._reading:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def _read(self) -> R:
        try:
            message = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise StoreUnavailable(f"etcd ended a stream: {error.code().name}: {error.details()}") from error
        if message is grpc.aio.EOF:
            raise StoreUnavailable("etcd ended a stream")
        return cast("R", message)


def cancelled_from_outside() -> bool:
    """Whether a `CancelledError` was meant for the running task; closing a channel raises one in its calls, too."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
