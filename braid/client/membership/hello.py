"""How a member says hello, and how long it waits for its welcome where thousands join at once. No state here."""

from collections.abc import Callable, Iterable

from braid.api.assigner.v1 import join_pb2 as wire
from braid.client.records.delivery import OwnedLease
from braid.client.tasks import within
from braid.kernel.limits.leases import WELCOME_ALIVE_SECONDS_MAX, WELCOME_SECONDS_MAX
from braid.kernel.ports import Clock, DuplexCall


def greeting(
    hello: wire.MemberHello, held: Iterable[OwnedLease], found: Iterable[wire.RestoreFindings]
) -> wire.JoinRequest:
    """A hello that names what is held, and what was found where work on that began."""
    own = {(str(each.id), each.epoch): each for each in held}
    said = wire.MemberHello()
    said.CopyFrom(hello)
    said.found.extend(each for each in found if (each.lease, each.epoch) in own)
    said.held.extend(wire.HeldLease(lease=str(each.id), epoch=each.epoch) for each in own.values())
    return wire.JoinRequest(hello=said)


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
        alive_at = min(heard_at(), began + WELCOME_ALIVE_SECONDS_MAX)
        return max(asked_at + seconds, alive_at + patience_seconds)

    while True:
        message = await within(clock, deadline, call.receive)
        if not isinstance(message, wire.JoinResponse) or message.WhichOneof("message") != "queued":
            return message
        asked_at, seconds = clock.elapsed(), min(message.queued.wait_ms / 1000, WELCOME_SECONDS_MAX)
