"""Copies are placed in many racks, evenly, and where they are already."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from services.registry.policy.copy_placement import Brokers, counted, place

RACKS = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}


def test_new_copies_go_to_unused_racks_then_low_count_brokers() -> None:
    brokers = Brokers(RACKS, RACKS, Counter({3: 5, 4: 1, 5: 2, 6: 7}))
    assert place((1,), 1, 3, brokers) == (1, 4, 5)
    assert place((1,), 1, 4, Brokers(RACKS, RACKS, Counter({2: 9}))) == (1, 3, 5, 4)


def test_copies_leave_absent_brokers_full_racks_and_full_brokers() -> None:
    serving = [1, 2, 3, 4, 6]
    brokers = Brokers(serving, RACKS, Counter({1: 3, 2: 1, 3: 2}))
    assert place((1, 2, 3, 5), 2, 3, brokers) == (1, 2, 3)
    assert place((1, 2, 3), 2, 2, brokers) == (2, 3)
    assert place((2, 3), 2, 1, brokers) == (2,)


def test_the_leader_stays_wherever_it_stands() -> None:
    assert place((1, 3, 5), 5, 1, Brokers(RACKS, RACKS)) == (5,)
    assert place((1, 3), -1, 1, Brokers([1], RACKS)) == (1,)


def test_brokers_that_are_missing_are_made_do_without() -> None:
    assert place((1,), 1, 3, Brokers([1, 2])) == (1, 2)
    assert place((1,), 1, 3, Brokers([])) == (1,)


@given(
    brokers=st.integers(1, 7),
    racks=st.integers(1, 4),
    partitions=st.integers(1, 40),
    before=st.integers(1, 7),
    after=st.integers(1, 7),
    data=st.data(),
)
def test_any_change_is_exact_even_and_moves_only_what_it_must(
    brokers: int, racks: int, partitions: int, before: int, after: int, data: st.DataObject
) -> None:
    before, after = min(before, brokers), min(after, brokers)
    numbers = range(1, brokers + 1)
    names = {broker: f"rack {broker % racks}" for broker in numbers}
    present = [[numbers[(at + each) % brokers] for each in range(before)] for at in range(partitions)]
    leaders = [data.draw(st.sampled_from(each)) for each in present]
    world = Brokers(numbers, names, counted(present))
    placed = [place(each, leader, after, world) for each, leader in zip(present, leaders, strict=True)]
    for replicas, leader, new in zip(present, leaders, placed, strict=True):
        assert len(set(new)) == len(new) == after
        assert leader in new
        assert set(new) <= set(replicas) or set(replicas) <= set(new)
        kept = [broker for broker in replicas if broker in new]
        assert list(new[: len(kept)]) == kept
        for at in range(len(replicas), after):
            racks_of = Counter(names[each] for each in new[:at])
            free = set(numbers) - set(new[:at])
            assert racks_of[names[new[at]]] == min(racks_of[names[each]] for each in free)
    assert counted(placed) == +world.copies
    if racks == 1 and after > before:
        counts = [world.copies[each] for each in numbers]
        assert max(counts) - min(counts) <= 2
