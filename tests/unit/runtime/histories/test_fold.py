"""Folding: snapshots at every prefix give the same state, damage is recognised, gaps are not folded over."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.kernel.decider import Context
from braid.kernel.errors import Compacted, CorruptHistory
from braid.kernel.ports import HistoryId, Loaded, Snapshot
from braid.runtime.histories.fold import Fold, state_hash
from tests.support.counters import COUNTERS, Added, Counter
from tests.support.examples import examples

HISTORY = HistoryId("registry", "counter", "total")
KIND = COUNTERS.erased()


def _events(amounts: list[int]) -> list[bytes]:
    return [
        COUNTERS.codec.encode(Added(amount), Context(number, "x", request_id=str(number)))
        for number, amount in enumerate(amounts, 1)
    ]


def _folded(events: list[bytes]) -> Fold:
    fold = Fold(HISTORY, KIND)
    fold.apply(1, events, 1)
    return fold


@given(st.lists(st.integers(0, 9), max_size=30))
@settings(max_examples=examples(30))
def test_a_fold_from_any_snapshot_equals_the_fold_of_all(amounts: list[int]) -> None:
    events = _events(amounts)
    whole = _folded(events)
    for cut in range(1, len(events) + 1):
        snapshot = Snapshot(cut, _folded(events[:cut]).encode())
        restored = Fold(HISTORY, KIND)
        restored.restore(Loaded(snapshot, cut + 1, events[cut:], len(events), 7))
        assert state_hash(KIND, restored.state) == state_hash(KIND, whole.state)
        assert restored.encode() == whole.encode()
        assert restored.sequence == whole.sequence
        assert all(restored.knows("default", str(number)) for number in range(1, len(events) + 1))


def test_the_hash_tells_states_apart() -> None:
    assert state_hash(KIND, Counter("a", 1, 1)) != state_hash(KIND, Counter("a", 1, 2))


def test_what_was_folded_before_is_passed_over() -> None:
    fold = _folded(_events([1, 2, 3]))
    assert fold.apply(2, _events([1, 2, 3, 4])[1:], 2)[0].sequence == 4
    assert fold.state == Counter("total", 10, 4)
    assert fold.apply(1, _events([1, 2, 3, 4]), 2) == []


def test_a_gap_is_not_folded_over() -> None:
    fold = _folded(_events([1]))
    with pytest.raises(Compacted):
        fold.apply(3, _events([1, 2, 3])[2:], 2)
    assert fold.sequence == 1


def test_a_batch_with_a_broken_event_changes_nothing() -> None:
    fold = _folded(_events([1]))
    with pytest.raises(CorruptHistory) as error:
        fold.apply(2, [_events([1, 2])[1], b"broken"], 2)
    assert error.value.metadata == {"history": "registry/counter/total", "sequence": "3"}
    assert fold.state == Counter("total", 1, 1)
    assert not fold.knows("default", "2")


def _damage(data: bytes) -> list[bytes]:
    flipped = [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(len(data))]
    return [b"", data[:5], data[:-1], *flipped]


def test_every_damaged_snapshot_is_refused() -> None:
    data = _folded(_events([1, 2])).encode()
    for damaged in _damage(data):
        with pytest.raises(CorruptHistory):
            Fold(HISTORY, KIND).restore(Loaded(Snapshot(2, damaged), 3, [], 2, 7))
