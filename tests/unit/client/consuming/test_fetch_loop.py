"""Leases that come and go by the hundred: the fetcher is assigned seldom, and none goes on where another one was."""

from collections.abc import Mapping, Sequence
from typing import Final

import pytest

from braid.api.mesh.v1.endpoint_pb2 import ClusterAddress
from braid.client.consuming.fetch_loop import FetchLoop
from braid.client.delivery.cursor import Cursor
from braid.client.delivery.lease_work import LeaseWork
from braid.client.delivery.memory_bound import MemoryBound
from braid.client.delivery.ready_queue import ReadyQueue
from braid.client.records.delivery import OwnedLease
from braid.client.telemetry.zone_bytes import Tally
from braid.kafka.memory import MemoryKafka
from braid.kafka.memory.fetcher import MemoryFetcher
from braid.kernel.ids import LeaseId
from braid.kernel.limits.client import FETCH_ASSIGNED_ANEW
from braid.kernel.ports import (
    Isolation,
    TopicPartition,
)
from braid.kernel.progress.tracker import Progress
from tests.support.assignments import watch_assignments
from tests.support.virtual_time import run_virtual, running_loop, virtual_host
from tests.unit.client.delivery.test_cursor import Letters

MANY: Final = 5 * FETCH_ASSIGNED_ANEW
TOPIC: Final = "logs"


class Gate:
    """A gate that may be shut."""

    stopped = False


class Bench:
    """A fetch loop over a twin, and the positions of each assignment of its fetcher."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.assigned: list[Mapping[TopicPartition, int]] = []
        self.memory = MemoryBound(1 << 20, {})
        self.host = virtual_host(running_loop(), seed=1)
        kafka = MemoryKafka(self.host.clock, latency=lambda: 0.001)
        kafka.add_cluster("east").create_topic(TOPIC, MANY, 1, {})
        self.fetcher = kafka.cluster("east:9092", "").fetcher(
            max_partition_bytes=10_000, isolation=Isolation.READ_COMMITTED, client_rack=""
        )
        self.gate = Gate()
        self.loop = FetchLoop(self.host, self.fetcher, self.memory, lambda lease: None, self.gate, (), Tally())
        watch_assignments(monkeypatch, lambda positions: self.assigned.append(dict(positions)))

    def cursor(self, number: int, at: int = 0) -> Cursor:
        """The head of a lease that was just restored at an offset."""
        lease = OwnedLease(LeaseId.parse(f"logs/live/1/{number}"), 7, ClusterAddress(name="east"), place(number))
        memory = self.memory.lane("live")
        work = LeaseWork(lease, group="g", ready=ReadyQueue({}), settling=Letters(), memory=memory, may_start=None)
        work.begin(Progress(at), bytes(16))
        return work.head


def place(number: int) -> TopicPartition:
    """A partition of the topic."""
    return TopicPartition(TOPIC, number)


def test_hundreds_of_leases_are_assigned_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        bench = Bench(monkeypatch)
        for number in range(MANY):
            bench.loop.add(bench.cursor(number))
            await bench.host.clock.sleep(0)
        assert len(bench.assigned) <= FETCH_ASSIGNED_ANEW + 2, "the first ones come at once"
        await bench.host.clock.sleep(0.1)
        assert bench.assigned[-1].keys() == {place(number) for number in range(MANY)}, "and all the others soon"

    run_virtual(scene())


def test_a_lease_that_is_back_begins_where_it_was_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        bench = Bench(monkeypatch)
        cursors = [bench.cursor(number, at=5) for number in range(MANY)]
        for cursor in cursors:
            bench.loop.add(cursor)
        await bench.host.clock.sleep(0.1)
        bench.loop.remove(cursors[0])
        bench.loop.remove(cursors[1])
        bench.loop.add(bench.cursor(1, at=9))
        await bench.host.clock.sleep(0.1)
        *_, without, last = [each.get(place(1)) for each in bench.assigned]
        assert (without, last) == (None, 9), "a fetcher keeps the position of what stays assigned"
        assert place(0) not in bench.assigned[-1]

    run_virtual(scene())


def test_a_lane_without_room_is_paused_before_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        bench = Bench(monkeypatch)
        paused = set[TopicPartition]()

        def noted(fetcher: MemoryFetcher, partitions: Sequence[TopicPartition]) -> None:
            paused.update(each for each in partitions if each in bench.assigned[-1])

        monkeypatch.setattr(MemoryFetcher, "pause", noted)
        for number in range(MANY):
            bench.loop.add(bench.cursor(number))
        bench.gate.stopped = True
        bench.loop.review()
        await bench.host.clock.sleep(0.1)
        assert paused == {place(number) for number in range(MANY)}

    run_virtual(scene())
