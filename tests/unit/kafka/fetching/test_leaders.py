"""Leaders are looked up in parallel to fetches, from brokers that answer."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from aiokafka.conn import AIOKafkaConnection
from aiokafka.protocol.api import Request

from braid.kafka.fetching.contact import Owing
from braid.kafka.fetching.fetcher import AioFetcher
from braid.kafka.fetching.leaders import AGE_SECONDS, BACKOFF_SECONDS, Leaders
from braid.kafka.protocol.wire import ANY_BROKER, Address, ClusterMetadata, TopicMetadata, Wire
from braid.kafka.security import Security
from braid.kernel.errors import ClusterUnavailable
from braid.kernel.limits.kafka import ANY_BROKER_SECONDS, KAFKA_FETCH_BESIDE_MS, KAFKA_FETCH_WAIT_MS
from braid.kernel.ports import Isolation, TopicPartition
from testbed.batches import batch
from tests.support.scripted_control import virtual
from tests.unit.kafka.fetching.test_fetcher import FIRST, SECOND, ScriptedWire

STEP_SECONDS = 0.05  # between two records


class LiveWire(ScriptedWire):
    """One connection to a broker whose first partition gets a record now and then, the second none.

    It answers one request after another, and holds a fetch without records for as long as that says.
    """

    def __init__(self, hold_ms: int) -> None:
        super().__init__()
        self._hold_seconds = hold_ms / 1_000
        self._turn = asyncio.Lock()
        self.told = 0

    async def metadata(self, topics: Sequence[str] | None) -> ClusterMetadata:
        """In its turn."""
        async with self._turn:
            self.told += 1
            return await super().metadata(topics)

    async def ask(self, broker: int, request: object) -> SimpleNamespace:
        """The next record of the first partition once it is there, where that is asked for."""
        async with self._turn:
            answer = await super().ask(broker, request)
            offsets = {each[0]: each[1] for _, parts in request._topics for each in parts}  # type: ignore[attr-defined]
            now = asyncio.get_running_loop().time()
            if 0 not in offsets:
                await asyncio.sleep(self._hold_seconds)
                return answer
            at = (offsets[0] + 1) * STEP_SECONDS
            await asyncio.sleep(min(self._hold_seconds, max(0.0, at - now)))
            if at <= asyncio.get_running_loop().time() + 1e-6:
                answer.topics = [("t", [(0, 0, 1, 1, 0, [], -1, batch(offsets[0], 1))])]
            return answer


async def latest(fetcher: AioFetcher, seconds: float) -> float:
    """How late the latest record came, of those of so many seconds."""
    clock, found = asyncio.get_running_loop().time, [0.0]
    while clock() < seconds:
        for fetched in await fetcher.fetch(100, 1.0):
            found += [clock() - (record.offset + 1) * STEP_SECONDS for record in fetched.records]
    return max(found)


@virtual
async def test_records_do_not_wait_for_word_of_who_leads() -> None:
    wire, beside = LiveWire(KAFKA_FETCH_WAIT_MS), LiveWire(KAFKA_FETCH_BESIDE_MS)
    fetcher = AioFetcher(wire, beside, max_partition_bytes=1, isolation=Isolation.READ_COMMITTED, client_rack="")
    await fetcher.start()
    fetcher.assign({SECOND: 0})
    await wire.answered.wait()  # from now on a request for the second is held, and the first is asked for beside it
    fetcher.assign({FIRST: 0, SECOND: 0})
    late = await latest(fetcher, 4 * AGE_SECONDS)
    assert wire.told + beside.told > 3
    assert late < 2 * KAFKA_FETCH_BESIDE_MS / 1_000
    await fetcher.close()


class AskedWire(ScriptedWire):
    """Says who leads when it is told to; notes what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.topics: list[list[str]] = []
        self.away = False
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def metadata(self, topics: Sequence[str] | None) -> ClusterMetadata:
        """One partition of each topic has a leader."""
        self.topics.append(list(topics or ()))
        await self.goes_on.wait()
        if self.away:
            raise ClusterUnavailable("away")
        return ClusterMetadata(
            "k", 1, {1: ("h", 1)}, {topic: TopicMetadata(0, b"", {0: 1, 1: -1}) for topic in topics or ()}
        )


@virtual
async def test_topics_that_came_during_a_request_are_asked_at_once() -> None:
    wire, told = AskedWire(), 0

    def tell() -> None:
        nonlocal told
        told += 1

    leaders = Leaders(wire, Owing(), tell)
    wire.goes_on.clear()
    leaders.refresh([FIRST])
    await asyncio.sleep(0)
    other = TopicPartition("u", 0)
    leaders.refresh([FIRST, other])  # one question at a time
    wire.goes_on.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (leaders.of(FIRST), leaders.of(other), told) == (1, -1, 1)
    leaders.refresh([FIRST, other])
    await asyncio.sleep(0.001)
    assert (leaders.of(other), wire.topics) == (1, [["t"], ["t", "u"]])
    leaders.refresh([FIRST, other])
    assert wire.topics[2:] == []


@virtual
async def test_unknown_facts_are_asked_again_sooner_than_known_ones() -> None:
    wire = AskedWire()
    leaders = Leaders(wire, Owing(), lambda: None)
    for wanted, every in (([FIRST], AGE_SECONDS), ([FIRST, SECOND], BACKOFF_SECONDS)):
        leaders.forget([], ask=True)
        wire.topics.clear()
        for _ in range(100):
            leaders.refresh(wanted)
            await asyncio.sleep(every / 10)
        assert 8 <= len(wire.topics) <= 11, every
    assert leaders.unknown([SECOND]) and not leaders.unknown([FIRST])


@virtual
async def test_an_absent_cluster_is_asked_sparsely_and_owes_answers() -> None:
    wire, owing = AskedWire(), Owing()
    owing.wants(0.0, anything=True)
    leaders = Leaders(wire, owing, lambda: None)
    wire.away = True
    for _ in range(100):
        leaders.refresh([FIRST])
        await asyncio.sleep(BACKOFF_SECONDS / 10)
    assert 8 <= len(wire.topics) <= 11
    assert owing.contact([], asyncio.get_running_loop().time()).owed_seconds > 9 * BACKOFF_SECONDS
    wire.away = False
    await asyncio.sleep(BACKOFF_SECONDS)
    leaders.refresh([FIRST])
    await asyncio.sleep(0)
    leaders.forget([FIRST], ask=True)
    assert leaders.of(FIRST) == -1


@virtual
async def test_a_fault_in_a_question_is_raised() -> None:
    class Faulty(AskedWire):
        async def metadata(self, topics: Sequence[str] | None) -> ClusterMetadata:
            raise KeyError("ours")

    leaders = Leaders(Faulty(), Owing(), lambda: None)
    leaders.refresh([FIRST])
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    with pytest.raises(KeyError):
        leaders.refresh([FIRST])


class Brokers(Wire):
    """A client of three brokers, some of which take connections and never answer."""

    def __init__(self, *frozen: int) -> None:
        super().__init__("h:1,h:2,h:3", "test", Security(), 1.0)
        self.frozen = frozen
        self.slow: dict[int, float] = {}  # seconds before one answers
        self.asked: list[int] = []

    async def _open(self, address: Address) -> AIOKafkaConnection:
        class Connection:
            """A connection to one of the brokers."""

            _writer = None

            def connected(self) -> bool:
                return True

            async def send(connection, request: Request) -> str:
                self.asked.append(address[1])
                if address[1] in self.frozen:
                    await asyncio.sleep(1_000)
                await asyncio.sleep(self.slow.get(address[1], 0.0))
                return "answer"

            def close(self) -> asyncio.Future[None]:
                return asyncio.get_running_loop().create_future()

        return Connection()


@virtual
async def test_a_broker_that_did_not_answer_is_asked_after_all_others() -> None:
    wire = Brokers(1, 2)
    for silent in (1, 2):
        with pytest.raises(ClusterUnavailable):
            await wire.ask(ANY_BROKER, object())
        assert wire.asked[-1] == silent
    assert await wire.ask(ANY_BROKER, object()) == "answer"
    wire.frozen = (3,)
    with pytest.raises(ClusterUnavailable):
        await wire.ask(ANY_BROKER, object())
    assert await wire.ask(ANY_BROKER, object()) == "answer"
    assert wire.asked == [1, 2, 3, 3, 1]  # the one that was silent for the longest time


@virtual
async def test_another_broker_is_asked_while_one_is_silent() -> None:
    wire, clock = Brokers(1), asyncio.get_running_loop().time
    began = clock()
    assert await wire.ask_any(object()) == "answer"
    assert clock() - began == pytest.approx(ANY_BROKER_SECONDS)
    began = clock()
    assert await wire.ask_any(object()) == "answer"
    assert clock() == began, "the silent one was asked first again"
    assert wire.asked == [1, 2, 2]
    await asyncio.sleep(2.0)
    assert not wire._left, "what nobody waits for ends with its time"


@virtual
async def test_whoever_answers_late_keeps_its_connection_and_its_place() -> None:
    wire = Brokers()
    wire.slow[1] = 2 * ANY_BROKER_SECONDS
    assert await wire.ask_any(object()) == "answer"
    await asyncio.sleep(2 * ANY_BROKER_SECONDS)
    assert ("h", 1) in wire._connections and not wire._silent
    assert wire.asked == [1, 2]


@virtual
async def test_when_all_brokers_are_silent_that_is_told_after_the_last() -> None:
    wire, began = Brokers(1, 2, 3), asyncio.get_running_loop().time()
    with pytest.raises(ClusterUnavailable):
        await wire.ask_any(object())
    assert asyncio.get_running_loop().time() - began == pytest.approx(1.0 + 2 * ANY_BROKER_SECONDS)
    assert wire.asked == [1, 2, 3]


@virtual
async def test_who_does_not_wait_any_longer_leaves_no_question_behind() -> None:
    wire = Brokers(1, 2, 3)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.5 * ANY_BROKER_SECONDS):
            await wire.ask_any(object())
    await asyncio.sleep(0)
    assert not wire._left and not wire._connections


def test_connections_beside_others_know_the_same_brokers() -> None:
    wire = Wire("h:1", "test", Security(), 1.0)
    beside = wire.beside()
    wire._brokers[7] = ("h", 7)
    assert beside._brokers == {7: ("h", 7)} and beside._connections is not wire._connections
