"""How long brokers hold a producer back that is at its quota, and the wait that they ask for (KIP-219).

A broker answers at once, says how long it will read nothing more from this connection, and then does so. aiokafka
ignores what it says. Its next request would time out, and the cluster would seem to be away.
"""

import asyncio
import math

from aiokafka import AIOKafkaProducer
from aiokafka.client import ConnectionGroup
from aiokafka.protocol.api import Request, Response
from aiokafka.protocol.produce import ProduceRequest

from braid.kernel.limits.kafka import KAFKA_THROTTLE_SECONDS_MAX


class Throttle:
    """The waits that brokers asked one producer for, over all its connections."""

    def __init__(self) -> None:
        """Begins where no broker has held it back."""
        self._until: dict[int, float] = {}  # by broker, on the loop's time

    def prepare(self, producer: AIOKafkaProducer) -> None:
        """Lets a producer that is not started wait for as long as brokers say."""
        client = producer.client
        send = client.send

        async def send_in_time(
            node: int, request: Request, *, group: ConnectionGroup = ConnectionGroup.DEFAULT
        ) -> Response:
            if isinstance(request, ProduceRequest):
                await asyncio.sleep(max(0.0, self._until.get(node, -math.inf) - _now()))
            answer: Response = await send(node, request, group=group)
            if throttle_ms := getattr(answer, "throttle_time_ms", 0):
                self._until[node] = _now() + min(throttle_ms / 1_000, KAFKA_THROTTLE_SECONDS_MAX)
            return answer

        client.send = send_in_time

    def seconds(self) -> float:
        """See `KafkaProducer.throttled_seconds`."""
        return max(self._until.values(), default=-math.inf) - _now()


def _now() -> float:
    return asyncio.get_running_loop().time()
