"""The work on one lease, by itself: what of a fetch is handed out."""

from braid.api.mesh.v1.endpoint_pb2 import ClusterAddress
from braid.client.consuming.cluster import ClusterWork
from braid.client.delivery.memory_bound import LaneMemory, MemoryBound
from braid.client.delivery.partition_work import PartitionWork
from braid.client.delivery.ready_queue import ReadyQueue
from braid.client.delivery.stages import Stage
from braid.client.records.braid_headers import MARKS
from braid.client.records.delivery import OwnedLease
from braid.client.records.slices import Slice
from braid.kafka.memory.log import MemoryRecord
from braid.kernel.ids import SEAL_CANARY, LeaseId
from braid.kernel.ports import FetchedColumns, TopicPartition
from braid.kernel.progress.tracker import Progress
from braid.kernel.record_columns import columns_of

PARTITION = TopicPartition("braid.logs.live.1", 0)


class _Ready(ReadyQueue):
    def __init__(self) -> None:
        super().__init__({})
        self.offsets: list[int] = []

    def put(self, waiting: Slice[PartitionWork], *, first: bool = False) -> None:
        self.offsets += [row.offset for row in waiting.rows]


def test_the_canary_of_a_seal_is_passed_over_and_nothing_that_resembles_it() -> None:
    ready = _Ready()
    held = OwnedLease(LeaseId.parse("logs/live/1/0"), 7, ClusterAddress(name="east"), PARTITION)
    settling = ClusterWork.__new__(ClusterWork)  # nothing is settled here
    memory = LaneMemory(MemoryBound(1 << 20, {}), 1)
    work = PartitionWork(held, group="g", ready=ready, settling=settling, memory=memory, may_start=lambda: True)
    work.begin(Progress(0), bytes(16))
    assert work.stage is Stage.WORKING

    canary = MemoryRecord(1, 5, 0, None, SEAL_CANARY, ())
    others = [
        MemoryRecord(0, 5, 0, None, b"a", ()),
        MemoryRecord(2, 5, 0, b"key", SEAL_CANARY, ()),
        MemoryRecord(3, 5, 0, None, SEAL_CANARY, (("braid-id", b"01:1"),)),
    ]
    last = MemoryRecord(4, 5, 0, None, SEAL_CANARY, ())
    fetched = [others[0], canary, others[1], others[2], last]
    work.accept(FetchedColumns(PARTITION, [columns_of(fetched, MARKS)], 5))

    assert ready.offsets == [0, 2, 3]
    for offset in ready.offsets:
        work.progress.done(offset)
    assert work.progress.base == 5
