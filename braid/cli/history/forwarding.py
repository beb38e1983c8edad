"""Sends events to a stream of the mesh as they happen, each as one record of JSON."""

from collections.abc import AsyncIterator, Sequence
from typing import Final

from braid.api.mesh.v1.event_pb2 import EventRecord
from braid.cli.core.output import Item, render_line
from braid.cli.core.session import Session
from braid.cli.history.sources import event_or_call_item

_ID_HEADER: Final = "event"  # history and sequence: what was sent twice has it twice


async def forward(session: Session, stream: str, items: Sequence[Item], followed: AsyncIterator[EventRecord]) -> int:
    """Sends what was listed, then what follows, in order; waits for each acknowledgement. Ends when interrupted.

    Whoever begins it again names a time that it had reached (`--since`): what lies after is sent again.

    Raises:
        NotFound: there is no such stream.
        DeliveryUnknown: a record was not acknowledged in time.
    """
    sent = 0
    async with session.mesh.producer(stream) as producer:
        for item in items:
            await producer.send(_value(item), headers={_ID_HEADER: item.reference.encode()})
            sent += 1
        session.terminal.note(f"sent {sent} events to stream/{stream}; following")
        async for record in followed:
            item = event_or_call_item(record)
            await producer.send(_value(item), headers={_ID_HEADER: item.reference.encode()})
    return 0


def _value(item: Item) -> bytes:
    return render_line(item.document).encode()
