"""Thousands of streams at once over few connections: all are taken up, and each end is seen for what it is."""

import asyncio
from collections import Counter

from google.protobuf.wrappers_pb2 import StringValue

from braid.kernel.errors import Unavailable
from braid.kernel.ports import CallOptions, DuplexCall, DuplexServing, RpcService
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.methods import duplex
from testbed.patience import in_time

STREAMS = 3_000  # well beyond grpc's own bound on calls not yet taken up
CONNECTIONS = 4
HANGS_SECONDS = 500.0  # by the wall
TALK = "/braid.test.v1.ExampleService/Talk"


async def test_thousands_of_streams_open_talk_and_end_as_they_do() -> None:
    ends: Counter[str] = Counter()
    all_ended = asyncio.Event()
    transport = GrpcTransport()

    async def talk(stream: DuplexServing) -> None:
        try:
            while (message := await stream.receive()) is not None:
                await stream.send(message)
            ends["clean"] += 1
        except Unavailable:
            ends["broken"] += 1
        if ends.total() == STREAMS:
            all_ended.set()

    async def converse(call: DuplexCall) -> None:
        for number in range(2):
            await call.send(StringValue(value=str(number)))
            assert await call.receive() == StringValue(value=str(number))

    service = RpcService("braid.test.v1.ExampleService", {}, {}, {TALK: duplex(StringValue, talk)})
    server = await transport.serve("127.0.0.1:0", service)
    channels = [transport.channel(server.address) for _ in range(CONNECTIONS)]
    calls = [
        channels[each % CONNECTIONS].duplex(TALK, StringValue, CallOptions(HANGS_SECONDS)) for each in range(STREAMS)
    ]

    async def open_talk_and_end() -> None:
        await asyncio.gather(*map(converse, calls))
        await asyncio.gather(*(call.close() for call in calls[: STREAMS // 3]))
        await asyncio.gather(*(channel.close() for channel in channels))
        await all_ended.wait()

    await in_time(open_talk_and_end(), f"all streams end, of which {ends.total()} did", 60.0)
    assert ends == {"clean": STREAMS // 3, "broken": STREAMS - STREAMS // 3}
    await server.stop(0.0)
