"""Fetches partitions of a real cluster: one request under way per broker, answers kept undecoded until asked for.

A broker holds a request until one of its partitions has something, and meanwhile answers nothing else on the
connection. Partitions that want data while it does (newly assigned ones, or one whose records were all taken) are asked
for beside it, on a second connection, and not made to wait.

Positions are the caller's and ours, never a group's. A cluster that is away yields nothing; when it is back, fetching
goes on by itself from where it was.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from aiokafka.protocol.fetch import FetchRequest

from braid.kafka.batches.batch import Inflater, newest_epoch
from braid.kafka.errors import ACCESS_DENIED, OFFSET_OUT_OF_RANGE, error_for
from braid.kafka.fetching.chunk import Chunk
from braid.kafka.fetching.contact import Owing
from braid.kafka.fetching.epoch_checks import EpochChecks
from braid.kafka.fetching.fetch_state import Assigned
from braid.kafka.fetching.lane_turns import FetchTurns
from braid.kafka.fetching.large_openings import LargeOpenings
from braid.kafka.fetching.leaders import AGE_SECONDS, BACKOFF_SECONDS, Leaders
from braid.kafka.fetching.request_line import RequestLine
from braid.kafka.permissions import Need
from braid.kafka.protocol.epochs import by_topic
from braid.kafka.protocol.wire import Wire
from braid.kernel.errors import ClusterAccessDenied, ClusterUnavailable
from braid.kernel.limits.kafka import (
    FETCH_AHEAD_BYTES,
    INFLATED_TURN_BYTES,
    KAFKA_CLOSE_SECONDS,
    KAFKA_FETCH_BESIDE_MS,
    KAFKA_FETCH_BYTES,
    KAFKA_FETCH_HELD_SECONDS,
    KAFKA_FETCH_WAIT_MS,
    KAFKA_NEAR_REPLICA_SECONDS,
)
from braid.kernel.ports import (
    NO_LANES,
    UNKNOWN_LOGS,
    Contact,
    FetchedColumns,
    FetchedRecords,
    FetchLane,
    Isolation,
    KnownLog,
    TopicPartition,
)

_SERVED = (0, OFFSET_OUT_OF_RANGE)  # codes of a broker that leads the partition
_Fetched = TypeVar("_Fetched", FetchedRecords, FetchedColumns)


class AioFetcher:
    """`KafkaFetcher` over Fetch requests to leaders (or, by rack, to nearer replicas)."""

    def __init__(
        self,
        wire: Wire,
        beside: Wire,
        *,
        max_partition_bytes: int,
        isolation: Isolation,
        client_rack: str,
        keep_damaged_bytes: int = 0,
    ) -> None:
        """`beside` makes connections of its own: to ask who leads, and for data beside a request that is held."""
        self._wire = wire
        self._line = RequestLine(wire, KAFKA_FETCH_WAIT_MS)
        self._beside = RequestLine(beside, KAFKA_FETCH_BESIDE_MS)
        self._max_partition_bytes = max_partition_bytes
        self._isolation = isolation
        self._client_rack = client_rack
        self._rack_again_at = 0.0  # after a nearer replica failed, until when leaders are not told where we are
        self._keep_damaged_bytes = keep_damaged_bytes
        self._assigned: dict[TopicPartition, Assigned] = {}
        self._turns = FetchTurns()
        self._pump: asyncio.Task[None] | None = None
        self._wake_pump = asyncio.Event()
        self._arrived = asyncio.Event()
        self._inflater = Inflater()
        self._openings = LargeOpenings(self._arrived.set)
        self._owing = Owing()
        self._leaders = Leaders(beside, self._owing, self._leaders_told)
        self._checks = EpochChecks(beside, self._leaders, self._checked)
        self._starting = False

    async def start(self) -> None:
        """See `KafkaFetcher.start`."""
        self._starting = True
        self._note_wants()
        while True:
            try:
                await self._leaders.ask([])
                break
            except ClusterUnavailable:
                await asyncio.sleep(BACKOFF_SECONDS)
        self._starting = False
        self._note_wants()
        self._pump = asyncio.create_task(self._run(), name="kafka-fetcher")

    def assign(
        self,
        positions: Mapping[TopicPartition, int],
        lanes: Mapping[TopicPartition, FetchLane] = NO_LANES,
        known: Mapping[TopicPartition, KnownLog] = UNKNOWN_LOGS,
    ) -> None:
        """See `KafkaFetcher.assign`."""
        kept = self._assigned
        self._turns.assign(lanes)
        self._assigned = {
            partition: kept.get(partition) or self._new(partition, at, known.get(partition, KnownLog()))
            for partition, at in positions.items()
        }
        self._note_wants()
        self._wake_pump.set()

    def _new(self, partition: TopicPartition, position: int, known: KnownLog) -> Assigned:
        return Assigned(position, known.end, known.leader_epoch, self._leaders.epoch_of(partition))

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """See `KafkaFetcher.pause`."""
        for partition in partitions:
            if partition in self._assigned:
                self._assigned[partition].paused = True
        self._note_wants()

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """See `KafkaFetcher.resume`."""
        for partition in partitions:
            if partition in self._assigned:
                self._assigned[partition].paused = False
        self._note_wants()
        self._wake_pump.set()
        self._arrived.set()

    async def fetch(self, max_records: int, timeout_seconds: float) -> Sequence[FetchedRecords]:
        """See `KafkaFetcher.fetch`.

        Raises:
            ClusterUnavailable: a broker answers with what is no batch; `metadata` names where. It is asked again later.
        """
        return await self._wait(max_records, timeout_seconds, lambda chunk, limit: chunk.take(limit, self._inflater))

    async def fetch_columns(
        self, max_records: int, timeout_seconds: float, names: Sequence[str]
    ) -> Sequence[FetchedColumns]:
        """See `KafkaFetcher.fetch_columns`; raises what `fetch` does."""
        inflater, alone = self._inflater, self._turns.is_alone
        return await self._wait(
            max_records, timeout_seconds, lambda chunk, most: chunk.take_columns(most, inflater, names, alone())
        )

    def contact(self) -> Contact:
        """See `KafkaFetcher.contact`."""
        due = [*self._line.due(), *self._beside.due()]
        asking = self._leaders.asking_since
        return self._owing.contact(due if asking is None else [*due, asking], self._now())

    async def close(self) -> None:
        """See `KafkaFetcher.close`."""
        self._assigned = {}
        tasks = [*self._line.tasks, *self._beside.tasks, *self._openings.tasks]
        tasks += [*self._checks.tasks, *self._leaders.close()]
        tasks += [self._pump] if self._pump is not None else []
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=KAFKA_CLOSE_SECONDS)
        await self._wire.close()
        await self._beside.wire.close()

    async def _wait(
        self, max_records: int, timeout_seconds: float, take: Callable[[Chunk, int], _Fetched]
    ) -> Sequence[_Fetched]:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                while not (fetched := self._collect(max_records, take)):
                    if self._inflater.left <= 0:  # what was opened brought nothing; others have not had their turn
                        await asyncio.sleep(0)
                        continue
                    self._arrived.clear()
                    await self._arrived.wait()
                return fetched
        return []

    def _collect(self, max_records: int, take: Callable[[Chunk, int], _Fetched]) -> list[_Fetched]:
        if self._pump is not None and self._pump.done() and not self._pump.cancelled():
            self._pump.result()  # a fault of ours: let it be seen
        self._turns.offer(self._find_ready())
        fetched: list[_Fetched] = []
        self._inflater.left = INFLATED_TURN_BYTES
        left = max_records
        while left > 0 and self._inflater.left > 0 and (turn := self._turns.next(left)) is not None:
            partition, limit = turn
            state = self._assigned[partition]
            chunk = state.chunk
            assert chunk is not None, "it was ready"
            taken = take(chunk, limit)
            left -= taken.size
            if self._after_taking(partition, state, chunk):
                fetched.append(taken)
            self._turns.took(taken.size, more=taken.size == limit and state.chunk is chunk and not chunk.large)
        return fetched

    def _find_ready(self) -> list[TopicPartition]:
        """Returns the partitions from which records can be taken; raises the failure of one before them."""
        ready: list[TopicPartition] = []
        for partition, state in self._assigned.items():
            if (
                state.paused
                or (state.chunk is None and state.failure is None)
                or self._openings.is_under_way(partition)
            ):
                continue
            if state.unchecked and state.failure is None:
                continue
            if state.failure is None:
                ready.append(partition)
            elif not ready:
                failure, state.failure = state.failure, None
                state.not_before = self._now() + BACKOFF_SECONDS
                self._wake_pump.set()
                raise failure
        return ready

    def _after_taking(self, partition: TopicPartition, state: Assigned, chunk: Chunk) -> bool:
        """Notes how far a partition's chunk was decoded; returns whether it moved on."""
        moved = chunk.next_offset != state.position
        state.position, state.leader_epoch = chunk.next_offset, chunk.leader_epoch
        if chunk.large:
            self._openings.begin(partition, chunk)
        if chunk.used_up:
            state.chunk, state.suspect, state.failure = None, chunk.suspect, chunk.failure
            self._wake_pump.set()
            if chunk.failure is not None:
                self._arrived.set()
        if state.unchecked:
            self._wake_pump.set()
        # Whoever was served goes to the end, so that one busy partition does not starve the rest.
        self._assigned[partition] = self._assigned.pop(partition)
        return moved

    async def _run(self) -> None:
        """Keeps one request for each broker under way for partitions that want data, and at most one beside it."""
        while True:
            self._wake_pump.clear()
            self._leaders.refresh(self._assigned)
            now = self._now()
            self._checks.begin(self._assigned, now)
            look_at = now + AGE_SECONDS
            for broker, partitions in self._wanted_by_broker(now).items():
                held_at = self._line.since(broker, now) + KAFKA_FETCH_HELD_SECONDS
                if self._line.is_free(broker):
                    self._ask(self._line, broker, partitions, now)
                elif now < held_at:
                    look_at = min(look_at, held_at)
                elif self._beside.is_free(broker):
                    self._ask(self._beside, broker, partitions, now)
            waiting = any(state.not_before > now for state in self._assigned.values())
            if waiting or self._leaders.unknown(self._assigned):
                look_at = min(look_at, now + BACKOFF_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(look_at):
                    await self._wake_pump.wait()

    def _ask(self, line: RequestLine, broker: int, partitions: Sequence[TopicPartition], now: float) -> None:
        # Looked up now: by the time the task first runs, some may not be assigned any more.
        asked = {partition: self._assigned[partition] for partition in partitions}
        for state in asked.values():
            state.asked = True
        line.begin(broker, self._request(line, broker, asked, now), now)

    def _note_wants(self) -> None:
        wanted = self._starting or any(not state.paused for state in self._assigned.values())
        self._owing.wants(self._now(), anything=wanted)

    def _leaders_told(self) -> None:
        if all(state.paused or self._leaders.of(at) < 0 for at, state in self._assigned.items()):
            self._owing.excused()
        for partition, state in self._assigned.items():
            state.seen_epoch = max(state.seen_epoch, self._leaders.epoch_of(partition))
        self._wake_pump.set()

    def _checked(self) -> None:
        """Continues after logs were compared with what is known of them: with their records, or an error."""
        self._arrived.set()
        self._wake_pump.set()

    def _wanted_by_broker(self, now: float) -> dict[int, list[TopicPartition]]:
        ahead: dict[str, int] = defaultdict(int)
        wanting: list[TopicPartition] = []
        for partition, state in self._assigned.items():
            if state.chunk is None:
                if state.wants_data(now):
                    wanting.append(partition)
            elif not state.paused:
                ahead[self._turns.lane(partition)] += state.chunk.size_bytes
        wanted: dict[int, list[TopicPartition]] = defaultdict(list)
        for partition in self._turns.in_order(wanting):
            state, leader = self._assigned[partition], self._leaders.of(partition)
            if leader >= 0 and ahead[self._turns.lane(partition)] < FETCH_AHEAD_BYTES:
                wanted[state.replica if state.replica >= 0 else leader].append(partition)
        return wanted

    async def _request(
        self, line: RequestLine, broker: int, asked: Mapping[TopicPartition, Assigned], since: float
    ) -> None:
        offsets = {partition: state.position for partition, state in asked.items()}
        try:
            answer = await line.wire.ask(broker, self._fetch_request(offsets, line.wait_ms))
            self._note_answer({code for _, told in answer.topics for _, code, *_ in told})
            for topic, told in answer.topics:
                for number, code, end, _, _, aborted, replica, data in told:
                    partition = TopicPartition(topic, number)
                    state = asked.get(partition)
                    # Not assigned any more, or again at another place: the answer is nobody's.
                    if state is not None and self._assigned.get(partition) is state:
                        self._settle(partition, state, code, end, aborted or (), data or b"")
                        state.replica = replica if replica >= 0 and not code else -1 if code else state.replica
            await line.hold(broker, answer)
        except ClusterUnavailable as error:
            if isinstance(error, ClusterAccessDenied):
                self._owing.refused(error.message)
            else:
                self._owing.in_vain(min(since + line.wait_ms / 1_000, self._now()))
            self._leaders.forget(asked, ask=True)
            if any(state.replica == broker for state in asked.values()):
                self._rack_again_at = self._now() + KAFKA_NEAR_REPLICA_SECONDS
            for state in asked.values():
                state.replica = -1
                state.not_before = self._now() + BACKOFF_SECONDS
        finally:
            for state in asked.values():
                state.asked = False
            line.end(broker)
            self._wake_pump.set()

    def _note_answer(self, codes: Collection[int]) -> None:
        """Notes an answer. One that only says other brokers lead shows a live broker, but serves no record."""
        if not codes or any(code in _SERVED for code in codes):
            self._owing.answered(self._now())
        else:
            self._owing.excused()

    def _fetch_request(self, offsets: Mapping[TopicPartition, int], wait_ms: int) -> FetchRequest:
        topics = by_topic({partition: (offset, self._max_partition_bytes) for partition, offset in offsets.items()})
        return FetchRequest(
            wait_ms,
            1,
            KAFKA_FETCH_BYTES,
            self._isolation.value,
            topics,
            rack_id=self._client_rack if self._now() >= self._rack_again_at else "",
        )

    def _settle(
        self,
        partition: TopicPartition,
        state: Assigned,
        code: int,
        end: int,
        aborted: Sequence[tuple[int, int]],
        data: bytes,
    ) -> None:
        """Handles one partition's part of an answer."""
        if code == OFFSET_OUT_OF_RANGE and state.replica < 0:  # a follower that lags knows nothing of the log's end
            state.fail(partition, "lies outside the log")
            self._arrived.set()
        elif code:
            if code in ACCESS_DENIED:
                denied = error_for(code, f"topic {partition.topic}", Need("Read", partition.topic))
                self._owing.refused(denied.message)
            # Most often a leader that moved, or a topic that is gone: look again, soon but not at once.
            self._leaders.forget([partition], ask=False)
            state.not_before = self._now() + BACKOFF_SECONDS
        elif data:
            self._turns.received(partition, len(data))
            chunk = Chunk(
                partition,
                state.position,
                data,
                aborted,
                self._isolation,
                end=end,
                suspect=state.suspect,
                leader_epoch=state.leader_epoch,
                keep_damaged_bytes=self._keep_damaged_bytes,
            )
            state.seen_epoch = max(state.seen_epoch, newest_epoch(data, beyond=state.position < state.known_end))
            state.chunk = chunk
            self._arrived.set()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
