"""Parking records: no number of them breaks anything, and each comes back when its time has come."""

import random
from dataclasses import dataclass
from typing import cast

from braid.client.delivery.dead_letter_limit import Brakes
from braid.client.delivery.lane_states import LaneStates
from braid.client.delivery.ready_queue import ReadyQueue
from braid.client.handling.retries import Retries
from braid.client.records.record import Record
from braid.client.telemetry.metrics import Level
from braid.kernel.limits.client import PARKED_RETRIES_MAX, RETRY_LOOK_SECONDS, RETRY_SLACK_SECONDS, RETRY_TICK_SECONDS
from braid.kernel.limits.envelope import TIMERS_MAX
from tests.support.scripted_control import virtual
from tests.support.virtual_time import VirtualProcess, run_virtual, running_loop


@dataclass(eq=False)
class Parked:
    """The part of a record that parking uses; it is its own work."""

    offset: int
    lane: str = "live"
    size: int = 3
    returned: int = 0
    working: bool = True
    ended: bool = False
    freed: int = 0

    @property
    def work(self) -> "Parked":
        return self

    def back(self, record: object) -> None:
        self.returned += 1

    def free(self, size: int) -> None:
        self.freed += size


def no_holds() -> LaneStates:
    """Every lane goes on."""
    return LaneStates(ReadyQueue({}))


def test_an_application_may_park_whatever_its_memory_holds() -> None:
    count = TIMERS_MAX + 5_000
    told: list[tuple[str, int, int]] = []

    async def run() -> list[Parked]:
        process = VirtualProcess(running_loop(), "app", 0)
        brakes = Brakes(None, lambda *_: None)
        retries = Retries(process.host, lambda *parked: told.append(parked), None, brakes, no_holds(), Level(None, {}))
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


def parking(told: list[float]) -> tuple[VirtualProcess, Retries]:
    """Retries whose looks are told."""
    process = VirtualProcess(running_loop(), "app", 0)

    def tell(lane: str, count: int, size: int) -> None:
        told.append(process.host.clock.elapsed())

    retries = Retries(process.host, tell, None, Brakes(None, lambda *_: None), no_holds(), Level(None, {}))
    process.host.tasks.spawn(retries.run(), "retries")
    return process, retries


class Timed(Parked):
    """One that notes when it came back."""

    def __init__(self, offset: int, process: VirtualProcess) -> None:
        super().__init__(offset)
        self.process = process
        self.came_at = -1.0

    def back(self, record: object) -> None:
        """Notes when a record returns for another attempt."""
        super().back(record)
        self.came_at = self.process.host.clock.elapsed()


@virtual
async def test_one_record_that_waits_for_long_costs_a_look_a_second() -> None:
    told: list[float] = []
    process, retries = parking(told)
    record = Timed(0, process)
    retries.park(cast("Record", record), 30.0)
    await process.host.clock.sleep(29.5)
    assert len(told) <= 1 + 29.5 / RETRY_LOOK_SECONDS
    soon = Timed(1, process)  # it does not wait for the next look
    retries.park(cast("Record", soon), 0.1)
    await process.host.clock.sleep(2.0)
    assert 29.6 <= soon.came_at <= 29.6 + RETRY_TICK_SECONDS
    assert 30.0 <= record.came_at <= 30.0 + RETRY_SLACK_SECONDS


@virtual
async def test_retries_are_never_early_and_come_together() -> None:
    told: list[float] = []
    process, retries = parking(told)
    rng = random.Random(7)
    records: list[tuple[Timed, float]] = []
    for number in range(500):
        record, wait = Timed(number, process), rng.uniform(*((0.0, 0.1) if number < 100 else (0.6, 1.2)))
        records.append((record, process.host.clock.elapsed() + wait))
        retries.park(cast("Record", record), wait)
        await process.host.clock.sleep(0.01)
    told.clear()
    await process.host.clock.sleep(1.5)
    for record, due in records:
        assert due <= record.came_at <= due + RETRY_SLACK_SECONDS + RETRY_TICK_SECONDS
    assert len({record.came_at for record, _ in records[100:]}) < 100  # 4 s of ticks are 200
    assert len(told) < 1.0 / RETRY_TICK_SECONDS / 2


@virtual
async def test_records_parked_without_end_put_nothing_off() -> None:
    process, retries = parking([])
    records = [Timed(number, process) for number in range(200)]
    for record in records:
        retries.park(cast("Record", record), 0.0)
        await process.host.clock.sleep(0.002)
    assert max(record.came_at for record in records[:180]) < 0.4
    assert all(record.came_at >= 0 for record in records[:180])
    assert len({record.came_at for record in records}) <= 0.4 / RETRY_TICK_SECONDS + 2


@virtual
async def test_a_lost_leases_retries_give_back_their_room() -> None:
    told: list[float] = []
    process, retries = parking(told)
    gone, kept = [Timed(number, process) for number in range(100)], [Timed(number, process) for number in range(7)]
    for record in (*gone, *kept):
        retries.park(cast("Record", record), 3_600.0)
    for record in gone:
        record.ended = True
    await process.host.clock.sleep(RETRY_LOOK_SECONDS + RETRY_TICK_SECONDS)
    assert len(retries) == 7
    assert {record.freed for record in gone} == {3} and {record.freed for record in kept} == {0}
    await process.host.clock.sleep(3_600.0)
    assert [record.returned for record in (*gone, *kept)] == [0] * 100 + [1] * 7
