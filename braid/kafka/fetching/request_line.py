"""Requests that brokers may hold: one at a time on the connection to each broker."""

import asyncio
from collections.abc import Collection, Coroutine

from aiokafka.protocol.api import Response

from braid.kafka.protocol.wire import Wire
from braid.kernel.limits.kafka import KAFKA_THROTTLE_SECONDS_MAX


class RequestLine:
    """A connection to each broker, and the request under way on it. Instants are on the event loop's clock.

    Attributes:
        wire: The connections.
        wait_ms: How long a broker may hold a request for which it has nothing.
    """

    def __init__(self, wire: Wire, wait_ms: int) -> None:
        self.wire = wire
        self.wait_ms = wait_ms
        self._requests: dict[int, tuple[asyncio.Task[None], float]] = {}  # by broker, and when it was sent

    @property
    def tasks(self) -> Collection[asyncio.Task[None]]:
        """All requests under way."""
        return [task for task, _ in self._requests.values()]

    def due(self) -> Collection[float]:
        """When the answer of each request under way is due."""
        return [since + self.wait_ms / 1_000 for _, since in self._requests.values()]

    def is_free(self, broker: int) -> bool:
        """Whether a broker may be sent a request."""
        return broker not in self._requests

    def since(self, broker: int, now: float) -> float:
        """Returns when the request under way at a broker was sent; now if there is none."""
        return now if self.is_free(broker) else self._requests[broker][1]

    def begin(self, broker: int, request: Coroutine[None, None, None], now: float) -> None:
        """Sends a request; it calls `end` when it is over."""
        self._requests[broker] = (asyncio.create_task(request), now)

    async def hold(self, broker: int, answer: Response) -> None:
        """Waits for as long as a broker's answer says that it reads nothing more from this connection (KIP-219).

        The client's user is at a quota. Until then no answer is due, and the broker is sent nothing.
        """
        throttle_ms = getattr(answer, "throttle_time_ms", 0)
        if throttle_ms and broker in self._requests:
            seconds = min(throttle_ms / 1_000, KAFKA_THROTTLE_SECONDS_MAX)
            self._requests[broker] = self._requests[broker][0], asyncio.get_running_loop().time() + seconds
            await asyncio.sleep(seconds)

    def end(self, broker: int) -> None:
        """Frees the broker's connection for the next request."""
        del self._requests[broker]
