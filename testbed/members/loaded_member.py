"""A real consumer whose handler computes: `python -m testbed.members.loaded_member ENDPOINT GROUP ID LOG CORE`.

It runs on one core, so that whatever else computes there makes its handler slower. It appends a JSON line to LOG for
every lease it gets and gives up, with the boot clock.
"""

import asyncio
import os
import sys
import time
from typing import Final

import braid
from testbed.members.lease_log import consume_and_tell

HANDLER_SECONDS: Final = 0.02  # of its core: several of the scheduler's slices, so that a hog gets every second one


async def main(endpoint: str, group: str, client_id: str, log: str, core: str) -> None:
    """Consumes the stream of the group's name until killed."""
    os.sched_setaffinity(0, {int(core)})

    async def handle(record: braid.Record) -> None:
        end = time.thread_time() + HANDLER_SECONDS
        while time.thread_time() < end:
            pass

    await consume_and_tell(endpoint, group, client_id, log, handle)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:6]))
