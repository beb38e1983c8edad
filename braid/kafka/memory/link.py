"""The connection of one process to one cluster in memory: latency, cuts, and answers that never come."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from braid.kafka.memory.cluster import MemoryCluster
from braid.kernel.errors import ClusterUnavailable
from braid.kernel.limits import KAFKA_CALL_SECONDS
from braid.kernel.ports import Clock

T = TypeVar("T")


class Link:
    """What every client of one process shares per cluster. `cut` drops what is sent, both ways, until `mend`."""

    def __init__(self, cluster: MemoryCluster, clock: Clock, latency: Callable[[], float] | None) -> None:
        """A connection.

        Args:
            cluster: Its far end.
            clock: For record times.
            latency: Seconds one way, drawn for each message; None for none.
        """
        self.cluster = cluster
        self.clock = clock
        self._latency = latency
        self._is_cut = False

    def cut(self) -> None:
        """Loses the network between this process and the cluster."""
        self._is_cut = True
        self.cluster.notify()

    def mend(self) -> None:
        """Gives it back."""
        self._is_cut = False
        self.cluster.notify()

    @property
    def answers(self) -> bool:
        """Whether a request sent now would be answered."""
        return self.cluster.running and not self.cluster.paused and not self._is_cut

    async def call(self, operation: Callable[[], T], seconds: float = KAFKA_CALL_SECONDS) -> T:
        """Sends a request and waits for its answer.

        Raises:
            ClusterUnavailable: no answer in time; the operation may have happened, or may still happen.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._travel()
                answer = await self.cluster.submit(operation)
                await self._travel()
                return answer
        except TimeoutError as error:
            raise ClusterUnavailable(f"cluster {self.cluster.name} did not answer within {seconds} s") from error

    async def travel_both_ways(self) -> None:
        """The time a request and its answer take on the way."""
        for _ in range(2):
            await asyncio.sleep(self._latency() if self._latency is not None else 0.0)

    async def _travel(self) -> None:
        """One way: waits while the network is cut; a dead cluster refuses, or its answer is lost."""
        await asyncio.sleep(self._latency() if self._latency is not None else 0.0)
        while self._is_cut:
            await self.cluster.changed()
        if not self.cluster.running:
            raise ClusterUnavailable(f"cluster {self.cluster.name} does not answer")
