"""Reading offset ranges: every end of a wait, on virtual time."""

from typing import Final

import pytest

from braid.client.reading.range_reader import RangeReader
from braid.kafka.memory import MemoryKafka
from braid.kafka.memory.log import Log, NewRecord, Read
from braid.kernel.errors import ClusterUnavailable, OffsetOutOfRange
from braid.kernel.limits.planning import SPARK_DIAGNOSE_SECONDS, SPARK_NO_BATCH_SECONDS, SPARK_SHORT_LOG_SECONDS
from braid.kernel.ports import TopicPartition
from tests.support.virtual_time import run_virtual, running_loop, virtual_host

PLACE: Final = TopicPartition("braid.logs.live.1", 0)
WAIT_SECONDS: Final = 100.0


class World:
    """A log of ten records, and a reader of it."""

    def __init__(self, latency: float = 0.001) -> None:
        self.host = virtual_host(running_loop(), 1)
        kafka = MemoryKafka(self.host.clock, latency=lambda: latency)
        self.east = kafka.add_cluster("east")
        self.cluster = kafka.process().cluster("east:9092", "")
        self.reader = RangeReader(self.host, self.cluster, "east", zone="", wait_seconds=WAIT_SECONDS)

    async def start(self) -> "World":
        await self.cluster.admin().create_topic(PLACE.topic, 1, 1, {})
        for number in range(10):
            self.east.append(PLACE, [NewRecord(self.host.clock.now_ms(), None, b"%d" % number, ())])
        return self

    async def read(self, start: int, end: int) -> tuple[list[int], list[tuple[int, int]]]:
        """Offsets of a range's records, and first and last offset of what cannot be read."""
        offsets: list[int] = []
        damaged: list[tuple[int, int]] = []
        self.reader.begin(PLACE, start, end)
        while (found := await self.reader.read(100)) is not None:
            offsets += [record.offset for record in found.records]
            damaged += [(each.first_offset, each.last_offset) for each in found.damaged]
        return offsets, damaged

    async def read_columns(self, start: int, end: int) -> tuple[list[int], list[tuple[int, int]]]:
        """The same, read as columns."""
        offsets: list[int] = []
        damaged: list[tuple[int, int]] = []
        self.reader.begin(PLACE, start, end)
        while (found := await self.reader.read_columns(100, [])) is not None:
            offsets += [offset for part in found.parts for offset in part.offsets.tolist()]
            damaged += [(each.first_offset, each.last_offset) for each in found.damaged]
        return offsets, damaged


def test_damaged_batches_and_what_is_no_batch_end_no_range(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        world = await World().start()
        world.east.damage(PLACE, 3)
        real, junk = Log.read, {6, 7}

        def read(self: Log, offset: int, limit: int, max_bytes: int) -> Read:
            if offset in junk:
                where = {"topic": PLACE.topic, "partition": "0", "offset": str(offset)}
                raise ClusterUnavailable("holds no batch", metadata=where)
            return real(self, offset, min([limit, *(at - offset for at in junk if at > offset)]), max_bytes)

        monkeypatch.setattr(Log, "read", read)
        assert await world.read(2, 9) == ([2, 4, 5, 8], [(3, 3), (6, 6), (7, 7)])
        assert await world.read(5, 8) == ([5], [(6, 6), (7, 7)])
        assert world.host.clock.elapsed() < 4 * (SPARK_NO_BATCH_SECONDS + 1)
        assert await world.read_columns(2, 9) == ([2, 4, 5, 8], [(3, 3), (6, 6), (7, 7)])
        assert await world.read_columns(5, 8) == ([5], [(6, 6), (7, 7)])
        await world.reader.close()

    run_virtual(scene())


def test_a_log_that_is_too_short_is_asked_only_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        world = await World(latency=0.0).start()
        asked = 0
        real = Log.read

        def read(self: Log, offset: int, limit: int, max_bytes: int) -> Read:
            nonlocal asked
            asked += 1
            assert asked < 1_000, "it spins"
            return real(self, offset, limit, max_bytes)

        monkeypatch.setattr(Log, "read", read)
        world.east.truncate(PLACE, 4)
        with pytest.raises(OffsetOutOfRange, match="are lost: the log ends at 4"):
            await world.read(6, 9)
        assert SPARK_SHORT_LOG_SECONDS < world.host.clock.elapsed() < SPARK_SHORT_LOG_SECONDS + 5
        await world.reader.close()

    run_virtual(scene())


def test_bytes_that_become_a_batch_in_time_are_not_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        world = await World().start()
        real = Log.read

        def read(self: Log, offset: int, limit: int, max_bytes: int) -> Read:
            if world.host.clock.elapsed() < SPARK_NO_BATCH_SECONDS - 2:
                where = {"topic": PLACE.topic, "partition": "0", "offset": str(offset)}
                raise ClusterUnavailable("holds no batch", metadata=where)
            return real(self, offset, limit, max_bytes)

        monkeypatch.setattr(Log, "read", read)
        assert await world.read(2, 9) == (list(range(2, 9)), [])
        await world.reader.close()

    run_virtual(scene())


def test_what_expired_or_is_not_there_is_told_not_waited_for() -> None:
    async def scene() -> None:
        world = await World().start()
        world.east.expire(PLACE, 4)
        with pytest.raises(OffsetOutOfRange, match=r"offsets 2 to 4 .* are lost"):
            await world.read(2, 9)
        before = world.host.clock.elapsed()
        with pytest.raises(OffsetOutOfRange, match=r"offsets 10 to 12 .* are lost"):
            await world.read(5, 12)
        assert world.host.clock.elapsed() - before < SPARK_SHORT_LOG_SECONDS + 3 * SPARK_DIAGNOSE_SECONDS
        await world.reader.close()

    run_virtual(scene())


def test_an_offset_that_never_comes_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        world = await World().start()
        monkeypatch.setattr(Log, "read", lambda self, offset, limit, max_bytes: Read((), (), offset))
        with pytest.raises(ClusterUnavailable, match="could not be read from offset 2"):
            await world.read(2, 9)
        assert WAIT_SECONDS <= world.host.clock.elapsed() < WAIT_SECONDS + 5
        await world.reader.close()

    run_virtual(scene())
