"""The transaction of an append, and what becomes of one that was not answered."""

import pytest

from braid.kernel.errors import BraidError, Conflict, CorruptHistory, Fenced, OutcomeUnknown
from braid.kernel.ports import Appended, Fence, HistoryId
from braid.stores.etcd import appending, keys
from braid.stores.etcd.appending import Attempt, Head
from braid.stores.etcd.requests import Answer
from braid.stores.etcd_wire import etcd_pb2 as wire
from braid.stores.etcd_wire import stored_pb2 as stored

LOGS = HistoryId("registry", "stream", "logs")
FENCE = Fence("registry", 5)
ATTEMPT = Attempt(LOGS, [b"four", b"five"], Head(3, 70), FENCE, "mine")
OURS = wire.KeyValue(create_revision=5)
THEIRS = wire.KeyValue(create_revision=90)
UNMOVED = wire.KeyValue(value=stored.StoredHead(sequence=3).SerializeToString(), mod_revision=70)
MOVED = wire.KeyValue(value=stored.StoredHead(sequence=4).SerializeToString(), mod_revision=88)


def _batch(append_id: str) -> wire.KeyValue:
    batch = stored.StoredBatch(append_id=append_id, first=4, events=[b"four", b"five"])
    return wire.KeyValue(value=batch.SerializeToString(), mod_revision=88)


def _manifest(sequence: int) -> wire.KeyValue:
    return wire.KeyValue(value=stored.StoredManifest(sequence=sequence).SerializeToString())


def _read(*kvs: wire.KeyValue | None) -> Answer:
    return Answer(True, 100, [(kv,) if kv else () for kv in kvs])


def test_an_append_compares_head_and_leader_and_writes_one_batch() -> None:
    request = appending.transaction(ATTEMPT)
    head, leader = request.compare
    assert (head.key, head.target, head.mod_revision) == (keys.head(LOGS), wire.Compare.MOD, 70)
    assert (leader.key, leader.target, leader.create_revision) == (keys.leader("registry"), wire.Compare.CREATE, 5)
    head_put, batch_put = (operation.request_put for operation in request.success)
    assert head_put.key == keys.head(LOGS)
    assert stored.StoredHead.FromString(head_put.value).sequence == 5
    assert batch_put.key == keys.batch(LOGS, 4)
    batch = stored.StoredBatch.FromString(batch_put.value)
    assert (batch.append_id, batch.first, list(batch.events)) == ("mine", 4, [b"four", b"five"])
    assert [operation.WhichOneof("request") for operation in request.failure] == ["request_range"] * 2


def test_the_first_append_wants_the_head_to_be_absent() -> None:
    request = appending.transaction(ATTEMPT._replace(head=Head(0, 0)))
    assert request.compare[0].WhichOneof("target_union") == "mod_revision"
    assert (request.compare[0].mod_revision, request.success[1].request_put.key) == (0, keys.batch(LOGS, 1))


def test_an_answered_append_landed_at_its_revision() -> None:
    assert appending.conclude(ATTEMPT, Answer(True, 88, [(), ()])) == Appended(5, 88)


@pytest.mark.parametrize(
    ("head", "leader", "error"),
    [
        (MOVED, OURS, Conflict),
        (UNMOVED, THEIRS, Fenced),
        (UNMOVED, None, Fenced),
        (MOVED, THEIRS, Fenced),
    ],
)
def test_a_refused_append_says_why(head: wire.KeyValue, leader: wire.KeyValue | None, error: type[BraidError]) -> None:
    with pytest.raises(error):
        appending.conclude(ATTEMPT, _read(head, leader)._replace(succeeded=False))


def test_a_batch_with_our_append_id_is_ours() -> None:
    assert appending.judge(ATTEMPT, _read(_batch("mine"), MOVED, THEIRS, None)) == Appended(5, 88)


@pytest.mark.parametrize(
    ("batch", "head", "leader", "manifest", "error"),
    [
        pytest.param(_batch("other"), MOVED, OURS, None, Conflict, id="another append took the place"),
        pytest.param(None, UNMOVED, THEIRS, None, Fenced, id="leadership is over: it can land no more"),
        pytest.param(None, UNMOVED, OURS, None, OutcomeUnknown, id="it may land still"),
        pytest.param(None, UNMOVED, OURS, _manifest(3), OutcomeUnknown, id="an older snapshot hides nothing"),
        pytest.param(None, MOVED, OURS, None, Conflict, id="the head moved past without it"),
        pytest.param(None, MOVED, OURS, _manifest(4), OutcomeUnknown, id="it may have landed and been folded"),
        pytest.param(None, MOVED, THEIRS, _manifest(9), OutcomeUnknown, id="folded under another leader"),
        pytest.param(None, None, OURS, None, Conflict, id="the store is another one"),
    ],
)
def test_without_our_batch_only_what_is_final_is_said(
    batch: wire.KeyValue | None,
    head: wire.KeyValue | None,
    leader: wire.KeyValue | None,
    manifest: wire.KeyValue | None,
    error: type[BraidError],
) -> None:
    with pytest.raises(error):
        appending.judge(ATTEMPT, _read(batch, head, leader, manifest))


def test_reading_back_asks_in_the_order_it_is_judged() -> None:
    asked = [request.key for request in appending.read_back(ATTEMPT)]
    assert asked == [keys.batch(LOGS, 4), keys.head(LOGS), keys.leader("registry"), keys.manifest(LOGS)]


def test_a_fence_of_revision_zero_is_no_fence() -> None:
    with pytest.raises(Fenced):
        appending.check_taken(Fence("registry", 0))


def test_a_head_that_does_not_decode_is_corrupt() -> None:
    with pytest.raises(CorruptHistory):
        appending.read_head(wire.KeyValue(value=b"\xff", mod_revision=3))
