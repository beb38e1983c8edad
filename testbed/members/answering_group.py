"""A group that answers lag on a real mesh, beside one that does not: both read one stream whose lane `bulk` is flooded.

Handlers wait and compute nothing, so that how fast the machine is decides nothing.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import braid
from braid.api.lagmon.v1.lagmon_service_pb2 import LagFilter, ListLagRequest, ListLagResponse
from braid.api.registry.v1.registry_service_pb2 import CreateStreamRequest
from braid.api.registry.v1.stream_pb2 import LaneSpec, Stream, StreamSpec
from testbed.patience import until

TARGET_SECONDS: Final = 2.0
LANES: Final = {"live": 1, "bulk": 7}  # shares
RATES: Final = {"live": 30.0, "bulk": 9.0}  # records a second, without a flood
FLOOD: Final = 10  # times as many records of bulk
HANDLERS: Final = 16
HANDLING_SECONDS: Final = (
    0.2  # so they do 80 records a second; 10 of lane live while bulk presses, and a flood brings 90
)
_SEND_SECONDS: Final = 0.25


@dataclass
class AnsweringGroups:
    """A stream with its sender, and groups of one member.

    Attributes:
        mesh: Connected.
        stream: The name.
        rates: Records a second that are sent, by lane.
    """

    mesh: braid.Mesh
    stream: str
    rates: dict[str, float] = field(default_factory=lambda: dict(RATES))

    async def lag(self, group: str, lane: str = "live") -> float | None:
        """How many seconds a group is behind in a lane, as lagmon says it; None where it does not know."""
        wanted = LagFilter(group=group, stream=self.stream, lane=lane)
        told = await self.mesh.service("lagmon").unary("ListLag", ListLagRequest(filter=wanted), ListLagResponse)
        return max((each.lag_seconds for each in told.lags if not each.stale), default=None)

    async def until_lag(self, group: str, holds: Callable[[float], bool], seconds: float, lane: str = "live") -> float:
        """Waits until a group's lag is as wanted; returns the seconds that it took."""
        found: list[float | None] = [None]

        async def look() -> bool:
            found[:] = [await self.lag(group, lane)]
            return found[0] is not None and holds(found[0])

        return await until(look, lambda: f"lane {lane} of {group} is {found[0]} s behind", seconds, poll=0.2)

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

    async def handle(self, group: str) -> None:
        """Consumes as a group with handlers that wait, until cancelled."""

        async def wait(record: braid.Record) -> None:
            await asyncio.sleep(HANDLING_SECONDS)

        async with self.mesh.consumer([self.stream], group=group, lanes=LANES, concurrency=HANDLERS) as consumer:
            await consumer.run(wait)


@asynccontextmanager
async def answering_groups(endpoint: str, stream: str, groups: Sequence[str]) -> AsyncIterator[AnsweringGroups]:
    """Creates a stream with a lag target, and lets groups of one member handle what is sent. Ends all but the stream.

    Each group's member is connected by itself, as a process would be.
    """
    async with AsyncExitStack() as stack:
        meshes = [await stack.enter_async_context(braid.connect(endpoint, client_id=each)) for each in groups]
        made = AnsweringGroups(await stack.enter_async_context(braid.connect(endpoint)), stream)
        lanes = {lane: LaneSpec(partitions=2) for lane in LANES}
        spec = StreamSpec(lanes=lanes, replication_factor=1, lag_target={"live": f"{TARGET_SECONDS:g}s"})
        request = CreateStreamRequest(name=stream, spec=spec)
        await made.mesh.service("registry").unary("CreateStream", request, Stream, timeout_seconds=60)
        producer = await stack.enter_async_context(made.mesh.producer(stream))
        handling = [AnsweringGroups(mesh, stream).handle(group) for mesh, group in zip(meshes, groups, strict=True)]
        tasks = [asyncio.ensure_future(each) for each in (*handling, *(made.send(lane, producer) for lane in LANES))]
        try:
            yield made
            assert not [task for task in tasks if task.done()], tasks
        finally:
            for task in tasks:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks, return_exceptions=True)
