"""One cursor by itself: what of a fetch is handed out, and what is known of it while acknowledgements are kept."""

from collections.abc import Callable

from braid.api.mesh.v1.endpoint_pb2 import ClusterAddress
from braid.client.delivery.cursor import Cursor
from braid.client.delivery.key_order import KeyOrder
from braid.client.delivery.lease_work import LeaseWork
from braid.client.delivery.memory_bound import LaneMemory, MemoryBound
from braid.client.delivery.ready_queue import ReadyQueue
from braid.client.delivery.stages import Stage
from braid.client.records.braid_headers import MARKS
from braid.client.records.delivery import OwnedLease
from braid.client.records.record import Record, Row
from braid.client.records.slices import Slice
from braid.kafka.memory.log import MemoryRecord
from braid.kernel.ids import SEAL_CANARY, LeaseId
from braid.kernel.ports import FetchedColumns, KnownLog, TopicPartition
from braid.kernel.progress.tracker import Progress
from braid.kernel.record_columns import columns_of
from tests.support.scripted_control import virtual

PARTITION = TopicPartition("braid.logs.live.1", 0)


class Letters:
    """Counts what is settled; writes no dead letter."""

    def __init__(self) -> None:
        self.count = 0

    def park(self, record: Record, delay_seconds: float) -> None:
        raise AssertionError("nothing is tried again here")

    def write_dead_letter(self, record: Record, error: BaseException | str) -> None:
        return

    def settled(self, count: int) -> None:
        self.count += count


class _Ready(ReadyQueue):
    def __init__(self) -> None:
        super().__init__({})
        self.offsets: list[int] = []

    def put(self, waiting: Slice[Cursor], *, first: bool = False) -> None:
        self.offsets += [row.offset for row in waiting.rows]
        super().put(waiting, first=first)


def work_of(
    ready: ReadyQueue,
    settling: Letters | None = None,
    may_start: Callable[[], bool] | None = None,
    new_order: Callable[[], KeyOrder[Row, Slice[Cursor]]] | None = None,
) -> LeaseWork:
    """Work on a lease that was just granted."""
    held = OwnedLease(LeaseId.parse("logs/live/1/0"), 7, ClusterAddress(name="east"), PARTITION)
    memory = LaneMemory(MemoryBound(1 << 20, {}), 1)
    return LeaseWork(
        held,
        group="g",
        ready=ready,
        settling=settling or Letters(),
        memory=memory,
        may_start=may_start,
        new_order=new_order,
    )


def fetched(*offsets: int, leader_epoch: int = -1) -> FetchedColumns:
    """Records of these offsets, a byte each."""
    records = [MemoryRecord(offset, 5, 0, None, b"x", ()) for offset in offsets]
    columns = [columns_of(records, MARKS)] if records else []
    return FetchedColumns(PARTITION, columns, offsets[-1] + 1, leader_epoch=leader_epoch)


def taken(ready: ReadyQueue, count: int) -> list[Record]:
    """Takes up to this many waiting records."""
    found = [ready.take_nowait() for _ in range(count)]
    return [record for record in found if record is not None]


def test_only_a_seals_own_canary_is_passed_over() -> None:
    ready = _Ready()
    work = work_of(ready, may_start=lambda: True)
    work.begin(Progress(0), bytes(16))
    assert work.stage is Stage.WORKING

    canary = MemoryRecord(1, 5, 0, None, SEAL_CANARY, ())
    others = [
        MemoryRecord(0, 5, 0, None, b"a", ()),
        MemoryRecord(2, 5, 0, b"key", SEAL_CANARY, ()),
        MemoryRecord(3, 5, 0, None, SEAL_CANARY, (("braid-id", b"01:1"),)),
    ]
    last = MemoryRecord(4, 5, 0, None, SEAL_CANARY, ())
    records = [others[0], canary, others[1], others[2], last]
    work.head.accept(FetchedColumns(PARTITION, [columns_of(records, MARKS)], 5))

    assert ready.offsets == [0, 2, 3]
    for offset in ready.offsets:
        work.head.progress.done(offset)
    assert work.head.progress.base == 5


def test_accepting_a_fetch_tells_its_bytes_of_keys_and_values() -> None:
    work = work_of(ReadyQueue({}))
    assert work.restored is False
    work.begin(Progress(0), bytes(16))
    assert work.head.accept(fetched(0, 1, 2)) == 3
    work.drain()
    assert work.head.accept(fetched(3)) == 0, "nothing is taken any more"


@virtual
async def test_looking_at_a_lease_notes_nothing_that_was_acknowledged() -> None:
    ready, settling = ReadyQueue({}), Letters()
    work = work_of(ready, settling)
    work.begin(Progress(0), bytes(16))
    work.head.accept(fetched(0, 1, 2))
    for record in taken(ready, 2):
        record.ack()
    version = work.version
    for _ in range(2):
        assert (work.handled, work.dirty, work.version) == (1, True, version)
        assert (work.head.progress.base, work.head.unnoted, settling.count) == (0, 2, 0)
    work.note_acked()
    assert (work.handled, work.head.progress.base, work.head.unnoted, settling.count) == (1, 2, 0, 2)
    assert work.version != version


def test_only_a_newer_leader_epoch_of_a_fetch_is_noted() -> None:
    work = work_of(ReadyQueue({}))
    work.begin(Progress(0), bytes(16), KnownLog(3, 10))
    work.head.accept(fetched(0, leader_epoch=5))
    assert work.head.known_log == KnownLog(5, 10)
    work.head.accept(fetched(1, leader_epoch=4))
    assert work.head.known_log == KnownLog(5, 10)
