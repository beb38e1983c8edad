"""Records that wait for another attempt, on a timer wheel, beside the partition and not in its way."""

import asyncio
import math
from collections import Counter, deque
from collections.abc import Callable
from typing import Final

from braid.client.consumer_settings import RetryBudget
from braid.client.delivery.dead_letter_limit import Brakes
from braid.client.delivery.lane_states import Hold, LaneStates
from braid.client.handling.retry_budget import LaneBudget
from braid.client.records.delivery import Delivery
from braid.client.records.record import Record
from braid.client.telemetry.metrics import Level
from braid.kernel.limits.client import PARKED_TIMERS_MAX, RETRY_LOOK_SECONDS, RETRY_SLACK_SECONDS, RETRY_TICK_SECONDS
from braid.kernel.ports import Host
from braid.kernel.timing.timer_wheel import TimerWheel

_NEVER_MS: Final = 1 << 62
_SLACK_MS: Final = int(RETRY_SLACK_SECONDS * 1000)


class Retries:
    """Parks records until their next attempt is due; its bounds are told how many are parked.

    A record whose handler failed also waits for a token of its lane's budget, once it is due. Of a stopped lane,
    records come back one at a time: enough to try it with.
    """

    def __init__(
        self,
        host: Host,
        parked: Callable[[str, int, int], None],
        budget: RetryBudget | None,
        brakes: Brakes,
        states: LaneStates,
        level: Level,
    ) -> None:
        """`parked` gets a lane's number of parked records and their bytes; `level` counts all parked records."""
        self._host = host
        self._tell_parked = parked
        self._budget = budget
        self._brakes = brakes
        self._states = states
        self._level = level
        self._wheel: TimerWheel[int] = TimerWheel(self._now_ms(), timers_max=PARKED_TIMERS_MAX)
        self._parked: dict[int, Record] = {}
        self._counts: Counter[str] = Counter()  # parked records, by lane
        self._sizes: Counter[str] = Counter()  # their bytes
        self._budgeted: dict[int, None] = {}  # parked records whose next attempt costs a token
        self._due: dict[str, deque[int]] = {}  # by lane, due records that wait for a token
        self._budgets: dict[str, LaneBudget] = {}
        self._trying: dict[str, dict[tuple[Delivery, int], None]] = {}  # records whose retry took a token
        self._works: Counter[Delivery] = Counter()  # the work of each parked record
        self._looks_at_ms = _NEVER_MS  # when to look for due records next
        self._any = asyncio.Event()
        self._sleeping: asyncio.Future[None] | None = None  # until then
        self._number = 0
        self._full: set[str] = set()
        self._failed: Record | None = None

    def __len__(self) -> int:
        return len(self._parked)

    def works(self) -> list[Delivery]:
        """Returns the work of each parked record."""
        return [record.work for record in self._parked.values()]

    def short_of_budget(self, lane: str) -> int:
        """Counts a lane's records that are due but wait for the retry budget."""
        return 0 if self._states.holds(lane, Hold.CIRCUIT) else len(self._due.get(lane, ()))

    def again(self, record: Record, delay_seconds: float, *, counts: bool) -> None:
        """Schedules another attempt of a record whose handler failed; `counts` if this was one of its attempts."""
        self._failed = record
        if counts:
            record.retry(delay_seconds)
        else:
            record.postpone(delay_seconds)
        self._failed = None

    def park(self, record: Record, delay_seconds: float) -> None:
        """Parks a record for a while."""
        self._number += 1
        self._parked[self._number] = record
        self._counts[record.lane] += 1
        self._sizes[record.lane] += record.size
        self._works[record.work] += 1
        if record is self._failed:
            self._budgeted[self._number] = None
        self._trying.get(record.lane, {}).pop((record.work, record.offset), None)  # that token is spent
        due_ms = _due_ms(self._host.clock.elapsed(), delay_seconds)
        self._wheel.schedule(self._number, due_ms)
        if due_ms < self._looks_at_ms and self._sleeping is not None:
            self._sleeping.cancel()
        self._any.set()
        self._tell(record.lane)

    async def run(self) -> None:
        """Gives records back until cancelled."""
        while True:
            await self._until_due()
            self._drop_ended()
            for number in self._wheel.advance(self._now_ms()):
                if number in self._budgeted:
                    self._due.setdefault(self._parked[number].lane, deque()).append(number)
                else:
                    self._give_back(number)
            for lane in list(self._due):
                self._give_back_within_budget(lane, self._due[lane])
                if not self._due[lane]:
                    del self._due[lane]
            self._tell(*self._counts)

    async def _until_due(self) -> None:
        """Waits until something is due; while records wait for tokens, a tick. Looks now and then in any case."""
        earliest_ms = self._now_ms() + int(RETRY_TICK_SECONDS * 1000)
        while not self._parked:
            self._any.clear()
            await self._any.wait()
        ends_ms = self._now_ms() + int(RETRY_LOOK_SECONDS * 1000)
        while (now_ms := self._now_ms()) < ends_ms:
            due_ms = now_ms if self._due else self._wheel.next_due_ms() or now_ms
            self._looks_at_ms = min(max(due_ms, earliest_ms), ends_ms)
            if await self._slept((self._looks_at_ms - now_ms) / 1000):
                return

    async def _slept(self, seconds: float) -> bool:
        """Sleeps; returns whether no record was parked meanwhile that is due earlier."""
        self._sleeping = asyncio.ensure_future(self._host.clock.sleep(seconds))
        try:
            await asyncio.wait((self._sleeping,))
            return not self._sleeping.cancelled()
        finally:
            self._sleeping.cancel()

    def _drop_ended(self) -> None:
        """Drops records of a lease that is gone, and frees their room, because they may be fetched anew."""
        ended = [work for work in self._works if work.ended]
        if not ended:
            return
        for number in [number for number, record in self._parked.items() if record.work.ended]:
            self._wheel.cancel(number)
            record = self._take_out(number)
            record.work.free(record.size)
        for lane, due in self._due.items():
            self._due[lane] = deque(number for number in due if number in self._parked)

    def _take_out(self, number: int) -> Record:
        """Removes a record that is no longer parked."""
        self._budgeted.pop(number, None)
        record = self._parked.pop(number)
        self._counts[record.lane] -= 1
        self._sizes[record.lane] -= record.size
        self._works[record.work] -= 1
        if not self._works[record.work]:
            del self._works[record.work]
        return record

    def _give_back(self, number: int) -> None:
        record = self._take_out(number)
        record.work.back(record)

    def _give_back_within_budget(self, lane: str, due: deque[int]) -> None:
        self._earn(lane)
        while due:
            record = self._parked[due[0]]
            if record.work.working:
                if record.work.crowded and self._states.holds(lane, Hold.CIRCUIT):
                    return
                if not self._spend(lane, record):
                    return
            self._give_back(due.popleft())

    def _spend(self, lane: str, record: Record) -> bool:
        if self._budget is None:
            return True
        if not self._budgets[lane].spend():
            return False
        self._trying.setdefault(lane, {})[record.work, record.offset] = None
        return True

    def _earn(self, lane: str) -> None:
        """Updates a lane's budget: records done, retries that succeeded, and retries that will not be made."""
        if self._budget is None:
            return
        now = self._host.clock.elapsed()
        if lane not in self._budgets:
            self._budgets[lane] = LaneBudget(self._budget, now)
        budget, trying = self._budgets[lane], self._trying.get(lane, {})
        budget.earn(self._brakes.lane(lane).done, now)
        for work, offset in list(trying):
            if work.ended or work.is_done(offset):
                del trying[work, offset]
                budget.give_back()

    def _tell(self, *lanes: str) -> None:
        self._level.set(len(self._parked))
        for lane in lanes:
            self._tell_parked(lane, self._counts[lane], self._sizes[lane])

    def _now_ms(self) -> int:
        return int(self._host.clock.elapsed() * 1000)


def _due_ms(now: float, delay_seconds: float) -> int:
    """Returns when a record is tried again: up to an eighth of its wait later, so that several come together."""
    together = 1 << max(0, min(int(delay_seconds * 125), _SLACK_MS).bit_length() - 1)  # multiples of it are common
    return math.ceil((now + delay_seconds) * 1000 / together) * together
