"""A real consumer whose handler computes: `python -m testbed.members.loaded_member ENDPOINT GROUP ID LOG CORE`.

It runs on one core, so that whatever else computes there makes its handler slower. It appends a JSON line to LOG for
every lease it gets and gives up, with the boot clock.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import braid

HANDLER_SECONDS: Final = 0.02  # of its core: several of the scheduler's slices, so that a hog gets every second one


async def main(endpoint: str, group: str, client_id: str, log: str, core: str) -> None:
    """Consumes stream `logs` until killed."""
    os.sched_setaffinity(0, {int(core)})
    file = Path(log).open("a", buffering=1)  # noqa: ASYNC230, SIM115 - open as long as the process lives

    def tell(what: str, leases: Sequence[str]) -> None:
        at = time.clock_gettime(time.CLOCK_BOOTTIME)
        file.writelines(json.dumps({"at": at, "what": what, "lease": lease}) + "\n" for lease in leases)

    async def handle(record: braid.Record) -> None:
        end = time.thread_time() + HANDLER_SECONDS
        while time.thread_time() < end:
            pass

    async with braid.connect(endpoint, client_id=client_id) as mesh:
        consumer = mesh.consumer(
            [group],  # its stream has its name
            group=group,
            on_assigned=lambda leases: tell("granted", leases),
            on_revoked=lambda leases: tell("released", leases),
        )
        async with consumer:
            await consumer.run(handle)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:6]))
