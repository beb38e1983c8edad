"""The calls of `Consumer.run` under way at one consumer: an application may make several at once."""

from typing import Any

from braid.client.handling.cpu_samples import CpuSamples
from braid.client.handling.runner import HandlerRunner
from braid.client.records.handled import X
from braid.kernel.ids import LeaseId


class Runners:
    """The runners that are under way.

    Attributes:
        samples: Measures the CPU time of handlers; None where nothing measures it.
    """

    def __init__(self, handlers: int, samples: CpuSamples | None = None) -> None:
        """Each runner runs so many handlers at once."""
        self.samples = samples
        self._handlers = handlers
        self._runners: list[HandlerRunner[Any]] = []

    def add(self, runner: HandlerRunner[X]) -> None:
        """Adds a runner that begins."""
        self._runners.append(runner)
        runner.resize(self._handlers)

    def remove(self, runner: HandlerRunner[X]) -> None:
        """Removes a runner that has ended."""
        self._runners.remove(runner)

    def __len__(self) -> int:
        return len(self._runners)

    @property
    def running(self) -> bool:
        """Whether any handler runs."""
        return any(runner.running for runner in self._runners)

    def resize(self, handlers: int) -> None:
        """Runs so many handlers at once, in each runner, from now on; those that are too many end."""
        self._handlers = handlers
        for runner in self._runners:
            runner.resize(handlers)

    def slots(self) -> int:
        """How many handlers run at once; 0 while no call of `Consumer.run` is under way."""
        return self._handlers * len(self._runners)

    def cores(self) -> float:
        """Returns how many processors the handlers may use: handlers on the loop share its thread."""
        assert self.samples is not None, "asked for only where it is measured"
        whole = self.samples.cores
        return whole if any(runner.in_threads for runner in self._runners) else min(whole, 1.0)

    def overdue(self, lease: LeaseId | None = None) -> int:
        """Counts handlers, of one lease or of all, that still run after their time-out."""
        return sum(runner.overdue(lease) for runner in self._runners)

    def cancel(self, lease: LeaseId | None = None) -> None:
        """Cancels, once, the handlers of one lease, or all."""
        for runner in self._runners:
            runner.cancel(lease)
