"""A cluster's measured load: the fullest disk, and bytes taken whatever retention takes away meanwhile."""

import tracemalloc

import pytest

from braid.kernel.limits.registry.traffic import LOAD_LOOKS, LOAD_PARTITIONS_MAX
from braid.kernel.ports import LogDir, TopicPartition
from services.registry.model.clusters.loads import MeasuredLoad, Meter

KIB = 1_024
ONE, TWO = TopicPartition("logs", 0), TopicPartition("logs", 1)


def disk(sizes: dict[TopicPartition, int], *, usable: int = 60, total: int = 100) -> LogDir:
    """A disk with such copies."""
    return LogDir(total, usable, sizes)


class Looks:
    """Looks at one cluster, ten seconds apart."""

    def __init__(self) -> None:
        self.meter = Meter()
        self.now = 100.0

    def look(self, *brokers: dict[TopicPartition, int] | None) -> float:
        """One look, at what each broker has; None is silent. Returns bytes taken a second."""
        for number, sizes in enumerate(brokers, 1):
            if sizes is None:
                self.meter.miss(number)
            else:
                self.meter.see(number, [disk(sizes)])
        load = self.meter.end(self.now, int(self.now * 1_000))
        self.now += 10.0
        assert load is not None
        return load.bytes_per_s


def test_growth_is_counted_once_however_many_copies_there_are() -> None:
    looks = Looks()
    assert looks.look({ONE: 500, TWO: 0}, {ONE: 500}, {ONE: 490, TWO: 0}) == 0.0
    assert looks.look({ONE: 1_500, TWO: 0}, {ONE: 1_500}, {ONE: 1_480, TWO: 0}) == 100.0


def test_what_retention_takes_away_is_no_sign_that_nothing_came() -> None:
    looks = Looks()
    looks.look({ONE: 0, TWO: 0})
    assert looks.look({ONE: 1_000, TWO: 1_000}) == 200.0
    assert looks.look({ONE: 100, TWO: 2_000}) == 200.0  # a segment of the first was deleted
    assert looks.look({ONE: 1_100, TWO: 3_000}) == 200.0
    looks.look({ONE: 1_100, TWO: 3_000})
    assert looks.look({ONE: 0, TWO: 0}) == pytest.approx(3 * 200 / 5)  # old records go, and nothing had come any more


def test_a_copy_that_is_made_anew_brings_nothing() -> None:
    looks = Looks()
    looks.look({ONE: 10_000}, {})
    assert looks.look({ONE: 10_000}, {ONE: 6_000}) == 0.0
    assert looks.look({ONE: 10_000}, {ONE: 10_000}) == 0.0
    assert looks.look({}, {ONE: 10_000}) == 0.0  # it has moved there


def test_a_broker_silent_for_a_while_neither_hides_nor_adds_load() -> None:
    looks = Looks()
    looks.look({ONE: 0}, {ONE: 0})
    assert looks.look({ONE: 1_000}, {ONE: 1_000}) == 100.0
    assert looks.look(None, {ONE: 2_000}) == 100.0
    assert looks.look(None, {ONE: 3_000}) == 100.0
    assert looks.look({ONE: 4_000}, {ONE: 4_000}) == 100.0


def test_an_unanswered_look_spreads_the_records_over_its_time() -> None:
    looks = Looks()
    looks.look({ONE: 0})
    looks.meter.miss(1)
    assert looks.meter.end(looks.now, 0) is None
    looks.now += 10.0
    assert looks.look({ONE: 2_000}) == 100.0


def test_a_cluster_without_logs_takes_nothing() -> None:
    looks = Looks()
    looks.look({ONE: 0})
    assert looks.look({ONE: 2_000}) == 200.0
    assert looks.look({}) == 100.0


def test_the_rate_is_that_of_the_last_minute() -> None:
    looks = Looks()
    looks.look({ONE: 0})
    assert looks.look({ONE: 6_000}) == 600.0
    rates = [looks.look({ONE: 6_000}) for _ in range(LOAD_LOOKS)]
    assert rates[0] == 300.0 and rates[-2:] == [100.0, 0.0]


def test_the_fullest_disk_is_the_one_with_the_least_share_free() -> None:
    meter = Meter()
    meter.see(1, [disk({}, usable=50, total=100), disk({}, usable=400, total=1_000)])
    meter.see(2, [disk({}, usable=45, total=100), disk({}, usable=-1, total=-1)])
    meter.miss(4)
    meter.miss(3)
    load = meter.end(1.0, 1_000)
    assert load == MeasuredLoad(1_000, 1, 400, 1_000, 0.0, (3, 4), brokers=2)
    assert load.free_share == 0.4


def test_brokers_that_do_not_report_room_leave_it_unmeasured() -> None:
    meter = Meter()
    meter.see(1, [disk({ONE: 5}, usable=-1, total=-1)])
    assert meter.end(1.0, 1_000) is None


def test_ten_thousand_triple_partitions_take_little_memory() -> None:
    def told(size: int) -> dict[TopicPartition, int]:
        return {TopicPartition(f"topic-{topic}", at): size for topic in range(1_000) for at in range(10)}

    meter = Meter()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for look in range(3):
            for broker in range(3):
                meter.see(broker, [disk(told(1_000 * look + KIB))])
            load = meter.end(10.0 * look, 0)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert load is not None and load.bytes_per_s == 10_000 * 1_000 / 10
    assert meter.followed == 10_000 and after - before < 10 << 20


def test_beyond_so_many_partitions_growth_is_followed_no_more() -> None:
    meter = Meter()
    for look in range(2):
        sizes = {TopicPartition("logs", number): 100 * look for number in range(LOAD_PARTITIONS_MAX + 10)}
        meter.see(1, [disk(sizes)])
        load = meter.end(10.0 * look, 0)
    assert load is not None and meter.followed == LOAD_PARTITIONS_MAX
    assert load.bytes_per_s == LOAD_PARTITIONS_MAX * 10


def test_reports_that_cannot_be_are_left_out() -> None:
    meter = Meter()
    meter.see(1, [disk({ONE: 1 << 63}, usable=50, total=100), disk({}, usable=200, total=100)])
    meter.see(2, [disk({TWO: -1}, usable=1, total=1 << 63)])
    load = meter.end(1.0, 1_000)
    assert load is not None
    assert (load.broker, load.free_bytes, load.total_bytes) == (1, 50, 100)
    assert not load.topics


def test_a_log_that_grows_faster_than_any_keeps_its_rate() -> None:
    looks = Looks()
    looks.look({ONE: 0})
    looks.look({ONE: 1_000})
    assert looks.look({ONE: 1 << 59}) == 100.0
