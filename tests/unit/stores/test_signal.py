"""A signal wakes every task that waits."""

import asyncio

from braid.stores.signal import Signal
from tests.support.virtual_time import run_virtual, running_loop


def test_everybody_who_waits_is_woken_and_a_timeout_ends_a_wait() -> None:
    async def main() -> float:
        signal = Signal()
        waiting = [asyncio.ensure_future(signal.wait()) for _ in range(3)]
        await asyncio.sleep(1.0)
        signal.notify()
        signal.notify()
        await asyncio.gather(*waiting)
        await signal.wait(2.0)
        return running_loop().time()

    assert run_virtual(main()) == 3.0
