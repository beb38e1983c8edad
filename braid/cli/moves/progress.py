"""The work of `move --wait`: shows what the old channels wait for, until all of them are drained."""

from collections.abc import Callable, Collection, Sequence
from typing import Final

from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1 import stream_pb2
from braid.cli.core.limits import CLI_WATCH_SECONDS
from braid.cli.core.output import Format
from braid.cli.core.session import Session
from braid.cli.resources.listing import waits_for
from braid.kernel.errors import ClusterUnavailable, DeadlineExceeded, Unavailable

_DRAINING: Final = stream_pb2.CHANNEL_STATE_DRAINING


async def wait_drained(session: Session, moved: api.MoveStreamResponse, format: Format, seconds: float) -> int:
    """Waits until the old channels of a recent move are drained, and prints what they wait for whenever it changes.

    These are the channels that gave traffic up in the move, and others of the stream that were draining already.

    Raises:
        DeadlineExceeded: it takes longer; the drain continues.
        NotFound: the stream was deleted meanwhile.
    """
    name, clock = moved.stream.name, session.ports.host.clock
    old = {channel for move in moved.moves for channel in move.from_channels} | set(_draining(moved.stream))
    say: Callable[[str], None] = session.terminal.print if format is Format.TABLE else session.terminal.note
    deadline, told = clock.elapsed() + seconds, ""
    while old:
        try:
            stream = await session.read("registry", "GetStream", api.GetStreamRequest(name=name), stream_pb2.Stream)
        except ClusterUnavailable:
            raise
        except Unavailable:  # a wait outlives its mesh's restarts
            stream = None
        if stream is not None:
            left = _left(stream, old)
            text = "; ".join(map(_waiting, left)) or f"drained: {', '.join(sorted(old))}"
            if text != told:
                say(f"stream/{name} {text}")
            told = text
            if not left:
                return 0
        if clock.elapsed() >= deadline:
            raise DeadlineExceeded(
                f"stream {name} is moved, and what it left is not drained yet: {told}",
                remedy="the drain goes on: braid get channels " + name,
            )
        await clock.sleep(CLI_WATCH_SECONDS)
    say(f"stream/{name} has nothing to drain")
    return 0


def _draining(stream: stream_pb2.Stream) -> Sequence[str]:
    return [channel.name for channel in stream.status.channels if channel.state == _DRAINING]


def _left(stream: stream_pb2.Stream, old: Collection[str]) -> Sequence[stream_pb2.Channel]:
    """The channels among these that are not drained yet."""
    draining = _draining(stream)
    return [each for each in stream.status.channels if each.name in old and each.name in draining]


def _waiting(channel: stream_pb2.Channel) -> str:
    return f"{channel.name} ({channel.cluster}) waits for {waits_for(channel) or 'its turn'}"
