"""Connects a chaos application to a mesh of which any part may be dead, and dumps its state when it is stuck."""

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import braid

RETRY_SECONDS: Final = 0.3
TOLD: Final = "that is all\n"  # the end of what an application tells when it is asked
TASKS_TOLD_MAX: Final = 200


@asynccontextmanager
async def entered(endpoint: str, client_id: str) -> AsyncIterator[braid.Mesh]:
    """Connects, however long no replica answers."""
    while True:
        mesh = braid.connect(endpoint, client_id=client_id)
        try:
            await mesh.__aenter__()
            break
        except braid.BraidError:
            await mesh.__aexit__(None, None, None)
            await asyncio.sleep(RETRY_SECONDS)
    try:
        yield mesh
    finally:
        await mesh.__aexit__(None, None, None)


def tell_when_asked(state: Callable[[], object]) -> None:
    """On SIGUSR1 writes the state and the position of every task to standard error; warnings go there anyway."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")

    def tell() -> None:
        print(state(), file=sys.stderr)
        named_first = sorted(asyncio.all_tasks(), key=lambda each: each.get_name().startswith("Task-"))
        for task in named_first[:TASKS_TOLD_MAX]:
            with contextlib.suppress(TypeError):  # a frame that is between two lines
                task.print_stack(limit=3)
        sys.stderr.write(TOLD)

    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, tell)
