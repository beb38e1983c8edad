"""Records that wait for another attempt, on a timer wheel, beside the partition and not in its way."""

import asyncio
from collections.abc import Callable

from braid.client.partition_work import PartitionWork
from braid.client.record import Record
from braid.kernel import limits
from braid.kernel.ports import Host
from braid.kernel.timer_wheel import TimerWheel


class Retries:
    """Parks records and gives them back when their time has come; bounded by `limits.PARKED_RETRIES_MAX`."""

    def __init__(self, host: Host, full_changed: Callable[[bool], None]) -> None:
        """`full_changed` hears when the bound is reached and when it is left."""
        self._host = host
        self._full_changed = full_changed
        self._wheel: TimerWheel[int] = TimerWheel(self._now_ms())
        self._parked: dict[int, Record] = {}
        self._any = asyncio.Event()
        self._number = 0
        self._full = False

    def __len__(self) -> int:
        return len(self._parked)

    def works(self) -> list[PartitionWork]:
        """The work of each record that is parked."""
        return [record.work for record in self._parked.values()]

    def park(self, record: Record, delay_seconds: float) -> None:
        """Takes a record for a while."""
        self._number += 1
        self._parked[self._number] = record
        self._wheel.schedule(self._number, self._now_ms() + max(0, int(delay_seconds * 1000)))
        self._any.set()
        self._tell()

    async def run(self) -> None:
        """Gives records back until cancelled."""
        while True:
            await self._any.wait()
            await self._host.clock.sleep(limits.RETRY_TICK_SECONDS)
            for number in self._wheel.advance(self._now_ms()):
                record = self._parked.pop(number)
                record.work.back(record)
            self._tell()
            if not self._parked:
                self._any.clear()

    def _tell(self) -> None:
        full = len(self._parked) >= limits.PARKED_RETRIES_MAX
        if full != self._full:
            self._full = full
            self._full_changed(full)

    def _now_ms(self) -> int:
        return int(self._host.clock.elapsed() * 1000)
