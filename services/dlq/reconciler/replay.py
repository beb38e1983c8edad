"""Runs one replay job while this replica leads: select, read, wait for tokens, begin, send, advance, and repeat.

Records may have been sent before the history says so. A batch that was begun is therefore sent again as a whole, and
counted as repeated. The runner checks its leadership before every batch and every retry. If it is killed or deposed, at
most one batch is sent twice. The rules are in `domain`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from braid.client.mesh import MeshOfStreams
from braid.client.producing.producer import Producer
from braid.client.records.outgoing import Copy, Receipt
from braid.client.telemetry.spans import Resending
from braid.kernel.errors import (
    BatchTooLarge,
    BraidError,
    ClusterUnavailable,
    DeadlineExceeded,
    DeliveryUnknown,
    NotFound,
    NotLeader,
    RecordTooLarge,
    Refused,
    Unavailable,
)
from braid.kernel.filters.grammar import Filter
from braid.kernel.limits.dlq import DLQ_INDEX_POLL_SECONDS, DLQ_KEY_BYTES_MAX, REPLAY_RETRY_SECONDS
from braid.kernel.ports import KafkaRecord, TopicPartition
from braid.runtime.replica import Replica
from braid.runtime.telemetry import DlqMetrics
from braid.telemetry.tracing import tracer
from services.dlq.codec.events import REPLAYS
from services.dlq.domain import policy
from services.dlq.domain.replay import Replay, State, created_spec
from services.dlq.index.letter_index import LetterIndex
from services.dlq.index.selection import next_batch
from services.dlq.index.tail import Tail
from services.dlq.model.channels import ClusterPlace
from services.dlq.model.events import Advance, BeginBatch, Command, FailReplay, FinishReplay, ReplaySpec, Skips
from services.dlq.model.filter import parse_filter
from services.dlq.model.letters import Letter, LetterPlace, original_headers, replay_headers
from services.dlq.model.sent_letters import SentLetter
from services.dlq.peers import ChannelFollower, Groups, Streams
from services.dlq.reconciler.cluster_clients import ClusterClients
from services.dlq.reconciler.copies import Copies
from services.dlq.reconciler.sent_places import SentPlaces


class Tools(NamedTuple):
    """Resources that all jobs of a replica share."""

    replica: Replica
    letters: LetterIndex
    tail: Tail
    follower: ChannelFollower
    copies: Copies
    clients: ClusterClients
    streams: Streams
    groups: Groups
    mesh: MeshOfStreams
    metrics: DlqMetrics


class _Batch(NamedTuple):
    """Records ready to send, the number of skipped letters by reason, and the targets where sent records lie, as far as
    known."""

    ready: Sequence[tuple[Letter, Copy]]
    skipped: Counter[str]
    sent: list[SentLetter]


class _Over(Exception):
    """Raised when this run has nothing more to do."""


class ReplayRun:
    """One job while it runs.

    Attributes:
        waits_for: Why it makes no progress, for people; '' while it does.
    """

    def __init__(self, tools: Tools, id: str) -> None:
        self.waits_for = ""
        self._id = id
        self._tools = tools
        self._host = tools.replica.host
        spec = created_spec(self._state())
        self._spec: ReplaySpec = spec
        self._destination = policy.destination_of(spec)
        self._filter: Filter = parse_filter(spec.filter, "spec.filter")
        self._batch_letters = policy.batch_letters(spec.rate_per_s)
        self._bucket = policy.TokenBucket(spec.rate_per_s, 2.0 * self._batch_letters, at=self._host.clock.elapsed())
        self._tracer = tracer()
        self._places = SentPlaces(
            self._host.clock, tools.clients, tools.follower, tools.groups, self._destination.stream
        )

    async def run(self) -> None:
        """Runs until the job is over or not running, or this replica no longer leads."""
        while True:
            try:
                await self._work()
            except (_Over, NotLeader):
                return
            except (Unavailable, DeadlineExceeded, DeliveryUnknown) as error:
                self.waits_for = str(error)
                await self._host.clock.sleep(REPLAY_RETRY_SECONDS)
            except Refused:  # paused, cancelled or ended just now
                return
            except BraidError as error:
                await self._give_up(error)
                return

    async def _work(self) -> None:
        await self._indexed()
        lanes = await self._tools.streams.lanes(self._destination.stream, "spec.destination")
        async with self._tools.mesh.producer(self._destination.stream) as producer:
            while True:
                self._require_running()
                await self._one_batch(producer, lanes)

    async def _give_up(self, error: BraidError) -> None:
        try:
            await self._execute(FailReplay(str(error)))
        except (Refused, Unavailable) as refusal:
            self._tools.replica.log.warning("replay not failed", replay=self._id, error=str(refusal))

    async def _indexed(self) -> None:
        """Waits until this replica's index holds every letter of the job."""
        while not self._tools.tail.reached(self._spec.stream, self._state().through):
            self._require_running()
            self.waits_for = "waits until the dead letters are indexed"
            await self._host.clock.sleep(DLQ_INDEX_POLL_SECONDS)
        self.waits_for = ""

    async def _one_batch(self, producer: Producer, lanes: frozenset[str]) -> None:
        replay = self._state()
        select = partial(next_batch, self._tools.letters, replay, self._filter, self._batch_letters)
        letters = await self._host.tasks.run_blocking(select)
        if not letters and replay.open is None:
            await self._execute(FinishReplay())
            raise _Over
        batch = await self._read(letters, lanes)
        begun = replay.open
        end, count = (begun.end, begun.letters) if begun else (letters[-1].place.cursor, len(letters))
        if count > len(letters):
            batch.skipped[policy.COPY_GONE] += count - len(letters)
        await self._turn(len(batch.ready))
        self.waits_for = ""
        if groups := {self._group(letter) for letter, _ in batch.ready} - {""}:
            await self._places.look(groups)  # before anything of the batch is written
        await self._execute(BeginBatch(end, count))
        again = await self._send(producer, batch)
        skips = [Skips(reason, letters) for reason, letters in sorted(batch.skipped.items())]
        await self._execute(Advance(count - batch.skipped.total(), again, skips, batch.sent))

    async def _turn(self, count: int) -> None:
        """Waits for the rate limit, and checks regularly whether the job was paused."""
        while (wait := self._bucket.wait_seconds(count, self._host.clock.elapsed())) > 0:
            await self._host.clock.sleep(min(wait, REPLAY_RETRY_SECONDS))
            self._require_running()
        self._bucket.take(count, self._host.clock.elapsed())

    # --- reading

    async def _read(self, letters: Sequence[Letter], lanes: frozenset[str]) -> _Batch:
        """Reads the records and separates those to send from those to skip. Waits for unreachable clusters."""
        skipped: Counter[str] = Counter()
        chosen: list[tuple[Letter, str]] = []
        for letter in letters:
            lane = policy.lane_for(letter, self._destination, lanes)
            if reason := policy.why_skip(letter, self._spec, lane):
                skipped[reason] += 1
            else:
                chosen.append((letter, lane))
        records = await self._records([letter for letter, _ in chosen])
        ready: list[tuple[Letter, Copy]] = []
        for letter, lane in chosen:
            record = records.get(letter)
            if record is None:
                skipped[policy.ORIGIN_GONE if letter.cut else policy.COPY_GONE] += 1
                continue
            original = record.headers if letter.cut else original_headers(record.headers)
            headers = replay_headers(letter, original, self._group(letter))
            ready.append((letter, Copy(record.value, record.key, lane, headers)))
        return _Batch(ready, skipped, [])

    def _group(self, letter: Letter) -> str:
        return letter.group if self._destination.origin and not self._spec.broadcast else ""

    async def _records(self, letters: Sequence[Letter]) -> Mapping[Letter, KafkaRecord]:
        clusters = self._tools.follower.view.clusters if self._tools.follower.view else {}
        wanted: dict[tuple[ClusterPlace, TopicPartition], dict[int, list[Letter]]] = {}
        for letter in letters:
            cluster, partition, offset = _where(letter)
            if cluster in clusters:
                place = wanted.setdefault((clusters[cluster], partition), {})
                place.setdefault(offset, []).append(letter)  # several groups may have given up one record
        found: dict[Letter, KafkaRecord] = {}
        for (address, partition), letters_at in wanted.items():
            for offset, record in (await self._read_from(address, partition, sorted(letters_at))).items():
                good = [each for each in letters_at[offset] if not each.cut or _is_original(record, each)]
                found |= dict.fromkeys(good, record)
        return found

    async def _read_from(
        self, place: ClusterPlace, partition: TopicPartition, offsets: Sequence[int]
    ) -> Mapping[int, KafkaRecord]:
        while True:
            self._require_running()
            try:
                return await self._tools.copies.read(place, partition, offsets)
            except ClusterUnavailable as error:
                self.waits_for = f"waits for the cluster of {partition.topic}: {error}"
                await self._host.clock.sleep(REPLAY_RETRY_SECONDS)

    # --- sending

    async def _send(self, producer: Producer, batch: _Batch) -> int:
        """Sends until every record's outcome is known; returns how many may have arrived more than once.

        Raises:
            NotFound: the destination no longer exists.
        """
        if self._tracer is None:
            return await self._send_all(producer, batch, {})
        traces = {letter.place: Resending(self._tracer, producer.stream, copy.headers) for letter, copy in batch.ready}
        ready = [(letter, copy._replace(headers=traces[letter.place].headers)) for letter, copy in batch.ready]
        try:
            return await self._send_all(producer, batch._replace(ready=ready), traces)
        finally:
            for each in traces.values():
                each.ended(None)

    async def _send_all(self, producer: Producer, batch: _Batch, traces: dict[LetterPlace, Resending]) -> int:
        """Sends as `_send` does; ends the traces of records with a known outcome and removes them."""
        left = list(batch.ready)
        again: set[str] = set()
        while left:
            self._tools.replica.require_leader()
            outcomes = await producer.send_copies([copy for _, copy in left])
            failed: list[tuple[Letter, Copy]] = []
            for (letter, copy), outcome in zip(left, outcomes, strict=True):
                if isinstance(outcome, Receipt):
                    self._tools.metrics.replay_sent.inc()
                    if self._group(letter) and (sent := self._places.sent(letter, outcome)) is not None:
                        batch.sent.append(sent)
                elif isinstance(outcome, RecordTooLarge | BatchTooLarge):
                    batch.skipped[policy.TOO_LARGE] += 1
                elif isinstance(outcome, NotFound) and not producer.refused:
                    batch.skipped[policy.NO_LANE] += 1
                elif isinstance(outcome, NotFound) or producer.refused:
                    raise outcome
                else:
                    if isinstance(outcome, DeliveryUnknown):
                        again.add(str(letter.place))
                    self.waits_for = str(outcome)
                    failed.append((letter, copy))
                    continue
                if letter.place in traces:
                    traces.pop(letter.place).ended(outcome)
            left = failed
            if left:
                await self._host.clock.sleep(REPLAY_RETRY_SECONDS)
                self._require_running()
        return len(again)

    # --- the history

    def _state(self) -> Replay:
        return self._tools.replica.aggregates.state(REPLAYS, self._id)

    def _require_running(self) -> None:
        """Raises `NotLeader`; `_Over` when the job is paused, cancelled or ended."""
        self._tools.replica.require_leader()
        if self._state().state is not State.RUNNING:
            raise _Over

    async def _execute(self, command: Command) -> None:
        replica = self._tools.replica
        await replica.aggregates.execute(REPLAYS, self._id, command, actor=replica.instance)


def _where(letter: Letter) -> tuple[str, TopicPartition, int]:
    """The place to read the record from: the copy, or the original of a truncated copy."""
    if letter.cut:
        origin = letter.origin
        return origin.cluster, TopicPartition(origin.topic, origin.partition), origin.offset
    return letter.cluster, TopicPartition(letter.topic, letter.place.partition), letter.place.offset


def _is_original(record: KafkaRecord, letter: Letter) -> bool:
    """Whether the record at the origin is the one that failed, not one of a recreated or truncated log.

    A record without an id must also have the same time and key.
    """
    if len(record.value or b"") != letter.value_bytes:
        return False
    if letter.origin.id:
        return letter.origin.id.encode() in [value for name, value in record.headers if name == "braid-id"]
    key = None if record.key is None else record.key[:DLQ_KEY_BYTES_MAX]
    return (record.timestamp, key) == (letter.origin.timestamp_ms, letter.key)
