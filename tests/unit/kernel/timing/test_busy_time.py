"""Busy time of a partition: the area under the number of handlers that run."""

from braid.kernel.timing.busy_time import BusyTime


def test_handlers_at_once_add_up() -> None:
    busy = BusyTime()
    busy.began(1.0)
    busy.began(2.0)
    busy.ended(4.0)
    busy.ended(5.0)
    assert busy.take_micros(9.0) == 6_000_000


def test_what_runs_for_long_counts_while_it_runs_and_only_once() -> None:
    busy = BusyTime()
    busy.began(0.0)
    assert busy.take_micros(10.0) == 10_000_000
    assert busy.take_micros(10.5) == 500_000
    busy.ended(11.0)
    assert busy.take_micros(20.0) == 500_000
    assert busy.take_micros(30.0) == 0


def test_parts_of_a_microsecond_are_kept() -> None:
    busy, now, taken = BusyTime(), 0.0, 0
    for _ in range(1_000):
        busy.began(now)
        now += 0.25e-6
        busy.ended(now)
        taken += busy.take_micros(now)
    assert 249 <= taken <= 250
