"""Parking records: no number of them breaks anything, and each comes back when its time has come."""

from dataclasses import dataclass
from typing import cast

from braid.client.brake import Brakes
from braid.client.instruments import Level
from braid.client.record import Record
from braid.client.retries import Retries
from braid.kernel.limits import PARKED_RETRIES_MAX, TIMERS_MAX
from tests.support.virtual_time import VirtualProcess, run_virtual, running_loop


@dataclass
class Parked:
    """As much of a record as parking looks at; it is its own work."""

    offset: int
    lane: str = "live"
    size: int = 3
    returned: int = 0
    working: bool = True

    @property
    def work(self) -> "Parked":
        return self

    def back(self, record: object) -> None:
        self.returned += 1


def test_an_application_may_park_whatever_its_memory_holds() -> None:
    count = TIMERS_MAX + 5_000
    told: list[tuple[str, int, int]] = []

    async def run() -> list[Parked]:
        process = VirtualProcess(running_loop(), "app", 0)
        brakes = Brakes(None, lambda *_: None)
        retries = Retries(process.host, lambda *parked: told.append(parked), None, brakes, {}, Level(None, {}))
        records = [Parked(number) for number in range(count)]
        for record in records:
            retries.park(cast("Record", record), 1.0 + record.offset % 7)
        assert (len(retries), told[-1]) == (count, ("live", count, count * 3))
        running = process.host.tasks.spawn(retries.run(), "retries")
        await process.host.clock.sleep(1.5)
        assert len(retries) == count - len(range(0, count, 7))
        await process.host.clock.sleep(8.0)
        assert (len(retries), told[-1]) == (0, ("live", 0, 0))
        running.cancel()
        return records

    assert {record.returned for record in run_virtual(run())} == {1}
    assert count > PARKED_RETRIES_MAX
