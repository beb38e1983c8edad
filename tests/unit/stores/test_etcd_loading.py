"""Reads that compaction overtakes, and pages."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from braid.host.system import SystemClock
from braid.kernel.errors import BraidError, Compacted, StoreUnavailable
from braid.kernel.limits.store import ETCD_LOAD_ATTEMPTS_MAX, ETCD_TXN_BATCHES, ETCD_TXN_HISTORIES
from braid.kernel.ports import HistoryId
from braid.stores.etcd import keys, loading
from braid.stores.etcd.client import EtcdClient, Method, Q, R
from braid.stores.etcd.requests import Answer
from braid.stores.etcd_wire import etcd_pb2 as wire
from braid.stores.etcd_wire import stored_pb2 as stored

LOGS, METRICS = HistoryId("registry", "stream", "logs"), HistoryId("registry", "stream", "metrics")
Page = wire.RangeResponse | Compacted


class Scripted(EtcdClient):
    """Answers ranges from a script; every linearizable read finds nothing at a revision one higher."""

    def __init__(self, pages: Sequence[Page]) -> None:
        super().__init__(["nowhere:1"], SystemClock(), None)
        self.asked: list[wire.RangeRequest] = []
        self._pages = deque(pages)
        self._revision = 100

    async def read(self, *ranges: wire.RangeRequest) -> Answer:
        """Finds nothing."""
        self._revision += 1
        return Answer(True, self._revision, [()] * len(ranges))

    async def call(self, method: Method[Q, R], request: Q, seconds: float = 0.0) -> R:
        """The next page."""
        assert isinstance(request, wire.RangeRequest)
        self.asked.append(request)
        page = self._pages.popleft()
        if isinstance(page, Compacted):
            raise page
        return cast("R", page)


def _page(*found: bytes, more: bool = False) -> wire.RangeResponse:
    return wire.RangeResponse(kvs=[wire.KeyValue(key=key, value=b"v") for key in found], more=more)


async def test_all_pages_are_read_at_the_revision_of_the_first_read() -> None:
    second = keys.batch(LOGS, 2)
    client = Scripted([_page(keys.batch(LOGS, 1), second, more=True), _page(keys.batch(LOGS, 3))])
    read = await loading.read_pinned(client, LOGS)
    assert list(read.pinned.batches) == [b"v"] * 3
    assert [request.revision for request in client.asked] == [101, 101]
    assert client.asked[1].key == second + b"\0"


async def test_reads_overtaken_by_compaction_restart_at_a_new_revision() -> None:
    client = Scripted([_page(keys.batch(LOGS, 1), more=True), Compacted("gone"), _page(keys.batch(LOGS, 1))])
    read = await loading.read_pinned(client, LOGS)
    assert (read.pinned.revision, len(read.pinned.batches)) == (102, 1)
    assert [request.revision for request in client.asked] == [101, 101, 102]


async def test_a_read_that_compaction_always_overtakes_gives_up() -> None:
    gone = [Compacted("gone")] * (2 * ETCD_LOAD_ATTEMPTS_MAX)
    with pytest.raises(StoreUnavailable):
        await loading.read_pinned(Scripted(gone), LOGS)
    with pytest.raises(StoreUnavailable):
        await loading.list_histories(Scripted(gone), "registry")


async def test_listing_skips_batches_between_a_page_and_the_next_head() -> None:
    client = Scripted(
        [
            _page(keys.batch(LOGS, 1), keys.batch(LOGS, 2), more=True),
            _page(keys.head(LOGS), more=True),
            _page(keys.batch(METRICS, 1), keys.head(METRICS)),
        ]
    )
    names, revision, incarnation = await loading.list_histories(client, "registry")
    assert (list(names), revision, incarnation) == ([LOGS, METRICS], 101, 0)
    assert [request.key for request in client.asked[1:]] == [keys.head(LOGS), keys.head(LOGS) + b"\0"]
    assert all(request.keys_only and request.revision == 101 for request in client.asked)


class Kept(EtcdClient):
    """Answers reads from keys in memory, as etcd does."""

    def __init__(self, kept: Mapping[bytes, bytes], failing: BraidError | None = None) -> None:
        super().__init__(["nowhere:1"], SystemClock(), None)
        self.asked = 0
        self._kept = kept
        self._failing = failing

    async def read(self, *ranges: wire.RangeRequest) -> Answer:
        """Reads ranges; the first reads with a limit fail, where they are to."""
        self.asked += 1
        assert len(ranges) <= 128, "etcd allows no more in one transaction"
        if self._failing is not None and any(each.limit for each in ranges):
            raise self._failing
        return Answer(True, 7, [self._range(each)[: each.limit or None] for each in ranges])

    async def call(self, method: Method[Q, R], request: Q, seconds: float = 0.0) -> R:
        """Reads a page."""
        self.asked += 1
        assert isinstance(request, wire.RangeRequest) and request.revision == 7
        found = self._range(request)
        more = len(found) > request.limit
        return cast("R", wire.RangeResponse(kvs=found[: request.limit], more=more))

    def _range(self, request: wire.RangeRequest) -> Sequence[wire.KeyValue]:
        end = request.range_end or request.key + b"\0"
        found = sorted(key for key in self._kept if request.key <= key < end)
        return [wire.KeyValue(key=key, value=self._kept[key], mod_revision=3) for key in found]


def _many() -> tuple[Sequence[HistoryId], Mapping[bytes, bytes]]:
    """Histories with no batch, with some, and with more than are read at first; and one with a snapshot."""
    histories = [HistoryId("registry", "stream", f"s-{number:02d}") for number in range(40)]
    kept: dict[bytes, bytes] = {keys.INCARNATION: b"5"}
    for number, history in enumerate(histories):
        batches = number % (2 * ETCD_TXN_BATCHES + 2)
        for first in range(1, batches + 1):
            kept[keys.batch(history, first)] = stored.StoredBatch(first=first, events=[b"e"]).SerializeToString()
        if batches:
            kept[keys.head(history)] = stored.StoredHead(sequence=batches).SerializeToString()
    manifest = stored.StoredManifest(sequence=1, upload="one", chunks=40, size_bytes=40)
    kept[keys.manifest(histories[5])] = manifest.SerializeToString()
    kept |= {keys.chunk(histories[5], "one", index): b"c" for index in range(40)}
    return histories, kept


@pytest.mark.parametrize("failing", [None, Compacted("gone")])
async def test_many_histories_are_read_as_one_by_one(failing: BraidError | None) -> None:
    histories, kept = _many()
    alone = [await loading.read_pinned(Kept(kept), each) for each in histories]
    client = Kept(kept, failing)
    together = await loading.read_many(client, histories)
    assert list(together) == alone
    assert {each.incarnation for each in together} == {5}
    assert [each.head.sequence for each in together] == list(await loading.read_heads(client, histories))


async def test_histories_with_short_tails_are_read_by_two_questions() -> None:
    histories, kept = _many()
    short = [each for each in histories if keys.batch(each, ETCD_TXN_BATCHES) not in kept and each != histories[5]]
    client = Kept(kept)
    await loading.read_many(client, short[:ETCD_TXN_HISTORIES])
    assert client.asked == 2
    await loading.read_heads(client, [*histories, *histories, *histories, *histories, *histories])
    assert client.asked == 4
