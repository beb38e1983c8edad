"""The table of etcd keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.errors import Invalid
from braid.kernel.ports import HistoryId
from braid.stores.etcd import keys

LOGS = HistoryId("registry", "stream", "logs")
NAMES = st.text(min_size=1, max_size=20)


def test_keys_are_as_documented() -> None:
    assert keys.INCARNATION == b"/braid/v1/incarnation"
    assert keys.leader("registry") == b"/braid/v1/registry/leader"
    assert keys.endpoint("registry", "registry-0") == b"/braid/v1/directory/registry/registry-0"
    assert keys.head(LOGS) == b"/braid/v1/registry/history/stream/logs/head"
    assert keys.batch(LOGS, 42) == b"/braid/v1/registry/history/stream/logs/00000000000000000042"
    assert keys.manifest(LOGS) == b"/braid/v1/registry/snapshot/stream/logs/manifest"
    upload = keys.upload_name(7, "01J")
    assert keys.chunk(LOGS, upload, 3) == (b"/braid/v1/registry/snapshot/stream/logs/00000000000000000007-01J/000003")


def test_leader_keys_are_known_whatever_leads() -> None:
    assert keys.is_leader(keys.leader("registry")) and keys.is_leader(keys.leader("audit.registry.registry-0"))
    for other in (keys.head(HistoryId("registry", "leader", "leader")), keys.endpoint("leader", "leader"), keys.MESH):
        assert not keys.is_leader(other)


@pytest.mark.parametrize("service", ["directory", "incarnation", ""])
def test_a_service_may_not_be_named_like_another_table_part(service: str) -> None:
    with pytest.raises(Invalid):
        keys.leader(service)


@given(NAMES, NAMES, st.integers(1, 10**18))
def test_any_name_comes_back_from_its_keys(kind: str, name: str, sequence: int) -> None:
    history = HistoryId("assigner", kind, name)
    assert keys.parse_history(keys.head(history)) == (history, None)
    assert keys.parse_history(keys.batch(history, sequence)) == (history, sequence)


@given(NAMES, NAMES, st.integers(1, 10**18), st.integers(1, 10**18))
def test_a_history_range_holds_only_its_own_batches_in_order(name: str, other: str, low: int, high: int) -> None:
    mine, theirs = HistoryId("registry", "stream", name), HistoryId("registry", "stream", other)
    every = keys.batches(mine)
    assert every.start <= keys.batch(mine, low) < every.end
    assert not every.start <= keys.head(mine) < every.end
    assert (keys.batch(mine, low) < keys.batch(mine, high)) == (low < high)
    if name != other:
        assert not every.start <= keys.batch(theirs, low) < every.end


def test_a_range_below_a_sequence_ends_before_it() -> None:
    below = keys.batches(LOGS, below=10)
    assert below.start <= keys.batch(LOGS, 9) < below.end
    assert not below.start <= keys.batch(LOGS, 10) < below.end


def test_the_histories_of_a_service_hold_no_other_service() -> None:
    every = keys.histories("registry")
    for key in (keys.head(LOGS), keys.batch(LOGS, 1)):
        assert every.start <= key < every.end
    for key in (keys.leader("registry"), keys.manifest(LOGS), keys.head(LOGS._replace(service="registry2"))):
        assert not every.start <= key < every.end


def test_chunks_of_others_are_all_but_ones_own_and_the_manifest() -> None:
    own, older, newer = (keys.upload_name(sequence, "x") for sequence in (5, 4, 6))
    twin = keys.upload_name(5, "y")
    ranges = keys.chunks_of_others(LOGS, own)

    def covered(key: bytes) -> bool:
        return any(each.start <= key < each.end for each in ranges)

    assert all(covered(keys.chunk(LOGS, upload, 999_999)) for upload in (older, newer, twin))
    assert not covered(keys.chunk(LOGS, own, 0)) and not covered(keys.chunk(LOGS, own, 999_999))
    assert not covered(keys.manifest(LOGS))


@pytest.mark.parametrize(
    "key", [b"/braid/v1/registry/history/stream/logs/index", b"/braid/v1/registry/leader", b"/other"]
)
def test_keys_of_no_known_form_are_left_alone(key: bytes) -> None:
    assert keys.parse_history(key) is None
