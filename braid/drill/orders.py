"""A drill's orders to its processes: lines of JSON on their standard input. The processes end with it."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from typing import Final

_LINE_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True)
class Refuse:
    """An order to refuse connections to exactly these addresses (`host:port`). With `broker`, the process reports that
    broker as unreachable."""

    addresses: Collection[str]
    cluster: str = ""
    broker_address: str = ""

    def line(self) -> bytes:
        """The order as a line that processes read."""
        told = {"addresses": sorted(self.addresses), "cluster": self.cluster, "broker_address": self.broker_address}
        return json.dumps(told).encode() + b"\n"


async def read_orders() -> AsyncIterator[Refuse]:
    """Yields orders as they arrive; ends with the standard input."""
    reader = asyncio.StreamReader(_LINE_BYTES_MAX)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        told = json.loads(line)
        yield Refuse(told["addresses"], told["cluster"], told["broker_address"])
