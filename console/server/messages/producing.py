"""Sends one record: along the stream's route, which the registry gives to the caller, by the console's own client."""

import asyncio
from collections.abc import Callable
from typing import Final

from braid.api.registry.v1.route_pb2 import ProducerHello
from braid.client.producing.producer import Producer
from braid.client.producing.route_session import PROTOCOL_VERSION, RouteSession
from braid.client.producing.routes import RouteTable
from braid.client.producing.settings import ProducerSettings
from braid.client.records.outgoing import Receipt
from braid.kernel.capabilities import KNOWS_DENIALS
from braid.kernel.errors import BraidError, Unavailable
from braid.kernel.ports import Host, Kafka
from braid.rpc.documents import Document
from console.server.limits import PRODUCE_BUFFER_BYTES, PRODUCE_ROUTE_SECONDS, PRODUCE_SECONDS
from console.server.messages.draft import Draft
from console.server.reads.reader import Reader

_CLIENT: Final = "braid-console"


async def produce(host: Host, kafka: Kafka, reader: Reader, stream: str, draft: Draft) -> Receipt:
    """Sends a record, and returns where it lies.

    Args:
        host: Clock and tasks of this process.
        kafka: The way to clusters, with the console's own profile.
        reader: Asks the registry for the route with the caller's token, which refuses who may not produce.
        stream: Where to.
        draft: What.

    Raises:
        AccessDenied: the caller may not produce there.
        NotFound: no such stream or lane.
        DeliveryUnknown: no acknowledgement came in time; the record may have arrived.
        Unavailable: no route came in time; nothing was sent.
    """
    settings = ProducerSettings(PRODUCE_BUFFER_BYTES, PRODUCE_SECONDS, linger_ms=0)

    def routes(id: str, on_route: Callable[[RouteTable], None], refused: Callable[[BraidError], None]) -> RouteSession:
        hello = ProducerHello(
            protocol_version=PROTOCOL_VERSION,
            capabilities=[KNOWS_DENIALS],
            producer_id=id,
            client_id=_CLIENT,
            stream=stream,
            host=host.name,
        )
        return RouteSession(host, reader.client("registry"), hello, on_route, refused)

    producer = Producer(host, kafka, routes, stream=stream, zone="", settings=settings)
    try:
        async with asyncio.timeout(PRODUCE_ROUTE_SECONDS):
            await producer.__aenter__()
    except TimeoutError:
        message = f"no route for stream {stream} came in {PRODUCE_ROUTE_SECONDS:g} s; nothing was sent"
        raise Unavailable(message, remedy="look at the stream's page") from None
    try:
        return await producer.send(draft.value, key=draft.key, lane=draft.lane or None, headers=draft.headers)
    finally:
        await producer.close()


def receipt_document(receipt: Receipt) -> Document:
    """Where a record lies, as JSON has it; `key` is that of its row."""
    channel = str(receipt.channel)
    return {
        "key": f"{channel}/{receipt.partition}@{receipt.offset}",
        "channel": channel,
        "cluster": receipt.cluster,
        "topic": receipt.topic,
        "partition": receipt.partition,
        "offset": receipt.offset,
        "id": receipt.id,
        "timestamp_ms": receipt.timestamp_ms,
        "summary": f"sent to {channel} on {receipt.cluster}, partition {receipt.partition}, offset {receipt.offset}",
    }
