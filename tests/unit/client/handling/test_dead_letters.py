"""Dead letters that do not fit their lane: cut if that helps, else rejected in place, never tried for ever."""

import asyncio

from braid.client.consumer_settings import Retry
from braid.client.records.record import Record
from braid.kafka.memory.log import NewRecord
from braid.kernel.ports import TopicPartition
from tests.support.commit_watch import fill
from tests.support.scripted_control import until, virtual
from tests.unit.client.scripted_member import LIVE, TOPIC, bench, killed, member

FIRST = f"{LIVE}/0"
PLACE = TopicPartition(TOPIC, 0)


async def hopeless(record: Record) -> None:
    raise ValueError("poison")


@virtual
async def test_a_dead_letter_that_is_too_large_is_cut_and_says_so() -> None:
    async with bench() as at:
        at.control.max_record_bytes = 2_000
        await at.control.move(LIVE, "logs/bulk/1", "logs/dlq/1")
        fill(at.control.clusters["east"], PLACE, [bytes(20_000)], 0)  # another tool wrote it
        async with member(at, "m", FIRST, retry=Retry(max_attempts=1)) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(hopeless))
            await until(lambda: bool(at.control.records("logs/dlq/1")))
            at.watch.done("east", TOPIC, 0, 0)
            await until(lambda: at.watch.base(TOPIC) == 1)
        await running
        [copy] = at.control.records("logs/dlq/1")
        assert copy.value == bytes(2_000)
        assert dict(copy.headers)["braid-dl-cut"] == b"20000"


@virtual
async def test_a_letter_too_large_even_when_cut_is_rejected_in_place() -> None:
    async with bench() as at:
        at.control.max_record_bytes = 2_000
        await at.control.move(LIVE, "logs/bulk/1", "logs/dlq/1")
        large = NewRecord(0, None, b"small", (("foreign", bytes(30_000)),))
        at.control.clusters["east"].append(PLACE, [large])
        async with member(at, "m", FIRST, retry=Retry(max_attempts=1)) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(hopeless))
            await until(lambda: at.watch.base(TOPIC) == 1)
        await running
        assert any(0 in each.fields.rejected for each in at.watch.commits)
        assert at.control.records("logs/dlq/1") == []


@virtual
async def test_a_dead_letter_is_as_old_as_its_death() -> None:
    """Retention goes by a record's timestamp: the letter of an old record would be deleted at once."""
    async with bench() as at:
        at.control.max_record_bytes = 2_000
        await at.control.move(LIVE, "logs/bulk/1", "logs/dlq/1")
        fill(at.control.clusters["east"], PLACE, [b"small", bytes(20_000)], 7)  # one is copied whole, one is cut
        started_ms = at.control.process.clock.now_ms()
        async with member(at, "m", FIRST, retry=Retry(max_attempts=1)) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(hopeless))
            await until(lambda: at.watch.base(TOPIC) == 2)
        await running
        copies = at.control.records("logs/dlq/1")
        assert [dict(copy.headers)["braid-dl-timestamp"] for copy in copies] == [b"7", b"7"]
        assert all(started_ms <= copy.timestamp <= at.control.process.clock.now_ms() for copy in copies)


@virtual
async def test_a_letters_first_failure_is_the_one_its_last_member_saw() -> None:
    """Attempts are committed, the times of failures are not: after a hand-over a letter tells no time nobody knows."""
    async with bench() as at:
        at.fill(1)
        retry = Retry(max_attempts=3, backoff_seconds=(1.0, 1.0))
        async with member(at, "first", FIRST, retry=retry) as (consumer, client):
            running = asyncio.ensure_future(consumer.run(hopeless))
            await until(lambda: bool(at.watch.commits) and bool(at.watch.last(TOPIC).fields.attempts))
            running.cancel()
            client.kill()
            killed(consumer)
        await asyncio.sleep(60.0)
        handed_over_ms = at.control.process.clock.now_ms()
        async with member(at, "second", FIRST, retry=retry) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(hopeless))
            await until(lambda: at.watch.base(TOPIC) == 1)
        await running
        [copy] = at.control.records("logs/dlq/1")
        names = ("attempts", "first-failure", "last-failure")
        told = {name: int(dict(copy.headers)[f"braid-dl-{name}"]) for name in names}
        assert told["attempts"] == 3
        assert handed_over_ms <= told["first-failure"] <= told["last-failure"] - 500, "two of three were seen here"


@virtual
async def test_a_letter_names_the_topic_by_its_own_id() -> None:
    async with bench() as at:
        at.fill(1)
        async with member(at, "m", FIRST, retry=Retry(max_attempts=1)) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(hopeless))
            await until(lambda: at.watch.base(TOPIC) == 1)
        await running
        [copy] = at.control.records("logs/dlq/1")
        found = await at.control.client("admin").kafka.cluster("east:9092", "").admin().describe_topics([TOPIC])
        assert dict(copy.headers)["braid-dl-topic-id"].decode() == found[TOPIC].topic_id.hex()


@virtual
async def test_a_records_own_dead_letter_headers_are_not_trusted() -> None:
    """Somebody copied a letter back by hand, headers and all; it is neither cut nor quarantined now."""
    async with bench() as at:
        forged = [("cut", b"999"), ("quarantine", b"bomb"), ("origin-id", b"x"), ("last-offset", b"9")]
        headers = (*((f"braid-dl-{name}", value) for name, value in forged), ("braid-id", b"01:1"), ("own", b"kept"))
        at.control.clusters["east"].append(PLACE, [NewRecord(0, None, b"v", headers)])
        async with member(at, "m", FIRST, retry=Retry(max_attempts=1)) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(hopeless))
            await until(lambda: at.watch.base(TOPIC) == 1)
        await running
        [copy] = at.control.records("logs/dlq/1")
        told = dict(copy.headers)
        assert {"braid-dl-cut", "braid-dl-quarantine", "braid-dl-last-offset"}.isdisjoint(told)
        assert (told["braid-dl-origin-id"], told["own"]) == (b"01:1", b"kept")


@virtual
async def test_a_dead_letter_producer_declares_it_writes_no_other_lane() -> None:
    """Only channels of the dlq lane wait for a member that died: the ends of other losses stay known."""
    async with bench() as at:
        await at.control.move(LIVE, "logs/bulk/1", "logs/dlq/1")
        fill(at.control.clusters["east"], PLACE, [b"x"], 0)
        async with member(at, "m", FIRST, retry=Retry(max_attempts=1)) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(hopeless))
            await until(lambda: at.watch.base(TOPIC) == 1)
        await running
        assert [list(hello.lanes) for hello in at.control.producers] == [["dlq"]]
