"""Tasks an application does not see: one that dies must not leave the application waiting for ever."""

import asyncio
from collections.abc import Callable, Coroutine

from braid.kernel.errors import BraidError
from braid.kernel.ports import DuplexCall, Task, Tasks

Run = Callable[[], Coroutine[object, object, object]]


def watched(tasks: Tasks, run: Run, name: str, died: Callable[[BraidError], None]) -> Task:
    """Starts a task whose death by an error is told to `died`, beside what the host does about it."""

    async def watch() -> None:
        try:
            await run()
        except Exception as error:
            died(BraidError(f"{name} failed: {type(error).__name__}: {error}"))
            raise

    return tasks.spawn(watch(), name)


async def race(tasks: Tasks, name: str, *runs: Run) -> None:
    """Runs these side by side until the first ends, and ends the others. Raises what the first to fail raised."""
    ended = asyncio.Event()
    errors: list[Exception] = []

    async def take_part(run: Run) -> None:
        try:
            await run()
        except Exception as error:  # noqa: BLE001 - raised below, where somebody sees it
            errors.append(error)
        finally:
            ended.set()

    running = [tasks.spawn(take_part(run), f"{name}-{number}") for number, run in enumerate(runs)]
    try:
        await ended.wait()
    finally:
        for task in running:
            task.cancel()
        for task in running:
            await task.ended()
    if errors:
        raise errors[0]


async def hang_up(tasks: Tasks, call: DuplexCall, *, silent: bool) -> None:
    """Ends a stream. One whose other side is silent is ended in the background: that side may end nothing either."""
    if silent:
        tasks.spawn(call.close(), "hang-up")
    else:
        await call.close()
