"""A small stream whose lane `bulk` can be flooded, with groups of one member that handle it.

Handlers wait and compute nothing, so how fast the machine is decides nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import braid
from braid.api.lagmon.v1.lagmon_service_pb2 import LagFilter, ListLagRequest, ListLagResponse
from braid.api.registry.v1.registry_service_pb2 import CreateStreamRequest
from braid.api.registry.v1.stream_pb2 import LaneSpec, Stream, StreamSpec

TARGET_SECONDS: Final = 2.0
SHARES: Final = {"live": 1, "bulk": 7}
RATES: Final = {"live": 30.0, "bulk": 9.0}  # records a second, without a flood
FLOOD: Final = 10  # times as many records of bulk
HANDLERS: Final = 16
HANDLING_SECONDS: Final = (
    0.2  # so they do 80 records a second; 10 of lane live while bulk presses, and a flood brings 90
)
_SEND_SECONDS: Final = 0.25
_CREATE_SECONDS: Final = 60.0


@dataclass
class FloodedStream:
    """A stream with its senders and groups.

    Attributes:
        mesh: Connected.
        name: The stream's name.
        rates: Records a second that are sent, by lane.
    """

    mesh: braid.Mesh
    name: str
    rates: dict[str, float] = field(default_factory=lambda: dict(RATES))
    tasks: Sequence["asyncio.Future[None]"] = ()

    def flood(self) -> None:
        """Sends ten times as many records of lane bulk from now on."""
        self.rates["bulk"] = RATES["bulk"] * FLOOD

    def ebb(self) -> None:
        """Ends the flood."""
        self.rates["bulk"] = RATES["bulk"]

    async def lag(self, group: str) -> float | None:
        """How many seconds a group is behind in lane live, as lagmon says it; None where it does not know.

        Raises what a sender or a member raised.
        """
        self.check()
        wanted = LagFilter(group=group, stream=self.name, lane="live")
        told = await self.mesh.service("lagmon").unary("ListLag", ListLagRequest(filter=wanted), ListLagResponse)
        return max((each.lag_seconds for each in told.lags if not each.stale), default=None)

    def check(self) -> None:
        """Raises what a sender or a member raised."""
        for task in self.tasks:
            if task.done():
                task.result()

    async def create(self) -> None:
        """Makes the stream. Raises `BraidError` when the mesh refuses."""
        lanes = {lane: LaneSpec(partitions=2) for lane in SHARES}
        spec = StreamSpec(lanes=lanes, replication_factor=1, lag_target={"live": f"{TARGET_SECONDS:g}s"})
        request = CreateStreamRequest(name=self.name, spec=spec)
        await self.mesh.service("registry").unary("CreateStream", request, Stream, timeout_seconds=_CREATE_SECONDS)

    async def send(self, lane: str, producer: braid.Producer) -> None:
        """Sends records of a lane at its rate, until cancelled."""
        loop = asyncio.get_running_loop()
        due, owed = loop.time(), 0.0
        while True:
            due += _SEND_SECONDS
            owed += self.rates[lane] * _SEND_SECONDS
            outgoing = [braid.Outgoing(b"x", b"%d" % number, lane) for number in range(int(owed))]
            owed -= len(outgoing)
            await producer.send_many(outgoing)
            await asyncio.sleep(due - loop.time())


async def handle(mesh: braid.Mesh, stream: str, group: str) -> None:
    """Consumes a stream as a member of a group with handlers that wait, until cancelled."""

    async def wait(record: braid.Record) -> None:
        await asyncio.sleep(HANDLING_SECONDS)

    async with mesh.consumer([stream], group=group, lanes=SHARES, concurrency=HANDLERS) as consumer:
        await consumer.run(wait)


@asynccontextmanager
async def flooded_stream(
    endpoint: str, name: str, groups: Sequence[str], tls: braid.Tls | None = None
) -> AsyncIterator[FloodedStream]:
    """Creates a stream with a lag target, sends to it, and lets groups of one member handle it.

    Each member is connected by itself, as a process would be. All but the stream ends with the context.
    """
    async with AsyncExitStack() as stack:
        members = [await stack.enter_async_context(braid.connect(endpoint, client_id=each, tls=tls)) for each in groups]
        mesh = await stack.enter_async_context(braid.connect(endpoint, client_id=name, tls=tls))
        stream = FloodedStream(mesh, name)
        await stream.create()
        producer = await stack.enter_async_context(mesh.producer(name))
        handling = [handle(member, name, group) for member, group in zip(members, groups, strict=True)]
        sending = [stream.send(lane, producer) for lane in SHARES]
        stream.tasks = [asyncio.ensure_future(each) for each in (*handling, *sending)]
        try:
            yield stream
            stream.check()
        finally:
            for task in stream.tasks:
                task.cancel()
            await asyncio.gather(*stream.tasks, return_exceptions=True)
