"""A real consumer that appends a JSON line for every lease that it gets and gives up, with the boot clock."""

import json
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import braid

Handle = Callable[[braid.Record], Awaitable[None]]


async def consume_and_tell(
    endpoint: str, group: str, client_id: str, log: str, handle: Handle, concurrency: int = 64
) -> None:
    """Consumes the stream of the group's name until killed; `concurrency` is as in `Mesh.consumer`."""
    file = Path(log).open("a", buffering=1)  # noqa: ASYNC230, SIM115 - open as long as the process lives

    def tell(what: str, leases: Sequence[str]) -> None:
        at = time.clock_gettime(time.CLOCK_BOOTTIME)
        file.writelines(json.dumps({"at": at, "what": what, "lease": lease}) + "\n" for lease in leases)

    async with braid.connect(endpoint, client_id=client_id) as mesh:
        consumer = mesh.consumer(
            [group],
            group=group,
            on_assigned=lambda leases: tell("granted", leases),
            on_revoked=lambda leases: tell("released", leases),
            concurrency=concurrency,
        )
        async with consumer:
            await consumer.run(handle)
