"""Reads that compaction overtakes, and pages."""

from collections import deque
from collections.abc import Sequence
from typing import cast

import pytest

from braid.host.system import SystemClock
from braid.kernel.errors import Compacted, StoreUnavailable
from braid.kernel.limits.store import ETCD_LOAD_ATTEMPTS_MAX
from braid.kernel.ports import HistoryId
from braid.stores.etcd import keys, loading
from braid.stores.etcd.client import EtcdClient, Method, Q, R
from braid.stores.etcd.requests import Answer
from braid.stores.etcd_wire import etcd_pb2 as wire

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
