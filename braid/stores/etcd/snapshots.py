"""Saves snapshots: chunks first, each in a fenced transaction, then the manifest that makes them count.

The manifest's transaction also forgets the batches the snapshot folds and the chunks of every other upload, so whatever
an interrupted save left behind goes with the next one.
"""

from braid.kernel.errors import Invalid
from braid.kernel.limits.store import ETCD_CHUNK_BYTES
from braid.kernel.ports import Fence, HistoryId, Snapshot
from braid.stores.etcd import keys, requests
from braid.stores.etcd.appending import check_fence, read_head
from braid.stores.etcd.client import EtcdClient
from braid.stores.etcd.reading import decode, describe_snapshot, split
from braid.stores.etcd.requests import Answer
from braid.stores.etcd_wire import etcd_pb2 as wire
from braid.stores.etcd_wire import stored_pb2 as stored


async def save(client: EtcdClient, history: HistoryId, snapshot: Snapshot, fence: Fence, unique: str) -> None:
    """Keeps a snapshot unless a newer one is kept already, or another one is saved at the same moment.

    Raises:
        Fenced: the fence's leadership is over.
        Invalid: the history has no such event.
        OutcomeUnknown: a transaction was not answered; the history is whole either way.
    """
    found = await client.read(*_before(history, snapshot, fence))
    check_fence(fence, found.one(0))
    _check_sequence(history, snapshot, found)
    manifest = found.one(2)
    if manifest and decode(stored.StoredManifest, manifest.value).sequence >= snapshot.sequence:
        return
    upload = keys.upload_name(snapshot.sequence, unique)
    chunks = split(snapshot.data, ETCD_CHUNK_BYTES)
    for index, chunk in enumerate(chunks):
        await _fenced(client, fence, [requests.put(keys.chunk(history, upload, index), chunk)])
    described = describe_snapshot(snapshot, upload, len(chunks))
    unchanged = requests.modified_at(keys.manifest(history), manifest.mod_revision if manifest else 0)
    await _fenced(client, fence, _manifest_operations(history, described, keep_from(snapshot, found.one(3))), unchanged)


def keep_from(snapshot: Snapshot, last_begun: wire.KeyValue | None) -> int:
    """The first sequence of the first batch to keep: the last batch begun within the snapshot may go beyond it."""
    if last_begun is None:
        return snapshot.sequence + 1
    batch = decode(stored.StoredBatch, last_begun.value)
    straddles = batch.first + len(batch.events) - 1 > snapshot.sequence
    return batch.first if straddles else snapshot.sequence + 1


def _before(history: HistoryId, snapshot: Snapshot, fence: Fence) -> list[wire.RangeRequest]:
    return [
        requests.get(keys.leader(fence.service)),
        requests.get(keys.head(history)),
        requests.get(keys.manifest(history)),
        requests.last_of(keys.batches(history, below=snapshot.sequence + 1)),
    ]


def _check_sequence(history: HistoryId, snapshot: Snapshot, found: Answer) -> None:
    if not 0 < snapshot.sequence <= read_head(found.one(1)).sequence:
        raise Invalid(f"history {history} has no event {snapshot.sequence}", field="snapshot.sequence")


def _manifest_operations(history: HistoryId, manifest: stored.StoredManifest, kept_from: int) -> list[wire.RequestOp]:
    before, after = keys.chunks_of_others(history, manifest.upload)
    return [
        requests.put(keys.manifest(history), manifest.SerializeToString()),
        requests.delete_all(keys.batches(history, below=kept_from)),
        requests.delete_all(before),
        requests.delete_all(after),
    ]


async def _fenced(
    client: EtcdClient, fence: Fence, operations: list[wire.RequestOp], *conditions: wire.Compare
) -> None:
    leader = keys.leader(fence.service)
    answer = await client.transact(
        wire.TxnRequest(
            compare=[requests.created_at(leader, fence.revision), *conditions],
            success=operations,
            failure=[requests.reading(requests.get(leader))],
        )
    )
    if not answer.succeeded:
        check_fence(fence, answer.one(0))
