"""Replicas' aggregates with archives, on virtual time: a world of one store, seats, and answers recorded as given."""

from braid.archive.memory import MemoryArchive
from braid.kernel.ports import ArchiveStore, HistoryId
from braid.runtime.archive.shelf import Shelf
from braid.runtime.histories.aggregates import Aggregates
from braid.runtime.telemetry import make_metrics
from braid.stores.memory_server import MemoryStoreServer
from testbed.checkers.past import PastAnswers
from tests.support.counters import COUNTERS, CounterService
from tests.unit.runtime.histories.seats import Seat

STEP = 8
TOTAL = HistoryId("registry", "counter", "total")


class ArchivingSeat(Seat):
    """A replica's seat whose aggregates have an archive, and peers."""

    def __init__(
        self, name: str, server: MemoryStoreServer | None = None, archive: MemoryArchive | None = None
    ) -> None:
        super().__init__(name, server)
        self.archive = archive or MemoryArchive()
        self.objects: ArchiveStore = self.archive
        self.peers: list[ArchiveStore] = []
        self.metrics = make_metrics("registry", name)
        self.aggregates = self.aggregates_anew()

    def aggregates_anew(self) -> Aggregates:
        """The aggregates of a restarted process: nothing in memory."""
        self.shelf = Shelf(self.objects, self.host.clock, self.others)
        made = Aggregates(
            self.store, CounterService.kinds, self.host, "registry", self.office, self.metrics, self.shelf
        )
        made.subscribe(self.heard.append)
        return made

    def archives_to(self, objects: ArchiveStore) -> "ArchivingSeat":
        """Has another archive from now on, as a restarted process does."""
        self.objects = objects
        self.aggregates = self.aggregates_anew()
        return self

    async def others(self) -> list[ArchiveStore]:
        """Archives of other replicas."""
        return self.peers

    async def follow(self) -> "ArchivingSeat":
        """See `Seat`."""
        await super().follow()
        return self

    async def lead(self) -> "ArchivingSeat":
        """See `Seat`."""
        await super().lead()
        return self

    async def value_at(self, at_ms: int) -> object:
        """The counter at a moment."""
        state = (await self.aggregates.past(COUNTERS, "total", at_ms)).state
        return state.value, state.added

    async def grow(self, events: int, answers: PastAnswers | None = None, every: int = 6) -> None:
        """Adds events, `STEP` of them with each append, recording now and then what the counter is."""
        for number in range(events // STEP):
            await self.lead_again()
            await self.add(number % 7 + 1, steps=STEP)
            if answers is not None and number % every == 0:
                state = self.aggregates.state(COUNTERS, "total")
                answers.record(self.host.clock.now_ms(), (state.value, state.added))
            await self.host.clock.sleep(0.016)
        await self.host.clock.sleep(0.1)


def kept_from(seat: Seat) -> int:
    """The first event that the store itself still has."""
    return seat.store.server.load(TOTAL).first
