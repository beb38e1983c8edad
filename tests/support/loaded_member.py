"""A real consumer process whose handler takes a while: `python -m tests.support.loaded_member ENDPOINT GROUP ID LOG`.

SIGUSR1 makes its handler twice as slow, as a slow dependency would; SIGUSR2 starts a thread that spins, as a
process beside it would. It appends a JSON line to LOG for every lease it gets and gives up, with the boot clock.
"""

import asyncio
import json
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import braid

HANDLER_SECONDS: Final = 0.02
SLOWER: Final = 2.0


async def main(endpoint: str, group: str, client_id: str, log: str) -> None:
    """Consumes stream `logs` until killed."""
    seconds = HANDLER_SECONDS
    file = Path(log).open("a", buffering=1)  # noqa: ASYNC230, SIM115 - open as long as the process lives

    def slow_down() -> None:
        nonlocal seconds
        seconds = HANDLER_SECONDS * SLOWER

    def tell(what: str, leases: Sequence[str]) -> None:
        at = time.clock_gettime(time.CLOCK_BOOTTIME)
        file.writelines(json.dumps({"at": at, "what": what, "lease": lease}) + "\n" for lease in leases)

    async def handle(record: braid.Record) -> None:
        await asyncio.sleep(seconds / 2)
        end = time.thread_time() + seconds / 20  # a part of the work is the processor's
        while time.thread_time() < end:
            pass
        await asyncio.sleep(seconds / 2)

    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, slow_down)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, threading.Thread(target=_spin, daemon=True).start)
    async with braid.connect(endpoint, client_id=client_id) as mesh:
        consumer = mesh.consumer(
            ["logs"],
            group=group,
            on_assigned=lambda leases: tell("granted", leases),
            on_revoked=lambda leases: tell("released", leases),
        )
        async with consumer:
            await consumer.run(handle)


def _spin() -> None:
    while True:
        pass


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:5]))
