"""`WatchRoutes`: one stream per producer. It receives routes, acknowledges revisions, and reports send errors.

Only the newest route is sent, routes in between are skipped; while there is none, heartbeats are sent.
`producer_sessions.py` explains what sessions mean for drains.
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

from braid.api.registry.v1.route_pb2 import (
    ChannelLeft,
    LogResumed,
    ProducerHello,
    ProducerWelcome,
    ReachAnswer,
    ReachQuestion,
    RouteUnchanged,
    WatchRoutesRequest,
    WatchRoutesResponse,
)
from braid.api.registry.v1.route_pb2 import Resumption as ResumptionMessage
from braid.kernel.capabilities import KNOWS_DENIALS
from braid.kernel.errors import BraidError, EvidenceRefused, Invalid, NotFound, Refused, Unavailable, Unsupported
from braid.kernel.ids import check_name
from braid.kernel.limits.names import LANES_MAX
from braid.kernel.limits.registry.health import UNPLACED_MAX, WITNESSES_ASKED_MAX
from braid.kernel.limits.registry.resources import RECONCILE_SECONDS, WATCH_ALIVE_SECONDS
from braid.kernel.ports import DuplexServing
from braid.kernel.resumptions import Resumption, Stretch
from braid.runtime.histories.kinds import RecordedEvent
from braid.runtime.replica import Replica
from services.registry.codec.views import route_message
from services.registry.health.rehearsals import Rehearsals
from services.registry.histories import CLUSTERS, STREAMS, read_world
from services.registry.liveness.cluster_use import ClusterUse, RefusedEvidence, writing
from services.registry.liveness.own_lateness import Lateness
from services.registry.liveness.producer_sessions import ProducerSession, Sessions
from services.registry.liveness.receipts import check_offsets
from services.registry.liveness.witnesses import Reporter, Witnesses
from services.registry.model.channels import CONSUMABLE, SPARE, Channel, ChannelState
from services.registry.model.streams import Stream
from services.registry.term_tasks import Signal, wait_for
from services.registry.watches.traced_routes import TracedRoutes

PROTOCOL_VERSION = 1


class Producers:
    """Serves all `WatchRoutes` streams for one term."""

    def __init__(
        self,
        replica: Replica,
        sessions: Sessions,
        witnesses: Witnesses,
        rehearsals: Rehearsals,
        lateness: Lateness,
        changed: Signal,
        on_acknowledged: Callable[[], None],
        on_refused: Callable[[RefusedEvidence], None],
    ) -> None:
        """Prepares the serving of one term.

        Args:
            replica: The leading replica.
            sessions: The producer sessions of the term.
            witnesses: Receives reports on clusters from applications' producers.
            rehearsals: Receives reports from drills' producers.
            lateness: This process's lateness.
            changed: Fires at every change of a history.
            on_acknowledged: Called when a session acknowledged or left.
            on_refused: Called for each report that changes nothing.
        """
        self._replica = replica
        self._sessions = sessions
        self._witnesses = witnesses
        self._rehearsals = rehearsals
        self._lateness = lateness
        self._changed = changed
        self._on_acknowledged = on_acknowledged
        self._on_refused = on_refused
        self._traces = TracedRoutes()

    async def serve(self, call: DuplexServing) -> None:
        """Serves one stream until it ends.

        Raises:
            NotLeader: the term is over.
            NotFound: the stream does not exist, or no longer.
            Refused: another stream of the producer took over, or it owed an acknowledgement for too long.
            Invalid: the client sent a malformed message, or offsets that no log can have.
            EvidenceRefused: the client reported on a cluster or a channel that it does not use.
            Unauthenticated: the producer belongs to another principal.
        """
        hello = await _read_hello(call)
        stream, clock = self._stream(hello.stream), self._replica.host.clock
        for left in hello.left:
            self._check_told(stream, left, "hello.left")
        for resumed in hello.resumed:
            self._check_told(stream, resumed, "hello.resumed")
        principal = call.caller.principal if call.caller.authenticated else ""
        session = self._sessions.open(
            stream.name, hello.producer_id, hello.revision, stream.route_revision, clock.elapsed(), principal
        )
        drill, knows_denials = stream.spec.drill is not None, KNOWS_DENIALS in hello.capabilities
        session.introduce(_host(hello, call.caller.peer), hello.lanes, drill=drill, knows_denials=knows_denials)
        told: list[ChannelLeft | LogResumed] = [*hello.left, *hello.resumed]
        stream_of = _Connection(session, session.connection, told[-UNPLACED_MAX:])
        reading = self._replica.host.tasks.spawn(self._read(call, stream_of), f"producer {session.id}")
        try:
            await self._push(call, stream_of)
        finally:
            reading.cancel()
            await reading.ended()
            self._traces.gone(session, stream_of.number)
            if not stream_of.ended_well:
                self._sessions.disconnected(session, stream_of.number, clock.elapsed())

    def routes_changed(self, stream: Stream, events: Sequence[RecordedEvent]) -> None:
        """Notes which producers owe an acknowledgement after a change. Called at once, in the order of events."""
        self._traces.changed(stream, events)
        self._sessions.route_changed(stream.name, stream.route_revision, self._replica.host.clock.elapsed())

    def ask(self, cluster: str) -> AbstractSet[Reporter]:
        """Asks producers whether they reach a cluster, one of each host first; who they are."""
        streams = self._replica.aggregates.states(STREAMS)
        there = {name for name, stream in streams.items() if _writes_to(stream, cluster)}
        sessions = self._sessions.connected(there)
        first = {session.reporter: session for session in sessions}
        others = [session for session in sessions if first[session.reporter] is not session]
        for session in [*first.values(), *others][:WITNESSES_ASKED_MAX]:
            session.questions.add(cluster)
        if sessions:
            self._changed.fire()
        return first.keys()

    def _stream(self, name: str) -> Stream:
        self._replica.require_leader()
        stream = self._replica.aggregates.state(STREAMS, name)
        if not stream.exists:
            raise NotFound(f"there is no stream {name}", field="stream", remedy="create it: braid create stream")
        return stream

    async def _push(self, call: DuplexServing, connection: "_Connection") -> None:
        session_ms = int(self._sessions.session_seconds * 1_000)
        welcome = ProducerWelcome(protocol_version=PROTOCOL_VERSION, session_ms=session_ms)
        await call.send(WatchRoutesResponse(welcome=welcome))
        sent, spoke = -1, self._replica.host.clock.elapsed()
        while not connection.ended:
            changed = self._changed.next()
            stream = self._stream(connection.session.stream)
            self._place(stream, connection)
            now = self._replica.host.clock.elapsed()
            if stream.route_revision > sent:
                before = sent
                sent, spoke = stream.route_revision, now
                active = [each.ref for each in stream.channels if _is_active(each)]
                self._sessions.give(connection.session, sent, active)
                world = read_world(self._replica.aggregates, self._replica.host.clock.now_ms())
                route = route_message(stream, world)
                traced = self._traces.pushed(connection.session, connection.number, route, before)
                await call.send(WatchRoutesResponse(route=route, traceparent=traced))
            elif now - spoke >= WATCH_ALIVE_SECONDS:
                spoke = now
                await call.send(WatchRoutesResponse(unchanged=RouteUnchanged(revision=sent)))
            while connection.session.questions:
                question = ReachQuestion(cluster=connection.session.questions.pop())
                await call.send(WatchRoutesResponse(reach=question))
            self._check(connection)
            await wait_for(changed, RECONCILE_SECONDS)
        if connection.error is not None:
            raise connection.error

    def _check(self, connection: "_Connection") -> None:
        if connection.session.connection != connection.number:
            raise Refused(f"producer {connection.session.id} has opened another stream")
        if self._sessions.overdue(connection.session, self._replica.host.clock.elapsed()):
            message = f"producer {connection.session.id} owed an acknowledgement for too long"
            raise Refused(message, remedy="say hello again")

    async def _read(self, call: DuplexServing, connection: "_Connection") -> None:
        try:
            while (message := await call.receive()) is not None:
                assert isinstance(message, WatchRoutesRequest)
                self._take(message, connection)
            connection.ended_well = True
            self._sessions.left(connection.session, connection.number)
        except Unavailable:
            pass  # the pushing side ends with it
        except BraidError as error:  # a message that is none
            connection.error = error
        connection.ended = True
        self._changed.fire()
        self._on_acknowledged()

    def _take(self, message: WatchRoutesRequest, connection: "_Connection") -> None:
        session, now = connection.session, self._replica.host.clock.elapsed()
        match message.WhichOneof("message"):
            case "send_errors" | "reach" if session.drill:
                self._hear_drill(message, session, self._lateness.attentive(now))
            case "acknowledged":
                current = self._replica.aggregates.state(STREAMS, session.stream).route_revision
                self._sessions.acknowledge(session, message.acknowledged.revision, current, now)
                self._traces.acknowledged(session, connection.number, message.acknowledged.revision)
                self._on_acknowledged()
            case "channel_left" | "log_resumed":
                told = message.channel_left if message.HasField("channel_left") else message.log_resumed
                stream = self._replica.aggregates.state(STREAMS, session.stream)
                self._check_told(stream, told, message.WhichOneof("message") or "")
                connection.unplaced = [*connection.unplaced[-UNPLACED_MAX:], told]
                self._place(stream, connection)
            case "send_errors" if self._counts(session, message.send_errors.cluster, "send_errors.cluster"):
                at, credible = self._lateness.attentive(now), session.knows_denials
                self._witnesses.complains(message.send_errors.cluster, session.reporter, at, credible=credible)
            case "reach" if self._counts(session, message.reach.cluster, "reach.cluster"):
                self._hear(message.reach, session, self._lateness.attentive(now))
            case _:
                pass  # a second hello, a report that does not count, or a message of a later release

    def _counts(self, session: ProducerSession, cluster: str, field: str) -> bool:
        """Whether a producer's report on a cluster counts: its stream is there, or was a moment ago.

        Raises:
            EvidenceRefused: the stream was never there.
        """
        if not self._replica.aggregates.state(CLUSTERS, cluster).exists:
            return False
        stream = self._replica.aggregates.state(STREAMS, session.stream)
        use = writing(stream, cluster, session.lanes, self._replica.host.clock.now_ms())
        if use is ClusterUse.NEVER:
            self._on_refused(RefusedEvidence.FOREIGN_CLUSTER)
            message = f"stream {session.stream} was never on cluster {cluster}, and its producers know nothing of it"
            raise EvidenceRefused(message, field=field, remedy="report on clusters of the route alone")
        if use is ClusterUse.BEFORE:
            self._on_refused(RefusedEvidence.LEFT_CLUSTER)
        return use is ClusterUse.NOW

    def _hear_drill(self, message: WatchRoutesRequest, session: ProducerSession, now: float) -> None:
        """Takes a drill client's reports, which concern its own stream and never a cluster's health."""
        stream = self._replica.aggregates.state(STREAMS, session.stream)
        if message.WhichOneof("message") == "send_errors":
            self._rehearsals.complains(stream, message.send_errors.cluster, session.reporter, now)

    def _hear(self, answer: ReachAnswer, session: ProducerSession, now: float) -> None:
        if answer.acknowledged_ms_ago >= 0:
            at = now - answer.acknowledged_ms_ago / 1_000
            self._witnesses.reached(answer.cluster, session.reporter, at)

    def _check_told(self, stream: Stream, told: ChannelLeft | LogResumed, field: str) -> None:
        """Raises `Invalid` for offsets that no log of the stream can have reached."""
        age_seconds = (self._replica.host.clock.now_ms() - stream.create_time_ms) / 1_000
        if isinstance(told, ChannelLeft):
            check_offsets(told.next_offsets.values(), age_seconds, told.channel, f"{field}.next_offsets")
        else:
            offsets = (max(each.next_offset, each.resumed_offset) for each in told.resumptions)
            check_offsets(offsets, age_seconds, told.channel, f"{field}.resumptions")

    def _place(self, stream: Stream, connection: "_Connection") -> None:
        """Takes a producer's reports on channels.

        Reports on a channel unknown to the history are kept until it is known: after a restore of the store, a channel
        may be found once its cluster answers.
        """
        waiting, connection.unplaced = connection.unplaced, []
        for told in waiting:
            if (channel := _channel_of(stream, told)) is None:
                connection.unplaced.append(told)
            elif connection.session.lanes and channel.ref.lane not in connection.session.lanes:
                pass  # it said that it never writes there
            elif isinstance(told, ChannelLeft):
                self._take_receipts(stream, connection.session, channel, told)
            else:
                self._take_resumed(stream, connection.session, channel, told)

    def _take_receipts(self, stream: Stream, session: ProducerSession, channel: Channel, left: ChannelLeft) -> None:
        """Takes receipts for channels that may lose records, or may have lost them while the producer was not waited
        for.

        A producer that left a channel still on the route left it because it broke. It may never send there again, and
        then reports nothing more. A spare with receipts shows that the store was restored from a backup.
        """
        if channel.state is not ChannelState.RETIRED:
            self._check_given(session, channel, "channel_left")
            self._sessions.take_receipts(stream.name, channel, left.next_offsets)
            self._on_acknowledged()

    def _check_given(self, session: ProducerSession, channel: Channel, field: str) -> None:
        """Raises `EvidenceRefused` for reports on a channel that the producer was never given."""
        try:
            self._sessions.check_given(session, channel, field)
        except EvidenceRefused:
            self._on_refused(RefusedEvidence.FOREIGN_CHANNEL)
            raise

    def _take_resumed(self, stream: Stream, session: ProducerSession, channel: Channel, told: LogResumed) -> None:
        """Takes resumptions for channels with unfinished records: where those went may still matter."""
        if channel.state in (*SPARE, *CONSUMABLE):
            self._check_given(session, channel, "log_resumed")
            found = list(map(_resumption, told.resumptions))
            self._sessions.take_resumptions(stream.name, channel, found)
            self._on_acknowledged()


class _Connection:
    """One open stream of a session."""

    def __init__(self, session: ProducerSession, number: int, unplaced: list[ChannelLeft | LogResumed]) -> None:
        self.session = session
        self.number = number
        self.ended = False
        self.ended_well = False
        self.error: BraidError | None = None
        self.unplaced = unplaced  # told of channels that the history does not know yet


def _channel_of(stream: Stream, told: ChannelLeft | LogResumed) -> Channel | None:
    """The channel that a producer refers to; older releases send only its name."""
    if told.topic:
        there = [each for each in stream.channels if (each.cluster, each.topic) == (told.cluster, told.topic)]
    else:
        there = [each for each in stream.channels if str(each.id(stream.name)) == told.channel]
    return there[-1] if there else None


def _is_active(channel: Channel) -> bool:
    """Whether a channel is on the route."""
    return channel.state is ChannelState.ACTIVE


def _writes_to(stream: Stream, cluster: str) -> bool:
    """Whether the stream belongs to an application and has an active channel on the cluster."""
    active = any(each.cluster == cluster and each.state is ChannelState.ACTIVE for each in stream.channels)
    return active and stream.spec.drill is None


def _resumption(told: ResumptionMessage) -> Resumption:
    stretches = tuple(Stretch(each.first_offset, each.next_offset, each.first_sequence) for each in told.stretches)
    return Resumption(
        told.partition,
        told.first_offset,
        told.next_offset,
        told.resumed_offset,
        told.producer if stretches else -1,
        stretches,
    )


def _host(hello: ProducerHello, peer: str) -> str:
    """Where a producer runs: by its own account, else by its address (of `ipv4:10.0.0.7:4321`), else a host of its
    own."""
    return hello.host or peer.rpartition(":")[0] or hello.producer_id


async def _read_hello(call: DuplexServing) -> ProducerHello:
    message = await call.receive()
    if not isinstance(message, WatchRoutesRequest) or message.WhichOneof("message") != "hello":
        raise Invalid("the first message must say hello", field="hello")
    hello = message.hello
    if hello.protocol_version != PROTOCOL_VERSION:
        remedy = f"this registry speaks version {PROTOCOL_VERSION}"
        raise Unsupported(f"protocol version {hello.protocol_version} is unknown", remedy=remedy)
    if not hello.producer_id:
        raise Invalid("a producer needs an id", field="hello.producer_id")
    check_name(hello.stream, "hello.stream")
    if len(hello.lanes) > LANES_MAX:
        raise Invalid(f"{len(hello.lanes)} lanes are more than {LANES_MAX}", field="hello.lanes")
    for lane in hello.lanes:
        check_name(lane, "hello.lanes")
    return hello
