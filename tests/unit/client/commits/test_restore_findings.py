"""Committed progress that is not as committed: each ends in the last provable position, a named range and an event."""

import asyncio
import base64
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from braid.kernel.envelope import encode
from braid.kernel.ports import Committed, Fingerprint, TopicPartition
from braid.kernel.progress.fields import EnvelopeFields, SpillPointer
from braid.kernel.progress.ranges import Ranges
from tests.support.scripted_control import until, virtual
from tests.unit.client.scripted_member import FIRST, TOPIC, Bench, bench, killed, member, take

PLACE = TopicPartition(TOPIC, 0)
COUNT = 100
DONE = Ranges([(60, 70)])

Found = tuple[str, int, int]


@dataclass(frozen=True)
class Case:
    """The state of the cluster when a member begins, and the expected result.

    Attributes:
        prepare: Makes it so; a log of `COUNT` records is there.
        begins: The first record that is handed out.
        found: Kind and range of what is told.
        beyond: A record that must not come again.
        later: Records that are sent once work has begun.
    """

    prepare: Callable[[Bench], None]
    begins: int
    found: tuple[Found, ...] = ()
    beyond: int | None = None
    later: int = 0


def commit(at: Bench, offset: int, metadata: str) -> None:
    """Stores a commit that another client made."""
    at.control.clusters["east"].groups.commit("g", {PLACE: Committed(offset, metadata)}, None)


def ours(at: Bench, **fields: object) -> str:
    """An envelope of base 50 with ten done beyond it, of this log."""
    topic_id = at.control.clusters["east"].describe_topics([TOPIC])[TOPIC].topic_id
    made = EnvelopeFields(base=50, done=DONE, epoch=1, fingerprint=Fingerprint(topic_id, -1, 0))
    return encode(replace(made, **fields)).metadata  # type: ignore[arg-type]  # forwarded as they are


def truncated(at: Bench) -> None:
    commit(at, 50, ours(at))
    at.control.clusters["east"].truncate(PLACE, 65)


def far_truncated(at: Bench) -> None:
    commit(at, 50, ours(at))
    at.control.clusters["east"].truncate(PLACE, 30)


def recreated(at: Bench) -> None:
    commit(at, 50, ours(at))
    east = at.control.clusters["east"]
    metadata = ours(at)
    east.delete_topic(TOPIC)
    east.create_topic(TOPIC, 2, 1, {})
    at.fill(COUNT)
    commit(at, 50, metadata)


def expired(at: Bench) -> None:
    commit(at, 50, ours(at))
    at.control.clusters["east"].expire(PLACE, 65)


def compacted(at: Bench) -> None:
    """All records have the same key, hence the newest alone is left; the others are done when they are passed."""
    commit(at, 50, ours(at))
    at.control.clusters["east"].compact(PLACE)


def flipped(at: Bench) -> str:
    text = ours(at)
    return text[:-1] + chr(ord(text[-1]) ^ 1)


def parallel_consumer() -> str:
    """Offsets in base 64, as confluentinc/parallel-consumer writes them: a magic byte, then a bitset or runs."""
    return base64.b64encode(b"o" + zlib.compress(bytes(range(40)))).decode()


def kafka_streams() -> str:
    """A version and a partition time, as Kafka Streams writes them: base 64 of nine bytes or more."""
    return base64.b64encode(b"\x02" + (1_700_000_000_000).to_bytes(8, "big") + bytes(4)).decode()


def told(kind: str, start: int = 50, end: int = COUNT) -> tuple[Found, ...]:
    return ((kind, start, end),)


CASES = {
    "believed": Case(lambda at: commit(at, 50, ours(at)), 50, beyond=60),
    "no metadata": Case(lambda at: commit(at, 50, ""), 50),
    "truncated": Case(truncated, 50, told("truncated", 65, 70), beyond=60),
    "truncated below its base": Case(far_truncated, 30, told("truncated", 30, 70), later=1),
    "recreated": Case(recreated, 0, told("recreated", 0, 50)),
    "expired": Case(expired, 70, told("expired", 50, 60)),
    "expired before anything was committed": Case(
        lambda at: at.control.clusters["east"].expire(PLACE, 65), 65, told("expired", 0, 65)
    ),
    "compacted": Case(compacted, COUNT - 1),
    "damaged": Case(lambda at: commit(at, 50, flipped(at)), 50, told("damaged")),
    "moved beside its metadata": Case(lambda at: commit(at, 55, ours(at)), 55, told("damaged", 55)),
    "of a later version": Case(lambda at: commit(at, 50, "b9:anything"), 50, told("unsupported")),
    "Parallel Consumer": Case(lambda at: commit(at, 50, parallel_consumer()), 50, told("foreign")),
    "Kafka Streams": Case(lambda at: commit(at, 50, kafka_streams()), 50, told("foreign")),
    "plain text": Case(lambda at: commit(at, 50, "reset by hand"), 50, told("foreign")),
    "its record is missing": Case(
        lambda at: commit(at, 50, ours(at, spill=SpillPointer(0, 7, 0, 99, 1, done=12))),
        50,
        told("record-missing"),
        beyond=60,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_unprovable_commits_are_reported_and_work_begins_before(name: str) -> None:
    case = CASES[name]

    @virtual
    async def run() -> None:
        async with bench() as at:
            at.fill(COUNT)
            at.watch.commits.clear()
            case.prepare(at)
            async with member(at, "one", FIRST) as (consumer, _):
                await asyncio.sleep(1.0)
                at.fill(case.later)
                records = await take(consumer, COUNT, seconds=1.0)
                assert records[0].offset == case.begins
                assert case.beyond not in [record.offset for record in records]
                found = at.control.members[0].found
                if case.found:
                    await until(lambda: bool(found))
                assert [(each.kind, each.start, each.end) for told in found for each in told.findings] == list(
                    case.found
                )
                assert all(each.reason for told in found for each in told.findings)
                killed(consumer)
            at.watch.untrue.clear()  # what was committed here by hand was done by nobody

    run()


@virtual
async def test_what_was_found_is_told_again_with_the_next_hello() -> None:
    async with bench() as at:
        at.fill(COUNT)
        commit(at, 50, "reset by hand")
        async with member(at, "one", FIRST) as (consumer, _):
            await until(lambda: bool(at.control.members[0].found))
            at.control.network.kill("control")
            await at.control.start()
            await until(lambda: len(at.control.members) == 2)
            assert [each.findings[0].kind for each in at.control.members[1].hello.found] == ["foreign"]
            killed(consumer)
        at.watch.untrue.clear()
