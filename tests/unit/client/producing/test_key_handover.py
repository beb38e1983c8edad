"""In a planned move, a key waits for its own records on the old channels, and for nothing else."""

import asyncio
from collections.abc import Iterator

import pytest

from braid.client.producing.key_handover import KeyHandover
from braid.client.producing.outbox import Pending
from braid.kernel.ids import ChannelId

OLD, OLDER, KEPT = (ChannelId("logs", "live", number) for number in (2, 1, 3))


@pytest.fixture(autouse=True)
def loop() -> Iterator[None]:
    """A record has a future, and a future a loop."""
    made = asyncio.new_event_loop()
    asyncio.set_event_loop(made)
    yield
    asyncio.set_event_loop(None)
    made.close()


class Records:
    """Creates records in rising order."""

    def __init__(self) -> None:
        self._loop = asyncio.get_event_loop_policy().get_event_loop()
        self._count = 0

    def make(self, key: bytes | None, channel: ChannelId | None = None, lane: str = "live") -> Pending:
        """One more record, in flight to a channel or to none."""
        self._count += 1

        async def made() -> Pending:
            return Pending(self._count, lane, key, b"", (), 0, 0, id=str(self._count), deadline=0.0)

        record = self._loop.run_until_complete(made())
        record.channel = channel
        return record


def test_a_key_waits_for_its_own_records_and_no_other() -> None:
    records, crossing = Records(), KeyHandover()
    first, second = records.make(b"k", OLD), records.make(b"k", OLDER)
    crossing.begin((OLD, OLDER), [first, second, records.make(b"kept", KEPT), records.make(None, OLD)])
    assert crossing
    for free in (records.make(b"other"), records.make(None), records.make(b"kept"), records.make(b"k", lane="bulk")):
        assert not crossing.takes(free)
    behind = [records.make(b"k") for _ in range(3)]
    assert all(crossing.takes(record) for record in behind)
    assert crossing.settled(second) == ()
    assert crossing.settled(first) == behind
    assert not crossing
    assert not crossing.takes(records.make(b"k"))


def test_what_another_channel_acknowledges_frees_nobody() -> None:
    records, crossing = Records(), KeyHandover()
    owed, beside = records.make(b"k", OLD), records.make(b"k", KEPT)
    crossing.begin((OLD,), [owed, beside])
    behind = records.make(b"k")
    assert crossing.takes(behind)
    assert crossing.settled(beside) == ()
    assert crossing.settled(records.make(None, OLD)) == ()
    assert crossing.settled(owed) == [behind]


def test_a_fate_told_twice_frees_nobody_twice() -> None:
    records, crossing = Records(), KeyHandover()
    owed, other = records.make(b"k", OLD), records.make(b"m", OLD)
    crossing.begin((OLD,), [owed, other])
    behind = records.make(b"k")
    assert crossing.takes(behind)
    assert crossing.settled(owed) == [behind]
    assert crossing.settled(owed) == ()


def test_a_newer_crossing_forgets_an_older_one() -> None:
    records, crossing = Records(), KeyHandover()
    crossing.begin((OLDER,), [records.make(b"k", OLDER)])
    assert crossing.takes(records.make(b"k"))
    owed = records.make(b"k", OLD)
    crossing.begin((OLD,), [owed])
    assert crossing.settled(owed) == ()
    crossing.begin((OLD,), [owed])
    crossing.end()
    assert not crossing
    assert not crossing.takes(records.make(b"k"))
