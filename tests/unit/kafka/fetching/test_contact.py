"""A fetcher's contact with its cluster: the rules, and the fetcher on wires that answer, fall silent, or name no
leader."""

import asyncio
from collections.abc import Sequence
from math import inf
from types import SimpleNamespace

from braid.kafka.errors import OFFSET_OUT_OF_RANGE
from braid.kafka.fetching.contact import Owing
from braid.kafka.fetching.fetcher import AioFetcher
from braid.kafka.protocol.wire import ClusterMetadata, TopicMetadata
from braid.kernel.errors import ClusterUnavailable
from braid.kernel.limits.kafka import KAFKA_FETCH_WAIT_MS
from braid.kernel.ports import Contact, Isolation
from tests.support.scripted_control import virtual
from tests.unit.kafka.fetching.test_fetcher import FIRST, SECOND, ScriptedWire

HELD = KAFKA_FETCH_WAIT_MS / 1_000
NOT_LEADER = 6


def wanting(since: float = 0.0) -> Owing:
    owing = Owing()
    owing.wants(since, anything=True)
    return owing


def test_nothing_is_owed_to_who_wants_nothing() -> None:
    owing = Owing()
    owing.in_vain(1.0)
    assert owing.contact([2.0], 10.0) == Contact(0.0, inf)
    owing.wants(4.0, anything=True)
    assert owing.contact([], 10.0).owed_seconds == 6.0  # not since before anything was wanted
    owing.wants(9.0, anything=False)
    assert owing.contact([], 10.0).owed_seconds == 0.0


def test_an_answer_that_is_not_due_yet_is_not_owed() -> None:
    assert wanting().contact([10.2], 10.0).owed_seconds == 0.0
    assert wanting().contact([10.2, 9.0], 10.0).owed_seconds == 1.0


def test_the_first_vain_request_counts_until_one_is_answered() -> None:
    owing = wanting()
    for at in (3.0, 5.0, 7.0):
        owing.in_vain(at)
    assert owing.contact([9.0], 10.0).owed_seconds == 7.0
    owing.answered(9.5)
    assert owing.contact([], 10.0) == Contact(0.0, 0.5)


def test_with_only_leaders_missing_nothing_is_owed_or_answered() -> None:
    owing = wanting()
    owing.in_vain(3.0)
    owing.excused()
    assert owing.contact([], 10.0) == Contact(0.0, inf)


def test_two_clients_owe_the_longer_time_and_the_later_answer() -> None:
    assert Contact(2.0, 5.0).joined(Contact(0.0, 1.0)) == Contact(2.0, 1.0)


class MoodyWire(ScriptedWire):
    """One broker that answers at once, with a code; or not at all, to the end of the request's time."""

    def __init__(self) -> None:
        super().__init__()
        self.code = 0
        self.frozen = False
        self.leader = 1
        self.thawed = asyncio.Event()

    async def _answer(self) -> None:
        if not self.frozen:
            await asyncio.sleep(0.05)
            return
        await asyncio.sleep(2.0)
        raise ClusterUnavailable("frozen")

    async def metadata(self, topics: Sequence[str] | None) -> ClusterMetadata:
        """Metadata that names the present leader."""
        await self._answer()
        return ClusterMetadata("k", 1, {1: ("h", 1)}, {"t": TopicMetadata(0, b"", {0: self.leader, 1: self.leader})})

    async def ask(self, broker: int, request: object) -> SimpleNamespace:
        """No records."""
        await self._answer()
        return SimpleNamespace(topics=[("t", [(0, self.code, 0, 0, 0, [], -1, b"")])])


def fetching(wire: MoodyWire) -> AioFetcher:
    return AioFetcher(wire, wire, max_partition_bytes=1, isolation=Isolation.READ_COMMITTED, client_rack="")


@virtual
async def test_a_silent_broker_owes_since_it_should_have_answered() -> None:
    wire = MoodyWire()
    fetcher = fetching(wire)
    assert fetcher.contact() == Contact(0.0, inf)
    await fetcher.start()
    fetcher.assign({FIRST: 0})
    await asyncio.sleep(0.2)
    for _ in range(100):
        await asyncio.sleep(0.1)
        contact = fetcher.contact()
        assert contact.owed_seconds < 0.1 and contact.answered_seconds_ago < 0.2
    wire.frozen = True
    await asyncio.sleep(HELD + 0.5)
    assert 0.3 < fetcher.contact().owed_seconds < 0.6
    await asyncio.sleep(30.0)  # through many time-outs, of fetches and of metadata
    contact = fetcher.contact()
    assert 30.3 < contact.owed_seconds < contact.answered_seconds_ago
    wire.frozen = False
    await asyncio.sleep(3.0)
    assert fetcher.contact().owed_seconds < 0.1 and fetcher.contact().answered_seconds_ago < 0.2
    await fetcher.close()


@virtual
async def test_a_leaderless_broker_owes_nothing_while_others_answer() -> None:
    wire, beside = MoodyWire(), MoodyWire()
    fetcher = AioFetcher(wire, beside, max_partition_bytes=1, isolation=Isolation.READ_COMMITTED, client_rack="")
    await fetcher.start()
    fetcher.assign({FIRST: 0})
    await asyncio.sleep(1.0)
    beside.frozen = True
    for _ in range(200):
        await asyncio.sleep(0.1)
        assert fetcher.contact().owed_seconds < 0.3 and fetcher.contact().answered_seconds_ago < 0.3
    wire.frozen = True  # now nobody does
    await asyncio.sleep(10.0)
    assert fetcher.contact().owed_seconds > 9.0
    await fetcher.close()


@virtual
async def test_a_paused_fetcher_is_owed_nothing_until_it_goes_on() -> None:
    wire = MoodyWire()
    fetcher = fetching(wire)
    await fetcher.start()
    fetcher.assign({FIRST: 0, SECOND: 0})
    await asyncio.sleep(1.0)
    fetcher.pause([FIRST])
    wire.frozen = True
    await asyncio.sleep(5.0)
    assert fetcher.contact().owed_seconds > 4.0
    fetcher.pause([SECOND])
    assert fetcher.contact().owed_seconds == 0.0
    await asyncio.sleep(5.0)
    assert fetcher.contact().owed_seconds == 0.0
    fetcher.resume([FIRST])
    await asyncio.sleep(1.0)
    assert 0.5 < fetcher.contact().owed_seconds <= 1.01
    fetcher.assign({})
    assert fetcher.contact().owed_seconds == 0.0
    await fetcher.close()


@virtual
async def test_a_start_in_vain_is_owed() -> None:
    wire = MoodyWire()
    wire.frozen = True
    fetcher = fetching(wire)
    starting = asyncio.ensure_future(fetcher.start())
    await asyncio.sleep(5.0)
    assert 4.9 < fetcher.contact().owed_seconds < 5.1
    wire.frozen = False
    await starting
    assert fetcher.contact().owed_seconds == 0.0
    await fetcher.close()


@virtual
async def test_a_cluster_that_names_no_leader_owes_nothing() -> None:
    for change in ("leader", "code"):
        wire = MoodyWire()
        fetcher = fetching(wire)
        await fetcher.start()
        fetcher.assign({FIRST: 0})
        await asyncio.sleep(1.0)
        setattr(wire, change, -1 if change == "leader" else NOT_LEADER)
        await asyncio.sleep(20.0)
        contact = fetcher.contact()
        assert contact.owed_seconds < 0.5 and contact.answered_seconds_ago > 10.0, change
        wire.leader, wire.code = 1, OFFSET_OUT_OF_RANGE
        await asyncio.sleep(0.6)
        assert fetcher.contact().answered_seconds_ago < 0.7, change
        await fetcher.close()
