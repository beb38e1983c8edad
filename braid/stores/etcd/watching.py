"""Watches: a cursor that decides what a response means (pure), and the loop that keeps a watch going over connections.

                ┌── events ≤ revision: seen before, dropped
resume ─► open ─┼── fragment: held until the last piece of its revision
  ▲             ├── events: batches, revision = the last one's
  │             ├── progress: revision = the header's; `created` says nothing about what was delivered
  │             └── compacted, or a raised incarnation ─► Compacted (load again)
  ├─ broken, cancelled, silent: the next endpoint, from revision + 1, if the store is still the same one
  └─ certificates changed: another connection, likewise
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Final

from braid.kernel.errors import Compacted, StoreAccessDenied, StoreUnavailable
from braid.kernel.limits.store import ETCD_RECONNECT_MS_MIN, ETCD_WATCH_PROGRESS_SECONDS, ETCD_WATCH_SILENCE_SECONDS
from braid.kernel.ports import Clock, EventBatch
from braid.stores.etcd import keys, requests
from braid.stores.etcd.client import WATCH, EtcdClient
from braid.stores.etcd.denials import denial
from braid.stores.etcd.reading import decode
from braid.stores.etcd_wire import etcd_pb2 as wire
from braid.stores.etcd_wire import stored_pb2 as stored

_HISTORIES_WATCH: Final = 1
_INCARNATION_WATCH: Final = 2
_KEY_WATCH: Final = 3
_PAUSE_SECONDS: Final = ETCD_RECONNECT_MS_MIN / 1000
_ASK_PROGRESS: Final = wire.WatchRequest(progress_request=wire.WatchProgressRequest())


class Cursor:
    """The position of one watcher in a service's histories.

    Attributes:
        revision: Everything up to here was delivered.
    """

    def __init__(self, service: str, after_revision: int) -> None:
        self.revision = after_revision
        self._keys = keys.histories(service)
        self._held: list[wire.Event] = []

    def resume(self) -> Sequence[wire.WatchRequest]:
        """Returns the request for a new connection: everything after the last whole revision delivered."""
        self._held = []
        histories = wire.WatchCreateRequest(
            key=self._keys.start,
            range_end=self._keys.end,
            start_revision=self.revision + 1,
            progress_notify=True,
            filters=[wire.WatchCreateRequest.NODELETE],
            watch_id=_HISTORIES_WATCH,
            fragment=True,
        )
        incarnation = wire.WatchCreateRequest(
            key=keys.INCARNATION, start_revision=self.revision + 1, watch_id=_INCARNATION_WATCH
        )
        return [wire.WatchRequest(create_request=request) for request in (histories, incarnation)]

    def accept(self, response: wire.WatchResponse) -> Sequence[EventBatch]:
        """Takes a response and returns what it completes, in order.

        Raises:
            Compacted: what was asked for is gone, or the store's incarnation was raised.
            StoreAccessDenied: etcd does not allow the watch.
            StoreUnavailable: etcd cancelled the watch; resume on another connection.
        """
        if response.compact_revision:
            raise Compacted(f"etcd keeps nothing before revision {response.compact_revision}", remedy="load again")
        if response.canceled:
            reason = response.cancel_reason
            raise denial(reason) or StoreUnavailable(f"etcd cancelled a watch: {reason}")
        if response.watch_id == _INCARNATION_WATCH:
            check_incarnation_events(response)
            return ()
        self._held.extend(response.events)
        if response.created or response.fragment:
            return ()
        events, self._held = self._held, []
        batches = read_batches(event for event in events if event.kv.mod_revision > self.revision)
        delivered = max((event.kv.mod_revision for event in events), default=response.header.revision)
        self.revision = max(self.revision, delivered)
        return batches

    def check_store(self, revision: int, incarnation: int, known_incarnation: int) -> None:
        """Checks that a connection leads to the store this watch began on.

        Raises:
            Compacted: it was restored: its revision is behind what was delivered, or its incarnation another.
        """
        if revision < self.revision or incarnation != known_incarnation:
            raise Compacted(
                f"the store was restored: it is at revision {revision} of incarnation {incarnation}, the watch at"
                f" {self.revision} of {known_incarnation}",
                remedy="load again",
            )


def check_incarnation_events(response: wire.WatchResponse) -> None:
    """Raises `Compacted` when the incarnation key was written again; its creation is nothing new."""
    if any(event.kv.version > 1 for event in response.events):
        raise Compacted("the store's incarnation was raised", remedy="load again")


def read_batches(events: Iterable[wire.Event]) -> Sequence[EventBatch]:
    """Returns the batches among a watch's events; ignores heads, deletions of folded prefixes and unknown keys.

    Raises:
        CorruptHistory: a batch does not decode.
    """
    return [batch for event in events if event.type == wire.Event.PUT for batch in _read_batch(event.kv)]


async def watch_batches(
    client: EtcdClient, clock: Clock, cursor: Cursor, known_incarnation: int
) -> AsyncIterator[EventBatch]:
    """Yields batches from the cursor on, forever, over as many connections as it takes.

    Raises:
        Compacted: load again; see `Cursor`.
        StoreAccessDenied: etcd does not let this process in, or does not allow the watch.
        StoreUnavailable: the client was closed.
    """
    while True:
        try:
            answer = await client.read(requests.get(keys.INCARNATION))
            cursor.check_store(answer.revision, read_incarnation(answer.one(0)), known_incarnation)
            async with aclosing(converse(client, cursor.resume())) as responses:
                async for response in responses:
                    for batch in cursor.accept(response):
                        yield batch
        except StoreAccessDenied:
            raise
        except StoreUnavailable:
            if client.closed:
                raise
        await clock.sleep(_PAUSE_SECONDS)


async def until_deleted(client: EtcdClient, key: bytes, revision: int) -> None:
    """Waits until a key, seen at a revision, is deleted, or the watch for it cannot go on: look again then.

    Raises:
        StoreAccessDenied: etcd does not let this process in, or does not allow the watch.
        StoreUnavailable: the watch broke.
    """
    create = wire.WatchCreateRequest(
        key=key, start_revision=revision + 1, filters=[wire.WatchCreateRequest.NOPUT], watch_id=_KEY_WATCH
    )
    async with aclosing(converse(client, [wire.WatchRequest(create_request=create)])) as responses:
        async for response in responses:
            if response.canceled:
                denied = denial(response.cancel_reason)
                if denied is not None:
                    raise denied
            if response.events or response.canceled:
                return


async def converse(
    client: EtcdClient, opening: Sequence[wire.WatchRequest]
) -> AsyncGenerator[wire.WatchResponse, None]:
    """Opens one watch stream and yields its responses. When it is quiet it asks for progress, which also tests it.

    It ends when certificates change, so that the next one is on a connection that shows the newest.

    Raises:
        StoreUnavailable: it broke, or answers nothing any more.
    """
    async with client.stream(WATCH) as stream:
        for request in opening:
            await stream.send(request)
        silent_seconds = 0.0
        while not stream.outdated():
            response = await stream.receive(ETCD_WATCH_PROGRESS_SECONDS)
            if response is not None:
                silent_seconds = 0.0
                if response.canceled and await client.heard(response.cancel_reason):
                    return
                yield response
                continue
            silent_seconds += ETCD_WATCH_PROGRESS_SECONDS
            if silent_seconds >= ETCD_WATCH_SILENCE_SECONDS:
                raise StoreUnavailable(f"a watch had no answer for {silent_seconds:.0f} s")
            await stream.send(_ASK_PROGRESS)


def read_incarnation(kv: wire.KeyValue | None) -> int:
    """The incarnation as its key says; 0 before the store was first used."""
    return int(kv.value) if kv else 0


def _read_batch(kv: wire.KeyValue) -> Iterator[EventBatch]:
    parsed = keys.parse_history(kv.key)
    if parsed is None or parsed[1] is None:
        return
    batch = decode(stored.StoredBatch, kv.value)
    yield EventBatch(parsed[0], batch.first, tuple(batch.events), kv.mod_revision)
