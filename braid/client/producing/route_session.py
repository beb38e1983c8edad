"""A producer's session with the registry: receives routes, acknowledges revisions, reports on clusters.

The session outlives connections and registry leaders; cut off from the registry, the producer keeps its last route.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, Protocol

from braid.api.registry.v1 import route_pb2 as wire
from braid.client.producing.routes import ActiveChannel, RouteTable
from braid.client.session_errors import is_final, is_strange
from braid.client.tasks import hanging_up, race
from braid.kernel.access.quotas import retry_seconds
from braid.kernel.errors import BraidError, Unavailable
from braid.kernel.limits.client import RECEIPTS_CHANNELS_MAX, RECONNECT_SECONDS
from braid.kernel.limits.registry.health import RESUMPTIONS_BYTES_MAX, RESUMPTIONS_MAX
from braid.kernel.limits.registry.resources import WATCH_SILENCE_SECONDS
from braid.kernel.limits.rpc import OUTBOX_MESSAGES_MAX
from braid.kernel.ports import DuplexCall, Host
from braid.kernel.resumptions import Resumption
from braid.kernel.timing.backoff import Backoff
from braid.rpc.mesh_client import ServiceClient
from braid.telemetry.applied_spans import AppliedSpans
from braid.telemetry.tracing import Attribute

PROTOCOL_VERSION = 1


class Reach(NamedTuple):
    """Whether a producer reaches a cluster: seconds since its last acknowledgement from there, None for none yet."""

    acknowledged_seconds_ago: float | None
    in_flight: int


class RouteSource(Protocol):
    """The source of a producer's routes: `RouteSession` over a registry, or a test's own."""

    async def run(self) -> None:
        """Follows the route until cancelled."""
        ...

    def asks(self, reach: Callable[[str], Reach]) -> None:
        """Registers the function that says whether a cluster is reached, for when the registry doubts it."""
        ...

    def left(self, channel: ActiveChannel, next_offsets: Mapping[int, int]) -> None:
        """Notes that nothing more goes to a channel: by partition, the offset after the last one acknowledged there."""
        ...

    def resumed(self, channel: ActiveChannel, resumption: Resumption) -> None:
        """Notes that a partition's log continued over another connection: it may have lost its end in between."""
        ...

    async def told(self) -> None:
        """Waits until everything given to `left` and `resumed` was sent."""
        ...

    def acknowledge(self, revision: int) -> None:
        """Acknowledges a revision: nothing is in flight any more to channels that it dropped."""
        ...

    def report(self, cluster: str, channel: str, count: int, reason: str) -> None:
        """Reports that sends to a cluster fail."""
        ...


class RouteSession:
    """Follows one stream's route for one producer."""

    def __init__(
        self,
        host: Host,
        registry: ServiceClient,
        hello: wire.ProducerHello,
        on_route: Callable[[RouteTable], None],
        on_refused: Callable[[BraidError], None],
    ) -> None:
        """`hello` names the producer and its stream; `on_refused` is called with an error that no retry can mend."""
        self._host = host
        self._registry = registry
        self._hello = hello
        self._on_route = on_route
        self._on_refused = on_refused
        self._reach: Callable[[str], Reach] | None = None
        self._route = wire.Route()
        self._outgoing: asyncio.Queue[wire.WatchRoutesRequest] = asyncio.Queue(OUTBOX_MESSAGES_MAX)
        self._told = asyncio.Event()
        self._told.set()
        self._sending = False
        self._resuming: wire.WatchRoutesRequest | None = None
        self._applied = AppliedSpans("apply route")

    async def run(self) -> None:
        """Keeps the session until cancelled."""
        try:
            await self._follow()
        finally:
            self._applied.close()

    async def _follow(self) -> None:
        backoff = Backoff(self._host, RECONNECT_SECONDS)
        while True:
            told_seconds = 0.0
            try:
                await self._session()
                backoff.reset()
            except TimeoutError:
                self._registry.forget_leader()  # silent, hence perhaps frozen: another may lead by now
            except BraidError as error:
                if is_final(error):
                    self._on_refused(error)
                    return
                if is_strange(error):
                    self._registry.forget_leader()
                told_seconds = retry_seconds(error)
            await backoff.wait(told_seconds)

    def asks(self, reach: Callable[[str], Reach]) -> None:
        """See `RouteSource.asks`."""
        self._reach = reach

    def left(self, channel: ActiveChannel, next_offsets: Mapping[int, int]) -> None:
        """Tells the registry how far the producer's receipts of a channel go, and again with every hello."""
        name, (cluster, topic) = str(channel.id), channel.place
        told = wire.ChannelLeft(channel=name, next_offsets=next_offsets, cluster=cluster, topic=topic)
        for before in [each for each in self._hello.left if _is_of(each, channel)]:  # it broke, and was used again
            for partition, offset in before.next_offsets.items():
                told.next_offsets[partition] = max(told.next_offsets[partition], offset)
        others = [each for each in self._hello.left if not _is_of(each, channel)]
        del self._hello.left[:]
        self._hello.left.extend([*others, told][-RECEIPTS_CHANNELS_MAX:])
        self._told.clear()
        self._send(wire.WatchRoutesRequest(channel_left=told))

    def resumed(self, channel: ActiveChannel, resumption: Resumption) -> None:
        """Tells the registry of a log that may have lost its end, and again with every hello."""
        told = wire.Resumption(
            partition=resumption.partition,
            first_offset=resumption.first,
            next_offset=resumption.next,
            resumed_offset=resumption.resumed,
            producer=resumption.producer,
            stretches=[
                wire.Stretch(first_offset=first, next_offset=next, first_sequence=sequence)
                for first, next, sequence in resumption.stretches
            ],
        )
        kept = next((each for each in self._hello.resumed if _is_of(each, channel)), None)
        if kept is None:
            kept = self._hello.resumed.add(channel=str(channel.id), cluster=channel.cluster, topic=channel.topic)
            del self._hello.resumed[:-RECEIPTS_CHANNELS_MAX]
        kept.resumptions.append(told)
        del kept.resumptions[:-RESUMPTIONS_MAX]
        if sum(each.ByteSize() for each in self._hello.resumed) > RESUMPTIONS_BYTES_MAX:
            for each in self._hello.resumed:
                del each.resumptions[: len(each.resumptions) // 2]
        self._told.clear()
        if self._resuming is not None and _is_of(self._resuming.log_resumed, channel):  # it has not gone yet
            self._resuming.log_resumed.resumptions.append(told)
            return
        log_resumed = wire.LogResumed(
            channel=kept.channel, resumptions=[told], cluster=channel.cluster, topic=channel.topic
        )
        self._resuming = wire.WatchRoutesRequest(log_resumed=log_resumed)
        self._send(self._resuming)

    async def told(self) -> None:
        """Waits until all of that was sent to the registry; there may be no registry to send it to."""
        await self._told.wait()

    def acknowledge(self, revision: int) -> None:
        """Tells the registry that nothing is in flight any more to channels which this revision dropped."""
        self._hello.revision = revision
        self._applied.ended(revision)
        self._send(wire.WatchRoutesRequest(acknowledged=wire.RouteAcknowledged(revision=revision)))

    def report(self, cluster: str, channel: str, count: int, reason: str) -> None:
        """Tells the registry that sends to a cluster fail."""
        errors = wire.SendErrors(cluster=cluster, channel=channel, count=count, reason=reason)
        self._send(wire.WatchRoutesRequest(send_errors=errors))

    def _answer(self, cluster: str) -> None:
        if self._reach is None:
            return
        ago, in_flight = self._reach(cluster)
        ago_ms = -1 if ago is None else int(ago * 1_000)
        answer = wire.ReachAnswer(cluster=cluster, acknowledged_ms_ago=ago_ms, in_flight=in_flight)
        self._send(wire.WatchRoutesRequest(reach=answer))

    def _send(self, message: wire.WatchRoutesRequest) -> None:
        if self._outgoing.full():  # nobody listens: the hello of the next connection says what matters
            self._drop(self._outgoing.get_nowait())
        self._outgoing.put_nowait(message)

    def _drop(self, message: wire.WatchRoutesRequest) -> None:
        if message is self._resuming:
            self._resuming = None

    async def _session(self) -> None:
        call = await self._registry.duplex("WatchRoutes", wire.WatchRoutesResponse)
        async with hanging_up(self._host.tasks, call):
            while not self._outgoing.empty():
                self._drop(self._outgoing.get_nowait())
            self._sending = False
            await call.send(wire.WatchRoutesRequest(hello=self._hello))
            await race(self._host.tasks, "route-watch", partial(self._receive, call), partial(self._pump, call))

    def _sent(self) -> None:
        if self._outgoing.empty() and not self._sending:
            self._told.set()

    async def _pump(self, call: DuplexCall) -> None:
        try:
            while True:
                message = await self._outgoing.get()
                self._sending = True
                self._drop(message)
                await call.send(message)
                self._sending = False
                self._sent()
        except Unavailable:
            await asyncio.Event().wait()  # the receiving side sees the same end, and why

    async def _receive(self, call: DuplexCall) -> None:
        """Hears the registry until the stream ends. Raises `TimeoutError` when one that gives signs of life is silent.

        What a leader says first counts whatever was heard before: a store restored from a backup knows older
        revisions, and counts them anew.
        """
        first, silence_seconds = True, None
        while (message := await _next(call, silence_seconds)) is not None:
            assert isinstance(message, wire.WatchRoutesResponse)
            match message.WhichOneof("message"):
                case "route":
                    newer = message.route.revision > self._route.revision
                    if newer or (first and message.route != self._route):
                        self._route = message.route
                        self._began(message)
                        self._on_route(RouteTable.of(message.route))
                    if first:  # whoever answers has read the hello
                        self._sent()
                    first = False
                case "reach":
                    self._answer(message.reach.cluster)
                case "unchanged":  # a registry that never says so is an older one, and silent when all is well
                    silence_seconds = WATCH_SILENCE_SECONDS

    def _began(self, message: wire.WatchRoutesResponse) -> None:
        route = message.route
        attributes: dict[str, Attribute] = {"braid.stream": route.stream, "braid.route.revision": route.revision}
        self._applied.began(route.revision, message.traceparent, attributes)


async def _next(call: DuplexCall, silence_seconds: float | None) -> object | None:
    async with asyncio.timeout(silence_seconds):
        return await call.receive()


def _is_of(told: wire.ChannelLeft | wire.LogResumed, channel: ActiveChannel) -> bool:
    """Whether a report is about this channel, and not about another of its name."""
    return told.channel == str(channel.id) and (told.cluster, told.topic) == channel.place
