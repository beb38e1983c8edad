"""A stream whose records are large and lie in one partition, for tests of which copy a member reads."""

import asyncio
import os
from typing import Final

import braid
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1 import stream_pb2

RECORDS: Final = 200
RECORD_BYTES: Final = 20_000
LEADER: Final = 1


async def filled(mesh: braid.Mesh, stream: str) -> str:
    """The topic of a stream with one partition, and records in it that no codec makes small."""
    lanes = {"live": stream_pb2.LaneSpec(partitions=1)}
    request = api.CreateStreamRequest(name=stream, spec=stream_pb2.StreamSpec(lanes=lanes, clusters=["east"]))
    await mesh.service("registry").unary("CreateStream", request, stream_pb2.Stream, timeout_seconds=60)
    async with mesh.producer(stream) as producer:
        receipts = await asyncio.gather(*(producer.send(os.urandom(RECORD_BYTES)) for _ in range(RECORDS)))
    return receipts[0].topic
