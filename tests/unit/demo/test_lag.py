"""The lag of a group as the demo keeps it: the worst row, rows of one cluster, and an end that is really one."""

import asyncio
from typing import cast

import pytest

from braid.api.lagmon.v1.lag_pb2 import Lag
from braid.kernel.errors import Unavailable
from demo.control import Control
from demo.lag import LagWatch, worded


class Told:
    """Answers what it was given, in turn; an error is raised."""

    def __init__(self, *answers: list[Lag] | Unavailable) -> None:
        self._answers = iter(answers)
        self.all_told = asyncio.Event()

    async def lag(self, group: str) -> list[Lag]:
        assert group == "indexer"
        answer = next(self._answers, None)
        if answer is None:
            self.all_told.set()
            await asyncio.Event().wait()
        if isinstance(answer, Unavailable):
            raise answer
        return answer or []


def watch(told: Told) -> LagWatch:
    return LagWatch(cast(Control, told), "indexer")


def row(lane: str = "live", cluster: str = "east", records: int = 0, seconds: float = 0.0, stale: bool = False) -> Lag:
    return Lag(lane=lane, cluster=cluster, lag_records=records, lag_seconds=seconds, stale=stale)


async def test_it_goes_on_asking_when_nobody_answers() -> None:
    told = Told(Unavailable("lagmon is away"), [row(records=4, seconds=2.5)])
    watching = watch(told)
    task = asyncio.ensure_future(watching.run())
    await told.all_told.wait()
    task.cancel()
    assert watching.answers == 1
    assert watching.unanswered == ""
    assert watching.worst is not None
    assert watching.worst.lag_seconds == 2.5


def test_the_worst_row_of_all_answers_is_kept() -> None:
    watching = watch(Told())
    watching.take([row(seconds=1.0), row("bulk", seconds=9.0)])
    watching.take([row(seconds=3.0)])
    assert watching.worst is not None
    assert watching.worst.lane == "bulk"


def test_rows_of_a_cluster_are_those_that_are_behind() -> None:
    watching = watch(Told())
    watching.take([row(records=3), row("bulk"), row(cluster="west", records=1)])
    assert [each.lane for each in watching.on("east")] == ["live"]


@pytest.mark.parametrize(
    "rows",
    [[], [row(), row("bulk", records=1)], [row(seconds=0.1)], [row(stale=True)]],
    ids=["nothing told", "records", "seconds", "stale"],
)
def test_it_is_not_over_before_every_row_is(rows: list[Lag]) -> None:
    watching = watch(Told())
    watching.take(rows)
    assert watching.final_seconds is None


def test_it_is_over_when_nothing_is_undone_anywhere() -> None:
    watching = watch(Told())
    watching.take([row(), row("bulk")])
    assert watching.final_seconds == 0.0


def test_words_tell_lanes_in_order_and_what_is_stale() -> None:
    rows = [row("live", records=2, seconds=1.0), row("bulk", records=6_120, seconds=4.25, stale=True)]
    assert worded(rows) == "bulk 6,120 records, 4.2 s and growing; live 2 records, 1.0 s"
