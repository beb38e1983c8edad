"""The connection of one process to one cluster in memory: latency, cuts, and lost answers."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from braid.kafka.memory.cluster import MemoryCluster
from braid.kernel.errors import ClusterAccessDenied, ClusterUnavailable
from braid.kernel.limits.kafka import KAFKA_CALL_SECONDS
from braid.kernel.ports import Clock

T = TypeVar("T")


class Link:
    """One process's link to a cluster, shared by its clients. `cut` drops what is sent, both ways, until `mend`."""

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
        self._denied = False

    def deny(self) -> None:
        """Lets the cluster refuse this process, as for a wrong password."""
        self._denied = True
        self.cluster.notify()

    def allow(self) -> None:
        """Lets the cluster accept this process again."""
        self._denied = False
        self.cluster.notify()

    @property
    def denial(self) -> ClusterAccessDenied | None:
        """Returns the cluster's refusal of a request sent now, if it refuses this process."""
        if not self._denied or not self._reaches:
            return None
        return ClusterAccessDenied(
            f"cluster {self.cluster.name} refuses this client: name or password are wrong",
            remedy="look at the security profile of this client",
            metadata={"access": "authentication", "problem": "credentials"},
        )

    def cut(self) -> None:
        """Cuts the network between this process and the cluster."""
        self._is_cut = True
        self.cluster.notify()

    def mend(self) -> None:
        """Restores the network."""
        self._is_cut = False
        self.cluster.notify()

    @property
    def answers(self) -> bool:
        """Whether a request sent now would get an answer that is no refusal."""
        return self._reaches and not self._denied

    @property
    def _reaches(self) -> bool:
        return self.cluster.running and not self.cluster.paused and not self._is_cut

    async def call(
        self, operation: Callable[[], T], seconds: float = KAFKA_CALL_SECONDS, *, controlled: bool = False
    ) -> T:
        """Sends a request, to a broker or `controlled` by way of it to the controller, and waits for its answer.

        Raises:
            ClusterUnavailable: no answer in time; the operation may have happened, or may still happen.
        """
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[T] = loop.create_future()
        late = loop.call_later(seconds, self._give_up, reply, seconds)
        self._travel(reply, partial(self._arrive, operation, reply, controlled))
        try:
            return await reply
        finally:
            late.cancel()
            del reply  # whose error would hold this frame, and the frame it

    def _give_up(self, reply: asyncio.Future[T], seconds: float) -> None:
        if not reply.done():
            text = f"cluster {self.cluster.name} did not answer within {seconds} s"
            reply.set_exception(ClusterUnavailable(text))

    async def travel_both_ways(self) -> None:
        """Waits for the time that a request and its answer travel."""
        await asyncio.sleep(self._delay() + self._delay())

    def _delay(self) -> float:
        return (self._latency() if self._latency is not None else 0.0) + self.cluster.slow_seconds / 2

    def _travel(self, reply: asyncio.Future[T], arrive: Callable[[], None]) -> None:
        """Waits for one way, unless nobody waits for the reply by then."""
        asyncio.get_running_loop().call_later(self._delay(), self._pass, reply, arrive)

    def _pass(self, reply: asyncio.Future[T], arrive: Callable[[], None]) -> None:
        """Waits while the network is cut; a dead cluster refuses the request, or its answer is lost."""
        if reply.done():
            return
        if self._is_cut:
            self.cluster.when(
                lambda: reply.done() or not self._is_cut,
                lambda: asyncio.get_running_loop().call_soon(self._pass, reply, arrive),
            )
        elif not self.cluster.running:
            reply.set_exception(
                ClusterUnavailable(f"cluster {self.cluster.name} refuses to connect", metadata={"refused": "true"})
            )
        elif (denial := self.denial) is not None:
            reply.set_exception(denial)
        else:
            arrive()

    def _arrive(self, operation: Callable[[], T], reply: asyncio.Future[T], controlled: bool) -> None:
        def answer(served: asyncio.Future[T]) -> None:
            if not reply.done():
                self._travel(reply, lambda: _hand_over(served, reply))

        served = self.cluster.submit(operation, controlled=controlled)
        if served.done():
            answer(served)
        else:
            served.add_done_callback(answer)


def _hand_over(served: asyncio.Future[T], reply: asyncio.Future[T]) -> None:
    error = served.exception()
    if error is None:
        reply.set_result(served.result())
    else:
        reply.set_exception(error)
