"""A producer with the right to write that reports what it cannot know: of a foreign cluster, and of others' records."""

from collections.abc import Callable
from typing import Final

from braid.api.registry.v1 import route_pb2
from braid.kernel.errors import BraidError, EvidenceRefused, Invalid
from braid.kernel.ports import CallOptions, DuplexCall
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.methods import method_path
from testbed.checkers import facts
from tests.simulation.journal import Journal
from tests.support.virtual_time import VirtualProcess

FOREIGN: Final = "foreign"  # a cluster that no stream is on
COMPLAINT: Final = "a complaint of a cluster that the stream was never on"
ABSURD: Final = "a receipt of 2^62"
NEWCOMER: Final = "a newcomer's receipt of a channel that has left the route"
_CALL_SECONDS: Final = 3.0
_SILENCE_SECONDS: Final = 1.0  # of a registry that leads: a refusal follows at once
Report = Callable[[route_pb2.Route], route_pb2.WatchRoutesRequest | None]


class FalseReporter:
    """Opens one session after another, and makes one false report in each."""

    def __init__(self, process: VirtualProcess, journal: Journal, stream: str) -> None:
        self._process = process
        self._journal = journal
        self._stream = stream
        self._number = 0

    async def report(self, transport: MemoryTransport, address: str) -> None:
        """Makes each false report at a registry."""
        for what, make in ((COMPLAINT, _complaint), (ABSURD, _absurd), (NEWCOMER, _newcomers)):
            self._number += 1
            channel = transport.channel(address)
            options = CallOptions(_CALL_SECONDS)
            call = channel.duplex(method_path("registry", "WatchRoutes"), route_pb2.WatchRoutesResponse, options)
            try:
                heeded = await self._heeded(call, make)
            except BraidError:
                heeded = None  # nobody leads there, or a fault came between
            finally:
                await channel.close()
            if heeded is not None:
                self._journal.note(facts.FalselyReported(what, heeded))

    async def _heeded(self, call: DuplexCall, make: Report) -> bool | None:
        """Whether a report was not refused; None where it was not made."""
        hello = route_pb2.ProducerHello(
            protocol_version=1, producer_id=f"mallory-{self._number}", stream=self._stream, host="mallory"
        )
        await call.send(route_pb2.WatchRoutesRequest(hello=hello))
        while (route := await _route(call)) is None:
            pass
        report = make(route)
        if report is None:
            return None
        await call.send(report)
        until = self._process.host.clock.elapsed() + _SILENCE_SECONDS
        try:
            while await call.receive() is not None:
                if self._process.host.clock.elapsed() > until:
                    return True
        except (EvidenceRefused, Invalid):
            return False
        return None


async def _route(call: DuplexCall) -> route_pb2.Route | None:
    message = await call.receive()
    if not isinstance(message, route_pb2.WatchRoutesResponse):
        raise EvidenceRefused("the stream ended before a route came")
    return message.route if message.HasField("route") else None


def _complaint(route: route_pb2.Route) -> route_pb2.WatchRoutesRequest:
    return route_pb2.WatchRoutesRequest(send_errors=route_pb2.SendErrors(cluster=FOREIGN, count=1, reason="a lie"))


def _absurd(route: route_pb2.Route) -> route_pb2.WatchRoutesRequest:
    left = route_pb2.ChannelLeft(channel=route.lanes[0].channels[0].channel, next_offsets={0: 1 << 62})
    return route_pb2.WatchRoutesRequest(channel_left=left)


def _newcomers(route: route_pb2.Route) -> route_pb2.WatchRoutesRequest | None:
    """None while every channel of the stream is on the route."""
    if not route.dropped:
        return None
    left = route_pb2.ChannelLeft(channel=route.dropped[-1].channel, next_offsets={0: 1 << 30})
    return route_pb2.WatchRoutesRequest(channel_left=left)
