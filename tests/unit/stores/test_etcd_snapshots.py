"""Saving a snapshot deletes the events that it replaces."""

import pytest

from braid.kernel.ports import Snapshot
from braid.stores.etcd import snapshots
from braid.stores.etcd_wire import etcd_pb2 as wire
from braid.stores.etcd_wire import stored_pb2 as stored


@pytest.mark.parametrize(
    ("first", "count", "kept_from"),
    [
        pytest.param(5, 6, 11, id="the batch ends with the snapshot"),
        pytest.param(5, 7, 5, id="the batch goes beyond it"),
        pytest.param(10, 1, 11, id="a batch of one"),
    ],
)
def test_the_batch_that_straddles_a_snapshot_is_kept(first: int, count: int, kept_from: int) -> None:
    batch = stored.StoredBatch(first=first, events=[b"e"] * count)
    last_begun = wire.KeyValue(value=batch.SerializeToString())
    assert snapshots.keep_from(Snapshot(10, b""), last_begun) == kept_from


def test_without_older_batches_all_after_the_snapshot_is_kept() -> None:
    assert snapshots.keep_from(Snapshot(10, b""), None) == 11
