"""A real consumer whose handler waits, ten times longer while a file exists.

`python -m testbed.members.slowable_member ENDPOINT GROUP ID LOG SLOW` consumes the stream of the group's name. It
appends a JSON line to LOG for every lease that it gets and gives up. While SLOW exists, it is slow.
"""

import asyncio
import sys
from pathlib import Path
from typing import Final

import braid
from testbed.members.lease_log import consume_and_tell

HANDLER_SECONDS: Final = 0.02
SLOWER: Final = 10
HANDLERS: Final = 2


async def main(endpoint: str, group: str, client_id: str, log: str, slow: str) -> None:
    """Consumes until killed."""
    marker = Path(slow)

    async def handle(record: braid.Record) -> None:
        await asyncio.sleep(HANDLER_SECONDS * (SLOWER if marker.exists() else 1))  # noqa: ASYNC240 - microseconds

    await consume_and_tell(endpoint, group, client_id, log, handle, concurrency=HANDLERS)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:6]))
