"""Reads windows of logs from one cluster, as far as a budget goes. A cluster that does not answer is told as absent."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from braid.kernel.errors import BraidError, OffsetOutOfRange
from braid.kernel.ids import SEAL_CANARY
from braid.kernel.ports import (
    DamagedBatch,
    FetchedRecords,
    Host,
    Isolation,
    KafkaCluster,
    KafkaRecord,
    OffsetAt,
    TopicPartition,
)
from braid.rpc.documents import Document
from console.server.limits import (
    MESSAGES_CONTACT_SECONDS,
    MESSAGES_FETCH_RECORDS,
    MESSAGES_FETCH_SECONDS,
    MESSAGES_PARTITION_BYTES,
)
from console.server.messages.asked import Asked
from console.server.messages.budget import Budget
from console.server.messages.logs import Found, Log, Window

Take = Callable[[Log, Sequence[KafkaRecord]], Awaitable[Sequence[Found]]]
_SILENT: Final = f"it did not answer within {MESSAGES_CONTACT_SECONDS:g} s"
_LOOK: Final = "look at the cluster's page, and ask again"
_CUTS_MAX: Final = 3  # times that retention may overtake reading before a log is left alone


class Damage(NamedTuple):
    """A batch that nobody can decode, and its log."""

    log: Log
    batch: DamagedBatch


class ClusterLogs:
    """The logs of one answer that lie on one cluster.

    Args:
        host: Clock of this process.
        cluster: The way to it.
        logs: What is read of it.
        budget: Of the whole answer.
        take: Makes rows of those records of a log that match.
    """

    def __init__(self, host: Host, cluster: KafkaCluster, logs: Sequence[Log], budget: Budget, take: Take) -> None:
        self._host = host
        self._logs = {each.at: each for each in logs}
        self._budget = budget
        self._take = take
        self._admin = cluster.admin()
        self._fetcher = cluster.fetcher(
            max_partition_bytes=MESSAGES_PARTITION_BYTES, isolation=Isolation.READ_COMMITTED, client_rack=""
        )
        self._cuts = 0
        self.damaged: list[Damage] = []
        self.error: Document | None = None

    async def open(self, asked: Asked) -> None:
        """Connects, and finds where each log begins and ends. What cannot be read is absent, with the reason."""
        try:
            async with asyncio.timeout(min(MESSAGES_CONTACT_SECONDS, self._budget.seconds_left)):
                await self._find_bounds(asked)
                await self._fetcher.start()
        except TimeoutError:
            self._lose(_SILENT, _LOOK)
        except BraidError as error:
            self._lose(error.message, error.remedy)

    async def read(self, room: int) -> None:
        """Reads the next window of each log whose next record is not known."""
        waiting = [each for each in self._logs.values() if each.waits]
        room = min(room, self._budget.room(len(waiting)))
        await self._read({each.at: each.next_window(room) for each in waiting})

    async def read_one(self, log: Log) -> None:
        """Reads the next record of one log, however large it is."""
        await self._read({log.at: log.next_window(1)}, whole=True)

    async def close(self) -> None:
        """Frees the connections."""
        await self._fetcher.close()
        await self._admin.close()

    def has(self, log: Log) -> bool:
        """Whether a log lies here."""
        return self._logs.get(log.at) is log

    async def _find_bounds(self, asked: Asked) -> None:
        topics = await self._admin.describe_topics(sorted({each.topic for each in self._logs}))
        for at, log in self._logs.items():
            found = topics.get(at.topic)
            if found is None:
                log.absent = "its topic is gone"
            elif at.partition >= len(found.leaders) or found.leaders[at.partition] < 0:
                log.absent = "no broker leads it"
        present = [at for at, log in self._logs.items() if not log.absent]
        starts = await self._admin.offsets_at(dict.fromkeys(present, OffsetAt.EARLIEST))
        ends = await self._admin.offsets_at(dict.fromkeys(present, OffsetAt.LATEST))
        timed = present if asked.start.kind == "time" and not asked.positions else []
        times = await self._admin.offsets_at(dict.fromkeys(timed, asked.start.value)) if timed else {}
        for at in present:
            log = self._logs[at]
            log.start, log.end = starts[at], max(starts[at], ends[at])
            begin = log.end if log.backward else log.start
            if asked.start.kind == "offset":
                begin = asked.start.value
            begin = asked.positions.get(log.key, times.get(at, begin))
            log.began = log.scanned = min(max(begin, log.start), log.end)

    async def _read(self, windows: Mapping[TopicPartition, Window], *, whole: bool = False) -> None:
        """Reads windows side by side. Those that could not be read as a whole count only where records ascend."""
        self._fetcher.assign({})
        reads = {at: _Reading(window, window.low) for at, window in windows.items()}
        self._fetcher.assign({at: window.low for at, window in windows.items()})
        moved_at = self._host.clock.elapsed()
        while any(not each.done for each in reads.values()) and (whole or not self._budget.overdrawn):
            if await self._fetch(reads):
                moved_at = self._host.clock.elapsed()
            elif denied := self._fetcher.contact().denied:
                self._give_up(denied, _LOOK, reads)
            elif self._host.clock.elapsed() - moved_at >= MESSAGES_CONTACT_SECONDS:
                self._leave_stalled(reads)
            await asyncio.sleep(0)
            if not self._budget.seconds_left:
                break
        for at, each in reads.items():
            log = self._logs[at]
            if each.complete:
                log.read(each.window, each.found)
            elif not log.backward and each.next > each.window.low:
                log.read(Window(each.window.low, each.next), each.found)
        self._fetcher.assign({})

    async def _fetch(self, reads: "Mapping[TopicPartition, _Reading]") -> Sequence[FetchedRecords]:
        seconds = min(MESSAGES_FETCH_SECONDS, max(0.01, self._budget.seconds_left))
        try:
            fetched = await self._fetcher.fetch(MESSAGES_FETCH_RECORDS, seconds)
        except OffsetOutOfRange as error:
            await self._cut(TopicPartition(error.metadata["topic"], int(error.metadata["partition"])), reads)
            return ()
        except BraidError as error:
            self._give_up(error.message, error.remedy, reads)
            return ()
        for part in fetched:
            reading, log = reads[part.partition], self._logs[part.partition]
            wanted = [each for each in part.records if reading.next <= each.offset < reading.window.high]
            for record in wanted:
                self._budget.count(record)
            reading.found.extend(await self._take(log, [each for each in wanted if not _is_canary(each)]))
            self.damaged.extend(Damage(log, each) for each in part.damaged if each.first_offset < reading.window.high)
            reading.next = min(part.next_offset, reading.window.high)
        if fetched:
            self._follow(reads)
        return fetched

    def _follow(self, reads: "Mapping[TopicPartition, _Reading]") -> None:
        self._fetcher.assign({at: each.next for at, each in reads.items() if not each.done})

    async def _cut(self, at: TopicPartition, reads: "Mapping[TopicPartition, _Reading]") -> None:
        """A log no longer holds what was to be read: retention took it, or it lost its end."""
        log, reading = self._logs[at], reads[at]
        self._cuts += 1
        try:
            async with asyncio.timeout(MESSAGES_CONTACT_SECONDS):
                start = (await self._admin.offsets_at({at: OffsetAt.EARLIEST}))[at]
        except TimeoutError:
            self._give_up(_SILENT, _LOOK, reads)
            return
        except BraidError as error:
            self._give_up(error.message, error.remedy, reads)
            return
        if self._cuts > _CUTS_MAX or start <= reading.next:
            log.absent = f"offset {reading.next} is not in it any more"
            reading.given_up = True
        else:
            log.cut(start)
            reading.window = Window(min(start, reading.window.high), reading.window.high)
            reading.next = reading.window.low
        self._fetcher.assign({})  # a position is taken over only by a partition that was not assigned
        self._follow(reads)

    def _leave_stalled(self, reads: "Mapping[TopicPartition, _Reading]") -> None:
        for at, each in reads.items():
            if not each.done:
                self._logs[at].absent = f"offset {each.next} did not come within {MESSAGES_CONTACT_SECONDS:g} s"
                each.given_up = True

    def _give_up(self, reason: str, remedy: str, reads: "Mapping[TopicPartition, _Reading]") -> None:
        self._lose(reason, remedy)
        for each in reads.values():
            each.given_up = True

    def _lose(self, reason: str, remedy: str) -> None:
        self.error = {"reason": reason, "remedy": remedy}
        for each in self._logs.values():
            each.absent = each.absent or reason


class _Reading:
    """A window that is being read.

    Attributes:
        window: What is read.
        next: The offset after the last one that was read.
        found: What matched so far.
        given_up: Whether the rest will not come.
    """

    def __init__(self, window: Window, next: int) -> None:
        self.window = window
        self.next = next
        self.found: list[Found] = []
        self.given_up = False

    @property
    def complete(self) -> bool:
        """Whether all of it was read."""
        return self.next >= self.window.high

    @property
    def done(self) -> bool:
        """Whether nothing more is expected."""
        return self.complete or self.given_up


def _is_canary(record: KafkaRecord) -> bool:
    return record.value == SEAL_CANARY and record.key is None and not record.headers
