"""All that runs handlers at one consumer: an application may call `Consumer.run` several times at once."""

from typing import Any

from braid.client.handling.runner import HandlerRunner
from braid.client.records.handled import X
from braid.kernel.ids import LeaseId


class Runners:
    """Those under way."""

    def __init__(self, handlers: int) -> None:
        """Each runs so many handlers at once."""
        self._handlers = handlers
        self._runners: list[HandlerRunner[Any]] = []

    def add(self, runner: HandlerRunner[X]) -> None:
        """One begins."""
        self._runners.append(runner)

    def remove(self, runner: HandlerRunner[X]) -> None:
        """One has ended."""
        self._runners.remove(runner)

    def __len__(self) -> int:
        return len(self._runners)

    @property
    def running(self) -> bool:
        """Whether any handler runs."""
        return any(runner.running for runner in self._runners)

    def slots(self) -> int:
        """How many handlers run at once; 0 while nobody calls `Consumer.run`."""
        return self._handlers * len(self._runners)

    def overdue(self, lease: LeaseId | None = None) -> int:
        """How many handlers, of a lease or of all, run on though their time is over."""
        return sum(runner.overdue(lease) for runner in self._runners)

    def cancel(self, lease: LeaseId | None = None) -> None:
        """Cancels, once, the handlers of what was leased so, or all."""
        for runner in self._runners:
            runner.cancel(lease)
