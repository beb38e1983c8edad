"""How long a member waits for its welcome, where thousands join at once and either side may be slow."""

from collections.abc import Callable

from braid.api.assigner.v1 import join_pb2 as wire
from braid.client.watched import within
from braid.kernel import limits
from braid.kernel.ports import Clock, DuplexCall


async def welcome(clock: Clock, call: DuplexCall, patience_seconds: float, heard_at: Callable[[], float]) -> object:
    """The first message on a Join stream that does not only say how long the queue is; None when the stream ended.

    Args:
        clock: Of the process.
        call: The stream, on which hello was just said.
        patience_seconds: How long it is waited for, and how long after each sign of life of the assigner.
        heard_at: When the assigner gave one, to any member of this process (`Clock.elapsed`).

    Raises:
        TimeoutError: it did not come.
    """
    seconds = patience_seconds
    asked_at = began = clock.elapsed()

    def deadline() -> float:
        alive_at = min(heard_at(), began + limits.WELCOME_ALIVE_SECONDS_MAX)
        return max(asked_at + seconds, alive_at + patience_seconds)

    while True:
        message = await within(clock, deadline, call.receive)
        if not isinstance(message, wire.JoinResponse) or message.WhichOneof("message") != "queued":
            return message
        asked_at, seconds = clock.elapsed(), min(message.queued.wait_ms / 1000, limits.WELCOME_SECONDS_MAX)
