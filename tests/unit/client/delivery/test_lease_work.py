"""The work on one lease by itself: its cursors, and which version of them is committed."""

import asyncio
from functools import partial

import pytest

from braid.client.commits.claims import claims_of
from braid.client.delivery.cursor import Cursor
from braid.client.delivery.key_order import KeyOrder
from braid.client.delivery.memory_bound import MemoryBound
from braid.client.delivery.ready_queue import ReadyQueue
from braid.client.delivery.stages import Stage
from braid.client.records.record import Row
from braid.client.records.slices import Slice
from braid.kernel.ports import KnownLog
from braid.kernel.progress.ranges import Ranges
from braid.kernel.progress.tracker import Progress
from tests.support.scripted_control import virtual
from tests.unit.client.delivery.test_cursor import fetched, taken, work_of

TOPIC_ID = bytes(range(16))


def test_a_lease_has_a_cursor_only_once_its_progress_is_restored() -> None:
    work = work_of(ReadyQueue({}))
    assert (work.stage, work.restored, work.cursors, work.dirty) == (Stage.RESTORING, False, (), False)
    assert (work.handled, work.copying, work.skipped, work.take_load()) == (0, 0, 0, (0, 0))
    assert work.oldest_unfinished_ms is None
    work.begin(Progress(7), TOPIC_ID, KnownLog(2, 9))
    assert (work.working, work.dirty, work.behind) == (True, True, ())
    assert (work.head.start, work.head.progress.base, work.head.topic_id) == (0, 7, TOPIC_ID)
    assert work.head.known_log == KnownLog(2, 9)


def test_a_lease_revoked_while_being_restored_does_not_begin() -> None:
    work = work_of(ReadyQueue({}))
    work.drain()
    work.begin(Progress(0), TOPIC_ID)
    assert (work.stage, work.restored) == (Stage.DRAINING, False)
    asyncio.run(work.drained())


def test_a_restored_lease_has_its_backlog_cursors_in_order() -> None:
    work = work_of(ReadyQueue({}))
    work.begin(Progress(900), TOPIC_ID, KnownLog(4, 950), [(Progress(10), 100), (Progress(150), 900)])
    assert [each.start for each in work.cursors] == [0, 100, 900]
    assert [each.progress.base for each in work.cursors] == [10, 150, 900]
    assert [each.known_log for each in work.cursors] == [KnownLog(4, 950)] * 3
    assert work.behind == work.cursors[:2]
    assert work.head is work.cursors[2]


@virtual
async def test_a_split_leaves_records_out_to_the_lower_cursor() -> None:
    ready, memory = ReadyQueue({}), MemoryBound(1 << 20, {})
    work = work_of(ready)
    work.begin(Progress(0), TOPIC_ID)
    work.head.accept(fetched(0, 1, 2))
    (record, *_) = taken(ready, 3)
    older = work.split(1_000, 200)
    older.fall_behind(1_000, memory.divide("live", 0.2), "live backlog")
    assert work.cursors == (older, work.head)
    assert (older.start, older.until, older.out) == (0, 1_000, 3)
    assert (work.head.start, work.head.out, work.head.progress.base) == (1_000, 0, 1_000)
    assert (work.handled, work.backlog_permille) == (3, 200)
    record.ack()
    assert (work.handled, older.unnoted) == (2, 0), "noted at once"
    fields = claims_of(work, detached=False)
    assert (fields.base, fields.until, [each.start for each in fields.cursors]) == (1, 1_000, [1_000])


def test_the_lowest_cursor_closes_once_its_range_is_done() -> None:
    work, memory = work_of(ReadyQueue({})), MemoryBound(1 << 20, {})
    work.begin(Progress(0), TOPIC_ID, KnownLog(1, 0))
    work.head.accept(fetched(0, leader_epoch=6))
    older = work.split(10, 300)
    older.fall_behind(10, memory.divide("live", 0.3), "live backlog")
    older.progress.reject(0)
    assert work.close_oldest() is None, "nine offsets are not fetched"
    older.progress.advance_fetched(10)
    before = work.version
    assert work.close_oldest() is older
    assert work.close_oldest() is None, "the head stays"
    assert (work.cursors, work.head.start, work.backlog_permille) == ((work.head,), 0, 0)
    assert work.head.known_log.leader_epoch == 6
    assert work.head.progress.snapshot().rejected == Ranges([(0, 1)])
    assert work.version != before


@virtual
async def test_changes_during_a_commit_go_with_the_next_commit() -> None:
    ready = ReadyQueue({})
    work = work_of(ready)
    work.begin(Progress(0), TOPIC_ID)
    work.head.accept(fetched(0, 1))
    first, second = taken(ready, 2)
    first.ack()
    work.note_acked()
    version, stated = work.version, claims_of(work, detached=False)
    second.ack()
    work.committed(version, stated, 5.0, again=False)
    assert (work.dirty, work.committed_at) == (True, 5.0)
    work.note_acked()
    work.committed(work.version, claims_of(work, detached=False), 6.0, again=False)
    assert (work.dirty, work.committed_at) == (False, 6.0)
    work.committed(work.version, claims_of(work, detached=False), 7.0, again=True)
    assert work.dirty, "what kept the base down is stated now"


def test_a_split_during_a_commit_goes_with_the_next_commit() -> None:
    work, memory = work_of(ReadyQueue({})), MemoryBound(1 << 20, {})
    work.begin(Progress(0), TOPIC_ID)
    version, stated = work.version, claims_of(work, detached=False)
    work.split(10, 300).fall_behind(10, memory.divide("live", 0.3), "live backlog")
    work.committed(version, stated, 5.0, again=False)
    assert work.dirty


@pytest.mark.parametrize("end", [False, True])
def test_a_lease_that_is_drained_or_ended_stops_all_its_cursors(*, end: bool) -> None:
    virtual(partial(_stops_all_its_cursors, end=end))()


async def _stops_all_its_cursors(*, end: bool) -> None:
    ready, memory = ReadyQueue({}), MemoryBound(1 << 20, {})
    work = work_of(ready)
    work.begin(Progress(0), TOPIC_ID)
    work.head.accept(fetched(0))
    (record,) = taken(ready, 1)
    work.split(10, 300).fall_behind(10, memory.divide("live", 0.3), "live backlog")
    work.drain()
    drained = asyncio.ensure_future(work.drained())
    await asyncio.sleep(0)
    assert not drained.done(), "a record of the cursor behind is out"
    if end:
        work.end()
    else:
        record.ack()
    await drained
    assert [each.ended for each in work.cursors] == [end, end]
    assert not any(each.hand_out(1) for each in work.cursors)


def test_each_cursor_keeps_an_order_of_its_own() -> None:
    made: list[KeyOrder[Row, Slice[Cursor]]] = []

    def new_order() -> KeyOrder[Row, Slice[Cursor]]:
        made.append(KeyOrder(by_key=True))
        return made[-1]

    work = work_of(ReadyQueue({}), new_order=new_order)
    work.begin(Progress(0), TOPIC_ID)
    work.split(10, 300)
    assert len(made) == 2
    assert all(each.ordered for each in work.cursors)
