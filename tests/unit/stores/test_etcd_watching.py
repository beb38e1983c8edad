"""The cursor of a watch: what a response delivers, and where a new connection resumes."""

import pytest

from braid.kernel.errors import Compacted, StoreUnavailable
from braid.kernel.ports import EventBatch, HistoryId
from braid.stores.etcd import keys, watching
from braid.stores.etcd.watching import Cursor
from braid.stores.etcd_wire import etcd_pb2 as wire
from braid.stores.etcd_wire import stored_pb2 as stored

LOGS = HistoryId("registry", "stream", "logs")
HISTORIES, INCARNATION, EVERY = 1, 2, -1


def _put(first: int, revision: int, *events: bytes) -> wire.Event:
    value = stored.StoredBatch(first=first, events=events or (b"e",)).SerializeToString()
    return wire.Event(kv=wire.KeyValue(key=keys.batch(LOGS, first), value=value, mod_revision=revision))


def _head(revision: int) -> wire.Event:
    return wire.Event(kv=wire.KeyValue(key=keys.head(LOGS), mod_revision=revision))


def _response(
    *events: wire.Event, revision: int = 0, watch_id: int = HISTORIES, created: bool = False, fragment: bool = False
) -> wire.WatchResponse:
    return wire.WatchResponse(
        header=wire.Header(revision=revision), watch_id=watch_id, created=created, fragment=fragment, events=events
    )


def _start(cursor: Cursor) -> int:
    return cursor.resume()[0].create_request.start_revision


def test_one_revision_gives_one_batch_with_all_its_events() -> None:
    cursor = Cursor("registry", 10)
    batches = cursor.accept(_response(_head(11), _put(4, 11, b"a", b"b"), revision=11))
    assert batches == [EventBatch(LOGS, 4, (b"a", b"b"), 11)]
    assert (cursor.revision, _start(cursor)) == (11, 12)


def test_a_watch_resumes_after_its_deliveries_not_after_a_header() -> None:
    cursor = Cursor("registry", 10)
    cursor.accept(_response(_put(1, 11), _put(2, 12), revision=99))
    assert _start(cursor) == 13


def test_the_creation_of_a_watch_advances_nothing() -> None:
    cursor = Cursor("registry", 10)
    assert cursor.accept(_response(revision=99, created=True)) == ()
    assert _start(cursor) == 11


@pytest.mark.parametrize("watch_id", [HISTORIES, EVERY])
def test_progress_advances_over_revisions_of_others(watch_id: int) -> None:
    cursor = Cursor("registry", 10)
    assert list(cursor.accept(_response(revision=50, watch_id=watch_id))) == []
    assert _start(cursor) == 51
    cursor.accept(_response(revision=40, watch_id=watch_id))
    assert _start(cursor) == 51


def test_progress_of_the_incarnation_says_nothing_of_histories() -> None:
    cursor = Cursor("registry", 10)
    cursor.accept(_response(revision=50, watch_id=INCARNATION))
    assert _start(cursor) == 11


def test_fragments_are_held_until_whole() -> None:
    cursor = Cursor("registry", 10)
    assert list(cursor.accept(_response(_put(1, 11), _put(2, 12), fragment=True))) == []
    assert cursor.revision == 10
    assert [batch.revision for batch in cursor.accept(_response(_put(3, 13)))] == [11, 12, 13]


def test_fragments_of_a_broken_connection_are_forgotten() -> None:
    cursor = Cursor("registry", 10)
    cursor.accept(_response(_put(1, 11), fragment=True))
    assert _start(cursor) == 11
    assert [batch.revision for batch in cursor.accept(_response(_put(1, 11)))] == [11]


def test_what_was_delivered_is_not_delivered_again() -> None:
    cursor = Cursor("registry", 10)
    cursor.accept(_response(_put(1, 11)))
    assert [batch.revision for batch in cursor.accept(_response(_put(1, 11), _put(2, 12)))] == [12]


def test_deletions_and_unknown_keys_are_passed_and_not_delivered() -> None:
    cursor = Cursor("registry", 10)
    deleted = wire.Event(type=wire.Event.DELETE, kv=wire.KeyValue(key=keys.batch(LOGS, 1), mod_revision=11))
    unknown = wire.Event(kv=wire.KeyValue(key=keys.head(LOGS) + b"er", mod_revision=12))
    assert list(cursor.accept(_response(deleted, unknown))) == []
    assert _start(cursor) == 13


def test_compaction_means_load_again() -> None:
    response = wire.WatchResponse(watch_id=HISTORIES, canceled=True, compact_revision=40)
    with pytest.raises(Compacted):
        Cursor("registry", 10).accept(response)


def test_a_cancelled_watch_is_resumed() -> None:
    response = wire.WatchResponse(watch_id=HISTORIES, canceled=True, cancel_reason="no leader")
    with pytest.raises(StoreUnavailable, match="no leader"):
        Cursor("registry", 10).accept(response)


def test_a_raised_incarnation_ends_a_watch_its_creation_does_not() -> None:
    def written(version: int) -> wire.WatchResponse:
        kv = wire.KeyValue(key=keys.INCARNATION, version=version, mod_revision=12)
        return _response(wire.Event(kv=kv), watch_id=INCARNATION)

    cursor = Cursor("registry", 10)
    assert cursor.accept(written(1)) == ()
    with pytest.raises(Compacted):
        cursor.accept(written(2))


@pytest.mark.parametrize(("revision", "incarnation"), [(9, 1), (50, 2)])
def test_a_restored_store_is_recognised_on_reconnecting(revision: int, incarnation: int) -> None:
    cursor = Cursor("registry", 10)
    cursor.check_store(10, 1, 1)
    with pytest.raises(Compacted):
        cursor.check_store(revision, incarnation, 1)


def test_opening_asks_for_fragments_and_progress_not_deletions() -> None:
    histories, incarnation = (request.create_request for request in Cursor("registry", 10).resume())
    assert histories.fragment and histories.progress_notify
    assert list(histories.filters) == [wire.WatchCreateRequest.NODELETE]
    assert (histories.key, histories.range_end) == keys.histories("registry")
    assert (incarnation.key, incarnation.start_revision) == (keys.INCARNATION, 11)


def test_an_absent_incarnation_is_none_yet() -> None:
    assert watching.read_incarnation(None) == 0
    assert watching.read_incarnation(wire.KeyValue(value=b"7")) == 7
