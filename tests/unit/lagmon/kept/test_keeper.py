"""The keeper samples a table, hands closed steps to listeners, and reads what it kept."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import structlog

from services.lagmon.kept.files import MemoryFiles
from services.lagmon.kept.keeper import Keeper
from services.lagmon.kept.rows import SeriesKey, Step
from services.lagmon.model.lag import Filter, LagRow, RowKey, Source
from services.lagmon.policy import Now
from tests.support.virtual_time import VirtualProcess, run_virtual, running_loop

GROUPS = ("a", "b", "c")


class Table(NamedTuple):
    """A table of lag as the keeper reads it."""

    rows: Sequence[LagRow]
    now: Now
    catching_up: Sequence[str]


class Kept:
    """A keeper of three groups whose logs grow by ten records a second, of which they do seven."""

    def __init__(self, files: MemoryFiles | None = None) -> None:
        self.process = VirtualProcess(running_loop(), "lagmon-0", 1)
        self.clock = self.process.host.clock
        self.keeper = Keeper(self.process.host, self._table, structlog.stdlib.get_logger(), files)
        self.heard: list[Step] = []
        self.ages: list[float] = []
        self.keeper.listen(self.heard.append)
        self.process.tasks.spawn(self.keeper.run(), "kept lag")

    async def _table(self, age_seconds: float) -> Table:
        self.ages.append(age_seconds)
        now = Now(self.clock.elapsed(), self.clock.now_ms())
        end = round(now.elapsed * 10)
        rows = [
            LagRow(
                RowKey(group, "logs", "live", "east", "topic", 0),
                *(1, round(now.elapsed * 3), 2.0, Source.ENVELOPE, False, False, now.wall_ms),
                end_offset=end,
            )
            for group in GROUPS
        ]
        return Table(rows, now, [])


def test_listeners_hear_every_step_once_and_in_order() -> None:
    async def scene() -> None:
        kept = Kept()
        await kept.clock.sleep(62)
        times = [step.time_ms for step in kept.heard]
        assert len(times) == 6
        assert times == sorted(set(times))
        row = kept.heard[-1].row(SeriesKey("a", "logs", "live"))
        assert row is not None
        assert (round(row.produced_per_s or 0), round(row.done_per_s or 0)) == (10, 7)
        trend = kept.keeper.trend(SeriesKey("a", "logs", "live"))
        assert trend is not None
        assert round(trend.per_s, 1) == 3.0
        assert set(kept.ages) == {1.5}

    run_virtual(scene())


def test_reading_filters_and_begins_where_rows_begin() -> None:
    async def scene() -> None:
        kept = Kept()
        await kept.clock.sleep(62)
        until_ms = kept.clock.now_ms()
        series = await kept.keeper.read(Filter(), until_ms - 3_600_000, until_ms, 10_000)
        assert [each.key.group for each in series] == list(GROUPS)
        (one,) = await kept.keeper.read(Filter(group="b"), until_ms - 3_600_000, until_ms, 10_000)
        assert [row.time_ms for row in one.rows] == [step.time_ms for step in kept.heard]
        assert kept.keeper.kept_since_ms(10_000) == one.rows[0].time_ms
        assert not await kept.keeper.read(Filter(stream="other"), until_ms - 3_600_000, until_ms, 10_000)

    run_virtual(scene())


def test_a_trend_of_long_ago_says_nothing() -> None:
    async def scene() -> None:
        kept = Kept()
        await kept.clock.sleep(62)
        kept.process.pause()
        await asyncio.sleep(200)
        assert kept.keeper.trend(SeriesKey("a", "logs", "live")) is None
        kept.process.resume()

    run_virtual(scene())
