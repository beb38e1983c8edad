"""Writers of one name, one after the other and side by side: each record is in the store once."""

import asyncio
from collections import Counter

from braid.api.registry.v1.registry_service_pb2 import DeleteStreamRequest
from braid.kernel.access.requests import Lookup
from braid.kernel.audit.calls import CallRecorded
from braid.kernel.audit.forms import Reads
from braid.kernel.limits.access.audit import AUDIT_DAYS
from braid.kernel.ports import Caller, Endpoint, HistoryId
from braid.rpc.audit_records import parse, read_record
from braid.runtime.audit.recorder import Recorder
from braid.runtime.audit.settings import AuditSettings
from braid.runtime.audit.writer import AuditWriter
from braid.runtime.telemetry import make_metrics
from braid.stores.memory import MemoryStore
from braid.stores.memory_server import MemoryStoreServer
from tests.support.virtual_time import VirtualProcess, run_virtual, running_loop

CHANGES = HistoryId("audit", "changes", "registry.registry-0")
ANN = Caller("spiffe://braid.local/user/ann", "default", "", "x", authenticated=True)
TTL_SECONDS = 2.0
DAY_SECONDS = 86_400.0
DAYS = 0.05  # the writer looks twice a second


class Writing:
    """A process that records changes and writes them."""

    def __init__(self, server: MemoryStoreServer, name: str, settings: AuditSettings | None = None) -> None:
        self.process = VirtualProcess(running_loop(), name, 1)
        host = self.process.host
        self.store = MemoryStore(host, server)
        metrics = make_metrics("registry", "registry-0")
        self.recorder = Recorder("registry", host.clock, Lookup(), Reads.NONE, metrics)
        endpoint = Endpoint("registry", "registry-0", "")
        self.writer = AuditWriter(
            self.store, host, endpoint, TTL_SECONDS, self.recorder, settings or AuditSettings(), metrics, None
        )
        self.process.tasks.spawn(self.writer.run(), "audit")

    def delete(self, stream: str) -> None:
        """Records a change."""
        self.recorder.done("DeleteStream", DeleteStreamRequest(name=stream), ANN)


async def written(server: MemoryStoreServer) -> Counter[str]:
    """Returns the records in the store, each with how often."""
    loaded = server.load(CHANGES)
    found = [read_record(parse(data)) for data in loaded.events]
    return Counter(each.call.resource for each in found if isinstance(each, CallRecorded))


def server() -> MemoryStoreServer:
    return MemoryStoreServer(VirtualProcess(running_loop(), "store", 1).host.clock)


def test_the_next_process_of_a_killed_one_goes_on_where_it_ended() -> None:
    async def scenario() -> None:
        store = server()
        first = Writing(store, "first")
        first.delete("one")
        await asyncio.sleep(1.0)
        first.delete("lost")  # recorded, and killed before it is written
        first.process.kill()
        second = Writing(store, "second")
        second.delete("two")
        await asyncio.sleep(TTL_SECONDS + 2.0)
        assert await written(store) == Counter(["stream/one", "stream/two"])

    run_virtual(scenario())


def test_a_ghost_writes_only_what_is_its_own_and_only_once() -> None:
    """Cut off with an append on its way, it finds another in its place, and waits until that one is gone."""

    async def scenario() -> None:
        store = server()
        ghost = Writing(store, "ghost")
        ghost.delete("one")
        await asyncio.sleep(1.0)
        ghost.store.disconnect()
        ghost.delete("late")
        await asyncio.sleep(TTL_SECONDS + 1.0)
        heir = Writing(store, "heir")
        heir.delete("two")
        await asyncio.sleep(2.0)
        ghost.store.reconnect()
        await asyncio.sleep(5.0)
        assert await written(store) == Counter(["stream/one", "stream/two"])
        await heir.writer.close()
        heir.process.kill()
        await asyncio.sleep(5.0)
        assert await written(store) == Counter(["stream/one", "stream/two", "stream/late"])

    run_virtual(scenario())


def test_records_that_are_too_old_are_cut_off_during_writes() -> None:
    async def scenario() -> None:
        store = server()
        writing = Writing(store, "registry", AuditSettings(days=DAYS))
        writing.delete("old")
        await asyncio.sleep(2 * DAYS * DAY_SECONDS)
        writing.delete("new")
        await asyncio.sleep(2.0)
        assert await written(store) == Counter(["stream/new"])
        assert AUDIT_DAYS > DAYS

    run_virtual(scenario())
