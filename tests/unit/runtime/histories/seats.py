"""Replicas that decide about a counter, over a store in memory and on virtual time."""

from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from braid.kernel.errors import NotLeader
from braid.kernel.ports import Endpoint, HistoryId, Host
from braid.runtime.histories.aggregates import Aggregates
from braid.runtime.histories.kinds import Change, Leadership, Reloaded
from braid.runtime.telemetry import make_metrics
from braid.stores.memory import MemoryStore
from braid.stores.memory_server import MemoryStoreServer
from tests.support.counters import COUNTERS, Add, CounterService
from tests.support.virtual_time import VirtualProcess, run_virtual, running_loop

TOTAL = HistoryId("registry", "counter", "total")


@dataclass
class Office:
    """Says who leads, as a replica would."""

    host: Host
    leadership: Leadership | None = None
    reasons: list[str] = field(default_factory=list)

    def require_leader(self) -> Leadership:
        held = self.leadership
        if held is None or self.host.clock.elapsed() >= held.session.deadline():
            raise NotLeader("not here")
        return held

    def step_down(self, reason: str) -> None:
        self.leadership = None
        self.reasons.append(reason)


class Seat:
    """One replica's store client, authority and aggregates."""

    def __init__(self, name: str, server: MemoryStoreServer | None = None) -> None:
        self.process = VirtualProcess(running_loop(), name, 1)
        self.name = name
        self.host = self.process.host
        self.store = MemoryStore(self.host, server)
        self.office = Office(self.host)
        self.heard: list[Change | Reloaded] = []
        kinds = CounterService.kinds
        self.aggregates = Aggregates(
            self.store, kinds, self.host, "registry", self.office, make_metrics("registry", name)
        )
        self.aggregates.subscribe(self.heard.append)

    async def follow(self) -> "Seat":
        """Loads and follows."""
        self.host.tasks.spawn(self.aggregates.follow(), "follow")
        await self.aggregates.loaded()
        return self

    async def lead(self) -> "Seat":
        """Wins the election and catches up."""
        session = await self.store.open_session(3.0)
        leader = await self.store.campaign(Endpoint("registry", self.name, f"{self.name}:1"), session)
        await self.aggregates.catch_up()
        self.office.leadership = Leadership(leader, session, leader.fence.revision)
        return self

    async def lead_again(self) -> None:
        """Takes a session of its own age, as after a pause that outlasted the last one."""
        held = self.office.leadership
        if held is not None and self.host.clock.elapsed() >= held.session.deadline():
            await self.lead()

    async def add(self, amount: int, *, steps: int = 1, request_id: str = "") -> int:
        """Adds to the counter `total` and returns its value."""
        outcome = await self.aggregates.execute(
            COUNTERS, "total", Add(amount, steps), actor="tester", request_id=request_id
        )
        return outcome.state.value

    @property
    def total(self) -> int:
        """The counter's value as seen here."""
        return self.aggregates.state(COUNTERS, "total").value


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs a test on virtual time."""
    run_virtual(work)


async def two_seats() -> tuple[Seat, Seat]:
    """A leader, and a follower of its history."""
    first = await (await Seat("a").follow()).lead()
    second = await Seat("b", first.store.server).follow()
    return first, second


async def settle(seat: Seat) -> None:
    """Lets followers read what was appended."""
    await seat.host.clock.sleep(0.1)
