"""The background tasks of a consumer, and its end: closed by the application, or refused for good."""

import asyncio
from collections.abc import Awaitable, Callable

from braid.client.tasks import Run, watched
from braid.kernel.errors import BraidError
from braid.kernel.ports import Task, Tasks


class Background:
    """Background tasks and end of one consumer.

    Attributes:
        closed: Whether the consumer takes part no longer.
        refusal: Why nothing more can be done here; None while it can.
    """

    def __init__(self, tasks: Tasks, failed: Callable[[BraidError], None]) -> None:
        """`failed` is called with the error of a refusal."""
        self.closed = False
        self.refusal: BraidError | None = None
        self._host_tasks = tasks
        self._failed = failed
        self._tasks: dict[int, Task] = {}
        self._count = 0
        self._was_refused = asyncio.Event()

    def refuse(self, error: BraidError) -> None:
        """Ends the consumer with an error that trying again cannot mend."""
        self.refusal = error
        self._was_refused.set()
        self._failed(error)

    def watched(self, run: Run, name: str) -> Task:
        """Runs a task that the consumer cannot do without: if it dies of an error, the consumer is refused."""
        return watched(self._host_tasks, run, name, self.refuse)

    def beside(self, run: Run, name: str) -> None:
        """Runs a task that ends with the consumer at the latest."""
        self._count += 1
        number = self._count

        async def forgotten_at_its_end() -> None:
            try:
                await run()
            finally:
                self._tasks.pop(number, None)

        self._tasks[number] = self.watched(forgotten_at_its_end, name)

    async def unless_refused(self, wanted: Awaitable[object]) -> None:
        """Waits for a result, or until the consumer is refused."""
        waits = asyncio.ensure_future(wanted)
        refused = asyncio.ensure_future(self._was_refused.wait())
        try:
            await asyncio.wait([waits, refused], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waits.cancel()
            refused.cancel()

    async def stop(self) -> None:
        """Ends all tasks that run."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        for task in tasks:
            await task.ended()
