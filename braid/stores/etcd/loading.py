"""Reads whole histories and lists them, at one revision each."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from braid.kernel.errors import Compacted, StoreUnavailable
from braid.kernel.limits.store import (
    ETCD_LOAD_ATTEMPTS_MAX,
    ETCD_PAGE_BATCHES,
    ETCD_PAGE_KEYS,
    ETCD_TXN_BATCHES,
    ETCD_TXN_HEADS,
    ETCD_TXN_HISTORIES,
)
from braid.kernel.ports import HistoryId
from braid.stores.etcd import keys, requests
from braid.stores.etcd.appending import Head, read_head
from braid.stores.etcd.client import RANGE, EtcdClient
from braid.stores.etcd.keys import KeyRange
from braid.stores.etcd.reading import StoredHistory, decode
from braid.stores.etcd.watching import read_incarnation
from braid.stores.etcd_wire import etcd_pb2 as wire
from braid.stores.etcd_wire import stored_pb2 as stored


class HistoryRead(NamedTuple):
    """A history as read: what is kept of it, its head, and the incarnation it was read from."""

    pinned: StoredHistory
    head: Head
    incarnation: int


async def read_pinned(client: EtcdClient, history: HistoryId) -> HistoryRead:
    """Reads everything kept of a history. The first, linearizable read fixes the revision of all others.

    Raises:
        StoreUnavailable: no endpoint answers, or compaction overtook every attempt.
    """
    for _ in range(ETCD_LOAD_ATTEMPTS_MAX):
        try:
            return await _read_once(client, history)
        except Compacted:
            continue  # the revision went away between two pages; the next attempt has a newer one
    raise StoreUnavailable(f"compaction overtakes every read of {history}", remedy="compact less often")


async def read_many(client: EtcdClient, histories: Sequence[HistoryId]) -> Sequence[HistoryRead]:
    """Reads several histories as `read_pinned` does, by two transactions for each `ETCD_TXN_HISTORIES` of them.

    Raises:
        StoreUnavailable: no endpoint answers, or compaction overtook every attempt.
    """
    found: list[HistoryRead] = []
    for start in range(0, len(histories), ETCD_TXN_HISTORIES):
        some = histories[start : start + ETCD_TXN_HISTORIES]
        try:
            found += await _read_together(client, some)
        except Compacted:
            found += [await read_pinned(client, each) for each in some]
    return found


async def read_heads(client: EtcdClient, histories: Sequence[HistoryId]) -> Sequence[int]:
    """The last sequence of each history; 0 where there is none. Raises `StoreUnavailable`."""
    found: list[int] = []
    for start in range(0, len(histories), ETCD_TXN_HEADS):
        some = histories[start : start + ETCD_TXN_HEADS]
        answer = await client.read(*(requests.get(keys.head(each)) for each in some))
        found += [read_head(answer.one(index)).sequence for index in range(len(some))]
    return found


async def list_histories(client: EtcdClient, service: str) -> tuple[Sequence[HistoryId], int, int]:
    """All histories of a service, sorted, with the revision and the incarnation they were read at.

    Raises:
        StoreUnavailable: no endpoint answers, or compaction overtook every attempt.
    """
    for _ in range(ETCD_LOAD_ATTEMPTS_MAX):
        found = await client.read(requests.get(keys.INCARNATION))
        try:
            names = [history async for history in _heads(client, service, found.revision)]
        except Compacted:
            continue
        return sorted(names), found.revision, read_incarnation(found.one(0))
    raise StoreUnavailable(f"compaction overtakes every listing of {service}", remedy="compact less often")


async def _read_together(client: EtcdClient, histories: Sequence[HistoryId]) -> Sequence[HistoryRead]:
    """Reads heads and manifests, then the first batches at the same revision; of long tails and snapshots the rest."""
    wanted = [requests.get(key(each)) for each in histories for key in (keys.head, keys.manifest)]
    found = await client.read(requests.get(keys.INCARNATION), *wanted)
    tails = [requests.scan(keys.batches(each), limit=ETCD_TXN_BATCHES, revision=found.revision) for each in histories]
    begun = await client.read(*tails)

    async def whole(index: int, history: HistoryId) -> HistoryRead:
        head, manifest, tail = found.one(1 + 2 * index), found.one(2 + 2 * index), begun.found[index]
        batches = [kv.value for kv in tail]
        if len(tail) == ETCD_TXN_BATCHES:
            rest = KeyRange(tail[-1].key + b"\0", keys.batches(history).end)
            batches += await _values(client, rest, found.revision)
        chunks = await _chunks(client, history, manifest, found.revision)
        pinned = StoredHistory(history, found.revision, _value(head), _value(manifest), chunks, batches)
        return HistoryRead(pinned, read_head(head), read_incarnation(found.one(0)))

    return await asyncio.gather(*(whole(index, history) for index, history in enumerate(histories)))


async def _read_once(client: EtcdClient, history: HistoryId) -> HistoryRead:
    found = await client.read(
        requests.get(keys.head(history)), requests.get(keys.manifest(history)), requests.get(keys.INCARNATION)
    )
    head, manifest = found.one(0), found.one(1)
    chunks = await _chunks(client, history, manifest, found.revision)
    batches = await _values(client, keys.batches(history), found.revision)
    pinned = StoredHistory(history, found.revision, _value(head), _value(manifest), chunks, batches)
    return HistoryRead(pinned, read_head(head), read_incarnation(found.one(2)))


async def _chunks(
    client: EtcdClient, history: HistoryId, manifest: wire.KeyValue | None, revision: int
) -> Sequence[bytes]:
    """The pieces of the snapshot that a manifest names."""
    if not manifest:
        return ()
    return await _values(client, keys.chunks(history, decode(stored.StoredManifest, manifest.value).upload), revision)


def _value(kv: wire.KeyValue | None) -> bytes | None:
    return kv.value if kv else None


async def _values(client: EtcdClient, wanted: KeyRange, revision: int) -> Sequence[bytes]:
    return [kv.value async for kv in _pages(client, wanted, revision)]


async def _pages(client: EtcdClient, wanted: KeyRange, revision: int) -> AsyncIterator[wire.KeyValue]:
    rest, more = wanted, True
    while more:
        page = await client.call(RANGE, requests.scan(rest, limit=ETCD_PAGE_BATCHES, revision=revision))
        for kv in page.kvs:
            yield kv
        more = page.more
        if more:
            rest = KeyRange(page.kvs[-1].key + b"\0", wanted.end)


async def _heads(client: EtcdClient, service: str, revision: int) -> AsyncIterator[HistoryId]:
    """Yields histories by their heads. A page that ends among batches is followed by one from their head on."""
    rest, more = keys.histories(service), True
    while more:
        page = await client.call(RANGE, requests.scan(rest, limit=ETCD_PAGE_KEYS, revision=revision, keys_only=True))
        named = [parsed for parsed in map(keys.parse_history, (kv.key for kv in page.kvs)) if parsed]
        for history, first in named:
            if first is None:
                yield history
        more = page.more
        if more:
            rest = KeyRange(_resume(page.kvs[-1].key), rest.end)


def _resume(last: bytes) -> bytes:
    parsed = keys.parse_history(last)
    return keys.head(parsed[0]) if parsed and parsed[1] is not None else last + b"\0"
