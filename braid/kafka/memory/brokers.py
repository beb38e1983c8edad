"""The brokers of a cluster in memory: which of them run and answer, and the requests that wait for them."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from braid.kafka.memory.changes import Changes
from braid.kernel.errors import BraidError, ClusterUnavailable

T = TypeVar("T")

BROKER: Final = 1  # the first one, which leads the cluster


class Brokers(Changes):
    """All brokers of one cluster.

    Attributes:
        running: Whether they do at all.
        paused: Whether they take requests and do not answer.
        racks: By broker, where it has one.
        set_on: By broker, what it alone is set to.
    """

    def __init__(self, name: str, count: int) -> None:
        super().__init__()
        self.name = name
        self.running = True
        self.paused = False
        self.racks: dict[int, str] = {}
        self.set_on: dict[int, dict[str, str]] = {}
        self._brokers = range(BROKER, BROKER + count)
        self._stopped: set[int] = set()
        self._silent: set[int] = set()
        self._starts = 0  # so many times they were started anew, which no connection outlives
        self._in_sockets: list[Callable[[], None]] = []
        self._headless = False
        self._for_controller: list[Callable[[], None]] = []

    def kill(self) -> None:
        """Kills all brokers: requests without an answer are not done."""
        self.running = False
        self.paused = False
        _serve(self._in_sockets)
        self.notify()

    def start(self) -> None:
        """Starts all brokers; does nothing if they run."""
        if not self.running:
            self.running = True
            self._starts += 1
            self.notify()

    def pause(self) -> None:
        """Freezes all."""
        self.paused = True
        self.notify()

    def resume(self) -> None:
        """Resumes all brokers, with the requests they took meanwhile."""
        self.paused = False
        _serve(self._in_sockets)
        self.notify()

    def add_brokers(self, count: int) -> None:
        """Adds brokers, which keep no copy yet."""
        self._brokers = range(BROKER, BROKER + len(self._brokers) + count)
        self.notify()

    def stop_broker(self, broker: int) -> None:
        """Kills one of several brokers: a partition without another copy has no leader."""
        self._stopped.add(broker)
        self.notify()

    def start_broker(self, broker: int) -> None:
        """Starts a broker; it leads again what it led."""
        self._silent.discard(broker)
        self._stopped.discard(broker)
        self.notify()

    def silence_broker(self, broker: int) -> None:
        """Stops one of several brokers unnoticed by its cluster: partitions with a copy there take no append.

        The twin refuses such an append at once, where a real broker holds it until its time is over.
        """
        self._silent.add(broker)

    def notice_broker(self, broker: int) -> None:
        """Makes the cluster notice a silent broker: other brokers lead its partitions."""
        self._silent.discard(broker)
        self.stop_broker(broker)

    def lose_controller(self) -> None:
        """Stops the controller: brokers serve what they lead, and changes wait for a controller."""
        self._headless = True

    def find_controller(self) -> None:
        """Starts the controller; waiting changes are made now, also for clients that gave up."""
        self._headless = False
        _serve(self._for_controller)

    def serving(self) -> list[int]:
        """Brokers that are not stopped."""
        return [broker for broker in self._brokers if broker not in self._stopped]

    def check_serves(self, broker: int) -> None:
        """Raises `ClusterUnavailable` for a broker that does not answer."""
        if broker not in self.serving() or broker in self._silent:
            raise ClusterUnavailable(f"broker {broker} of cluster {self.name} does not answer")

    def submit(self, operation: Callable[[], T], *, controlled: bool = False) -> asyncio.Future[T]:
        """Submits a request: done now, or when a paused broker resumes, or never if it is killed first.

        A `controlled` request is passed on to the controller, and waits for it too.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if self.running and self.paused:
            self._in_sockets.append(partial(self._serve_one, operation, future, controlled))
        else:
            self._serve_one(operation, future, controlled)
        return future

    def _serve_one(self, operation: Callable[[], T], future: asyncio.Future[T], controlled: bool) -> None:
        if controlled and self._headless and self.running:
            self._for_controller.append(partial(self._serve_one, operation, future, controlled))
            return
        try:
            if not self.running:
                raise ClusterUnavailable(f"cluster {self.name} does not answer")
            result = operation()
        except BraidError as error:
            if not future.done():
                future.set_exception(error.with_traceback(None))  # its frames hold this future
                future.exception()
        else:
            if not future.done():
                future.set_result(result)


def _serve(waiting: list[Callable[[], None]]) -> None:
    """Serves waiting requests; those that must wait again do."""
    served = waiting.copy()
    waiting.clear()
    for serve in served:
        serve()
