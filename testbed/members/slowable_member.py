"""A real consumer whose handler waits, ten times longer while a file exists.

`python -m testbed.members.slowable_member ENDPOINT GROUP ID LOG SLOW` consumes the stream of the group's name. It
appends a JSON line to LOG for every lease that it gets and gives up. While SLOW exists, it is slow.
"""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import braid

HANDLER_SECONDS: Final = 0.02
SLOWER: Final = 10
HANDLERS: Final = 2


async def main(endpoint: str, group: str, client_id: str, log: str, slow: str) -> None:
    """Consumes until killed."""
    file, marker = Path(log).open("a", buffering=1), Path(slow)  # noqa: ASYNC230, SIM115 - open as long as it lives

    def tell(what: str, leases: Sequence[str]) -> None:
        at = time.clock_gettime(time.CLOCK_BOOTTIME)
        file.writelines(json.dumps({"at": at, "what": what, "lease": lease}) + "\n" for lease in leases)

    async def handle(record: braid.Record) -> None:
        await asyncio.sleep(HANDLER_SECONDS * (SLOWER if marker.exists() else 1))  # noqa: ASYNC240 - microseconds

    async with braid.connect(endpoint, client_id=client_id) as mesh:
        consumer = mesh.consumer(
            [group],
            group=group,
            concurrency=HANDLERS,
            on_assigned=lambda leases: tell("granted", leases),
            on_revoked=lambda leases: tell("released", leases),
        )
        async with consumer:
            await consumer.run(handle)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:6]))
