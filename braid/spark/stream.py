"""Streaming reads: the planner of a query is a member of the group, its leases are what the query reads.

Spark calls everything but `read` in one planner process a query, from its main thread, in the order
latestOffset(N+1) → commit(N) → partitions(N+1); after a restart with an unfinished batch `partitions` comes first. The
last batch is never committed, so `latestOffset(start)` counts as the sign that everything up to `start` is done. The
checkpoint is the truth; the group's committed progress follows it.

States of a batch's part of a lease:

    offered ──latestOffset──▶ handed out ──latestOffset(start ≥ its end) or commit──▶ done ──▶ committed as an envelope
                                  └─ the query ends: pending work, planned again from the checkpoint
"""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from braid.client.consumer_settings import ConsumerSettings, Start
from braid.client.mesh import Mesh, connect, own_client_id
from braid.client.planning.planned_lease import Offer
from braid.client.planning.planner import PlannerSession
from braid.client.reading.channel_addresses import ChannelPlace, channel_places
from braid.host.system import system_host
from braid.kernel.errors import Invalid, NotFound, OffsetOutOfRange, Unavailable
from braid.kernel.ids import ChannelId, LeaseId
from braid.kernel.limits.planning import (
    SPARK_CLOSE_SECONDS,
    SPARK_SETTLE_POLL_SECONDS,
    SPARK_SETTLE_SECONDS,
    SPARK_SHORT_LOG_SECONDS,
)
from braid.kernel.ports import Host
from braid.spark.batch import RangePartition
from braid.spark.limits import SPARK_PLAN_RETRY_SECONDS, SPARK_RETIRED_LOOK_SECONDS, SPARK_TASK_ROWS_MIN
from braid.spark.loop import process_loop
from braid.spark.options import UNNAMED, ReadOptions
from braid.spark.plan import LogRange, gather, split
from braid.spark.positions import Json, LeaseBatch, Positions
from braid.spark.spans import BatchSpans, flush_spans
from braid.spark.worker import read_ranges

_log = logging.getLogger("braid.spark")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans in the query's planner process, reads in workers; holds nothing but its options until it is asked."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def initialOffset(self) -> Json:
        """Returns an empty position: each lease begins at the group's committed progress, read when it is held."""
        return self._empty().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Returns the limit that `maxOffsetsPerTrigger` sets."""
        rows_max = self._options.max_offsets_per_trigger
        return ReadMaxRows(rows_max) if rows_max else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Fixes where this run ends: at the present ends of this member's logs."""
        planner = _planner(self._options)
        process_loop().call(planner.fix_ends())

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:
        """Returns the end of the next batch; `start` itself when there is nothing to read.

        Everything up to `start` is done.
        """
        begun = self._parsed(start)
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        end = process_loop().call(_planner(self._options).advance(begun, rows_max))
        return start if end.nothing_since(begun) else end.to_json()

    def partitions(self, start: Mapping[str, object], end: Mapping[str, object]) -> Sequence[InputPartition]:
        """Returns the tasks of a batch, from its end alone."""
        begun, ended = self._parsed(start), self._parsed(end)
        if begun == ended:
            return []
        wanted = self._options.min_partitions
        planner = _planner(self._options)
        ranges = split(process_loop().call(planner.ranges(ended)), wanted)
        trace = planner.spans.begin(ranges)
        return [RangePartition(task, trace) for task in gather(ranges, 0 if wanted else SPARK_TASK_ROWS_MIN)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one task; runs in a worker."""
        if not isinstance(partition, RangePartition):
            return read_ranges(self._options, ())
        return read_ranges(self._options, partition.value, partition.trace)

    def commit(self, end: Mapping[str, object]) -> None:
        """Marks everything up to `end` as done."""
        process_loop().call(_planner(self._options).finish(self._parsed(end)))

    def stop(self) -> None:
        """The query ended (Spark calls this when it lost the planner's peer; otherwise it sends SIGTERM)."""
        _close()

    def _empty(self) -> Positions:
        return Positions(self._options.mesh.stream, self._options.group)

    def _parsed(self, found: Mapping[str, object]) -> Positions:
        return Positions.parse(found, self._options.mesh.stream, self._options.group)


class Planner:
    """The query's member of the group, which plans its batches. Its methods run on the process's loop.

    Attributes:
        spans: Of its batches.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self.process = os.getpid()
        self._mesh: Mesh | None = None
        self._session: PlannerSession | None = None
        self._until: dict[LeaseId, int] | None = None
        self._places: dict[str, ChannelPlace] = {}
        self._short_since: dict[LeaseId, float] = {}
        self._dropped: dict[LeaseId, LeaseBatch] = {}  # what checkpoints say of logs that are no more
        self._missing: set[ChannelId] = set()
        self._looked_at = float("-inf")
        self.spans = BatchSpans(options)

    def serves(self, options: ReadOptions) -> bool:
        """Whether the planner was made for these options."""
        return self._options == options

    async def advance(self, begun: Positions, rows_max: int | None) -> Positions:
        """Hands out the next batch and returns its end; `nothing_since(begun)` holds when there is nothing to read.

        Raises:
            OffsetOutOfRange: a log is not the one the checkpoint speaks of, or shorter, or lost records before they
                were read, and `failOnDataLoss` is true.
            BraidError: this member cannot go on.
        """
        begun = begun.without(
            frozenset(), {lease for lease, at in self._dropped.items() if begun.batches.get(lease) == at}
        )
        session = await self._opened(begun)
        session.done(begun.done)
        self.spans.end(done=True)
        session.withdraw()
        begun = begun.without(await self._retired(begun))
        offers = await self._offers(session, begun)
        lost = self._lost(session, begun, offers)
        begun = begun.without(frozenset(), lost)
        offers = {
            lease: offer
            for lease, offer in offers.items()
            if lease not in self._short_since and offer.start <= offer.end
        }
        end = begun.advance(offers, rows_max, self._until)
        if end is not begun:
            session.planned(
                {lease: (batch.start, batch.end) for lease, batch in end.batches.items() if batch.start < batch.end}
            )
        return end

    async def finish(self, end: Positions) -> None:
        """Marks everything up to a position as done."""
        session = await self._opened(end)
        session.done(end.done)
        session.check()
        self.spans.end(done=True)

    async def fix_ends(self) -> None:
        """Plans nothing in this run beyond the present ends, or of leases that come later."""
        session = await self._opened(None)
        await session.settle()
        offers = await self._offers_of_all(session, lambda offers: {held.id for held in session.held} <= offers.keys())
        self._until = {lease: offer.end for lease, offer in offers.items()}

    async def _offers(self, session: PlannerSession, begun: Positions) -> Mapping[LeaseId, Offer]:
        """Returns what the leases offer; a run that is to end waits a while for leases that are still missing."""
        ends, until = begun.ends, self._until
        if until is None:
            offers: Mapping[LeaseId, Offer] = await session.offers()
        else:

            def answered(offers: Mapping[LeaseId, Offer]) -> bool:
                held = {held.id for held in session.held}
                return all(
                    lease in offers or lease not in held or ends.get(lease, 0) >= end for lease, end in until.items()
                )

            offers = await self._offers_of_all(session, answered)
        return offers

    async def _offers_of_all(
        self, session: PlannerSession, answered: Callable[[Mapping[LeaseId, Offer]], bool]
    ) -> Mapping[LeaseId, Offer]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + SPARK_SETTLE_SECONDS
        while not answered(offers := await session.offers()):
            if loop.time() > deadline:
                _log.warning("this run ends without leases whose clusters do not answer; the next one reads them")
                break
            await asyncio.sleep(SPARK_SETTLE_POLL_SECONDS)
        return offers

    async def _retired(self, begun: Positions) -> set[ChannelId]:
        """Looks now and then for channels of the checkpoint that are gone for good."""
        held = {lease.id.channel for lease in (self._session.held if self._session is not None else ())}
        idle = {lease.channel for lease in begun.batches} - held
        now = asyncio.get_running_loop().time()
        if not idle or now - self._looked_at < SPARK_RETIRED_LOOK_SECONDS:
            return set()
        self._looked_at = now
        try:
            async with asyncio.timeout(SPARK_PLAN_RETRY_SECONDS):
                registry = (await self._connected()).service("registry")
                found = await channel_places(registry, self._options.mesh.stream, self._options.lanes)
        except (Unavailable, TimeoutError):
            return set()
        # One answer may be of a registry that does not know yet of a channel's birth; two looks apart are not.
        missing = idle - {ChannelId.parse(place.channel) for place in found}
        gone, self._missing = missing & self._missing, missing
        return gone

    async def ranges(self, end: Positions) -> list[LogRange]:
        """Returns how the tasks of a batch reach their logs."""
        found = []
        for lease, batch in end.batches.items():
            if batch.start < batch.end:
                place = await self._place(lease)
                where = (place.cluster, place.bootstrap, place.security_profile, place.topic)
                found.append(LogRange(lease, *where, batch.start, batch.end, batch.skip))
        return found

    async def close(self) -> None:
        """Commits what is done and gives the leases back."""
        self.spans.end(done=False)
        session, self._session = self._session, None
        mesh, self._mesh = self._mesh, None
        if session is not None:
            await session.close()
        if mesh is not None:
            await mesh.__aexit__(None, None, None)

    async def _opened(self, done: Positions | None) -> PlannerSession:
        if self._session is None:
            loses = self._options.fail_on_data_loss
            session = PlannerSession(await self._connected(), _settings(self._options), fail_on_data_loss=loses)
            if done is not None:  # before a lease comes: what is done is not lost, wherever its log begins
                session.done(done.done)
            try:
                await session.open()
            except Invalid as error:
                raise _explained(error) from error
            self._session = session
        return self._session

    async def _connected(self) -> Mesh:
        if self._mesh is None:
            options = self._options.mesh
            client_id = member_client_id(options.client_id, system_host())
            mesh = connect(
                options.endpoint, client_id=client_id, zone=options.zone, tls=options.tls, token=options.token
            )
            await mesh.__aenter__()
            self._mesh = mesh
        return self._mesh

    async def _place(self, lease: LeaseId) -> ChannelPlace:
        """Returns how to reach a channel: by the lease, else by the registry (a batch from before a restart)."""
        name = str(lease.channel)
        if self._session is not None:
            for held in self._session.held:
                if held.id == lease:
                    at = held.cluster
                    where = (at.name, at.bootstrap, at.security_profile, held.topic_partition.topic)
                    return ChannelPlace(name, lease.channel.lane, *where, lease.partition + 1, False)
        if name not in self._places:
            await self._look(lease.channel)
        return self._places[name]

    async def _look(self, channel: ChannelId) -> None:
        registry = (await self._connected()).service("registry")
        begun = asyncio.get_running_loop().time()
        while True:
            try:
                found = await channel_places(registry, channel.stream, [channel.lane])
                break
            except Unavailable as error:
                if asyncio.get_running_loop().time() - begun > self._options.cluster_wait_seconds:
                    raise
                _log.warning("the registry is waited for, it knows where %s lies: %s", channel, error)
                await asyncio.sleep(SPARK_PLAN_RETRY_SECONDS)
        self._places.update({place.channel: place for place in found})
        if str(channel) not in self._places:
            raise NotFound(
                f"channel {channel} of the checkpoint's unfinished batch is gone",
                field="checkpointLocation",
                remedy="the stream's retention is over; give the query a new checkpointLocation",
            )

    def _lost(self, session: PlannerSession, begun: Positions, offers: Mapping[LeaseId, Offer]) -> set[LeaseId]:
        """Returns leases whose log lacks what was read of it; they begin anew at the group's provable progress.

        A log may be short for a while, because a new leader knows its end late; nothing of it is planned meanwhile.
        """
        now = asyncio.get_running_loop().time()
        replaced = begun.replaced(offers)
        short = begun.short(offers) - replaced
        self._short_since = {lease: self._short_since.get(lease, now) for lease in short}
        late = {lease for lease, since in self._short_since.items() if now - since > SPARK_SHORT_LOG_SECONDS}
        for lease in sorted(replaced | late):
            end, why = begun.ends[lease], f"its log ends at {offers[lease].end}"
            why = "it is another log, made anew" if lease in replaced else why
            if self._options.fail_on_data_loss:
                raise OffsetOutOfRange(
                    f"{lease}: {why}, and the checkpoint was at {end}: records were lost",
                    field="failOnDataLoss",
                    remedy="set failOnDataLoss to false, or give the query a new checkpointLocation; it then begins at"
                    " the group's provable progress",
                )
            _log.warning("%s: %s, and the checkpoint was at %d; beginning at provable progress", lease, why, end)
            self._dropped[lease] = begun.batches[lease]
            if lease in late:
                session.begin_again(lease)
        return replaced | late


_current: list[Planner] = []


def _planner(options: ReadOptions) -> Planner:
    """This process's planner. A planner process serves one query; if it is given another one, the first has ended."""
    if _current and (_current[0].process != os.getpid() or not _current[0].serves(options)):
        _close()
    if not _current:
        _current.append(Planner(options))
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, _terminated)
    return _current[0]


def _terminated(number: int, frame: FrameType | None) -> None:
    """Handles SIGTERM, with which Spark stops a query: leases are given back at once and need not expire."""
    _close()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _close() -> None:
    planners, _current[:] = list(_current), []
    for planner in planners:
        if planner.process != os.getpid():  # a parent's, whose connections are not ours
            continue
        closing = process_loop().submit(planner.close())
        try:
            closing.result(SPARK_CLOSE_SECONDS)
        except TimeoutError:
            _log.warning("leases could not be given back in time; they will run out")
    if planners:
        flush_spans()


def member_client_id(client_id: str, host: Host) -> str:
    """The client id under which a query joins its group: the one it was given, else one that no other query has."""
    return own_client_id(UNNAMED, host) if client_id == UNNAMED else client_id


def _settings(options: ReadOptions) -> ConsumerSettings:
    start = options.start
    assert not isinstance(start, Mapping)
    begin: Start = start if not isinstance(start, str) else "latest" if start == "latest" else "earliest"
    return ConsumerSettings(
        streams=(options.mesh.stream,),
        group=options.group,
        start=begin,
        lanes=dict.fromkeys(options.lanes, 1),
        lease_seconds=options.lease_seconds,
    )


def _explained(error: Invalid) -> Invalid:
    """Returns the refusal of a group's settings, in terms of the data source's options."""
    if error.field == "spec.ownership":
        remedy = "use a group of its own: a Spark query cannot be an exclusive member"
        return Invalid(error.message, field="group", remedy=remedy)
    option = {"spec.streams": "stream", "spec.lanes": "lanes"}.get(error.field)
    return error if option is None else Invalid(error.message, field=option, remedy=error.remedy)
