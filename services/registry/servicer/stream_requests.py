"""Handlers of RPCs on streams and channels. They wait for provisioning, within limits; then the answer says what is
missing."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1 import stream_pb2
from braid.kernel.access.approvals import GuardedVerb
from braid.kernel.access.roles import Resource, ResourceKind
from braid.kernel.errors import BraidError, FailoverBlocked, Invalid, Refused, Unavailable
from braid.kernel.ids import check_name
from braid.kernel.limits.registry.resources import CREATE_WAIT_SECONDS
from braid.kernel.ports import Caller
from braid.runtime.access.approvals import Destruction
from services.registry.codec.specs import read_stream_spec
from services.registry.codec.views import LeaderKnowledge, channel_message, move_message, stream_message
from services.registry.histories import STREAMS
from services.registry.model.stream_commands import CreateStream, DeleteStream, EndDrill, PlanChannel, UpdateStream
from services.registry.model.streams import Stream, StreamSpec, check_stream_spec
from services.registry.policy.moves import LaneMove, MoveOrder, as_command, plan_move
from services.registry.policy.shares import plan_shares, shares_traffic
from services.registry.policy.world import Room, check_replication_factor, choose_target, why_no_target
from services.registry.policy.zone_spread import missing_zones
from services.registry.servicer.request_context import RequestContext, page_of
from services.registry.servicer.tenant_quotas import TenantQuotas, partitions_after
from services.registry.term import Term
from services.registry.term_tasks import wait_for


class StreamRequests:
    """Handlers of RPCs on streams in one replica."""

    def __init__(self, context: RequestContext, known: Callable[[], LeaderKnowledge], quotas: TenantQuotas) -> None:
        """Prepares the handlers; `known` returns the leader's facts about channels, and nothing on other replicas."""
        self._context = context
        self._quotas = quotas
        self._known = known

    async def get(self, request: api.GetStreamRequest, caller: Caller) -> stream_pb2.Stream:
        """One stream, as this replica knows it."""
        return self._message(self._context.stream(request.name))

    async def list(self, request: api.ListStreamsRequest, caller: Caller) -> api.ListStreamsResponse:
        """Streams, sorted by name."""
        existing = [(name, stream) for name, stream in self._context.world().streams.items() if stream.exists]
        page, token = page_of(existing, request.page_size, request.page_token)
        world = self._context.world()
        zones, known = world.zones, self._known()
        messages = [stream_message(each, known, zones, missing_zones(world, each)) for each in page]
        return api.ListStreamsResponse(streams=messages, next_page_token=token)

    async def channels(self, request: api.ListChannelsRequest, caller: Caller) -> api.ListChannelsResponse:
        """Channels sorted by stream, lane and generation; of all streams that still have topics, deleted ones too."""
        if request.stream:
            self._context.stream(request.stream, "stream")
        known = self._known()
        found = [
            (f"{name}/{channel.ref.lane}/{channel.ref.generation:012d}", (stream, channel))
            for name, stream in self._context.world().streams.items()
            for channel in stream.channels
            if request.stream in ("", name)
            if request.cluster in ("", channel.cluster)
            if channel.live or request.include_retired
        ]
        page, token = page_of(sorted(found, key=lambda each: each[0]), request.page_size, request.page_token)
        zones = self._context.world().zones
        messages = [channel_message(stream, each, known, zones.get(each.cluster, "")) for stream, each in page]
        return api.ListChannelsResponse(channels=messages, next_page_token=token)

    async def create(self, request: api.CreateStreamRequest, caller: Caller) -> stream_pb2.Stream:
        """Creates a stream. Returns once every lane has its route, or, if that takes long, the state so far.

        Raises:
            Invalid: the declaration is malformed, or Kafka refuses it; the stream is removed then.
            FailoverBlocked: no cluster can carry it.
            QuotaExceeded: its tenant has as many streams or partitions as it may have.
        """
        term = self._context.term()
        check_name(request.name, "name")
        spec = check_stream_spec(read_stream_spec(request.spec))
        self._check_clusters(spec)
        if spec.drill is not None:
            self._context.stream(spec.drill.stream, "spec.drill.stream")
        check_replication_factor(self._context.world(), spec)
        command = CreateStream(spec)
        preview = self._preview_unless_known(request.name, command, caller)
        if preview is not None:
            self._check_target(preview)
        partitions = sum(spec.lanes.values())
        with self._quotas.promised(request.name, self._tenant(request.name, caller), partitions):
            if request.dry_run:
                return self._message(preview or self._context.preview(STREAMS, request.name, command, caller))
            await self._context.execute(STREAMS, request.name, command, caller)
        await self._until(term, lambda: self._settled(term, request.name))
        if refused := self._refused(term, request.name):
            await self._context.execute(STREAMS, request.name, DeleteStream(), caller, "/undo")
            raise Invalid(refused.message, field=refused.field or "spec.topic_config", remedy=refused.remedy)
        return self._message(self._context.stream(request.name))

    async def update(self, request: api.UpdateStreamRequest, caller: Caller) -> stream_pb2.Stream:
        """Replaces a declaration; topics in use follow in the background."""
        self._context.term()
        present = self._context.stream(request.name).spec
        spec = check_stream_spec(read_stream_spec(request.spec))
        self._check_clusters(spec)
        if (spec.replication_factor, spec.clusters) != (present.replication_factor, present.clusters):
            check_replication_factor(self._context.world(), spec, self._context.stream(request.name))
        command = UpdateStream(spec, request.etag)
        tenant, partitions = self._tenant(request.name, caller), sum(spec.lanes.values())
        with self._quotas.promised(request.name, tenant, partitions):
            if request.dry_run:
                return self._message(self._context.preview(STREAMS, request.name, command, caller))
            return self._message(await self._context.execute(STREAMS, request.name, command, caller))

    async def delete(self, request: api.DeleteStreamRequest, caller: Caller) -> stream_pb2.Stream:
        """Discards a stream with everything in it, and returns what it was."""
        self._context.term()
        stream = self._context.stream(request.name)
        before, command = self._message(stream), DeleteStream(request.etag)
        self._context.preview(STREAMS, request.name, command, caller)  # what it refuses needs no approval
        resources = (Resource(ResourceKind.STREAM, request.name),)
        destruction = Destruction((GuardedVerb.DELETE_STREAM,), resources, str(stream.create_time_ms))
        await self._context.replica.approvals.require("DeleteStream", request, destruction, caller)
        await self._context.execute(STREAMS, request.name, replace(command, made_ms=stream.create_time_ms), caller)
        return before

    async def end_drill(self, request: api.EndDrillRequest, caller: Caller) -> stream_pb2.Stream:
        """Records a drill's verdict, deletes its stream, and returns what it was."""
        self._context.term()
        before = self._message(self._context.stream(request.stream, "stream"))
        await self._context.execute(STREAMS, request.stream, EndDrill(request.passed, request.verdict), caller)
        return before

    async def move(self, request: api.MoveStreamRequest, caller: Caller) -> api.MoveStreamResponse:
        """Moves traffic in one append, once every affected lane has its channel.

        Raises:
            Unavailable: provisioning takes too long; it continues in the background, so repeat the request.
        """
        term = self._context.term()
        order = MoveOrder(
            tuple(request.lanes),
            request.to_cluster,
            request.away_from_cluster,
            request.partitions,
            request.reason,
            tuple((each.cluster, each.weight) for each in request.spread),
            request.percent if request.HasField("percent") else None,
        )
        moves = self._moves(request.stream, order)
        present = self._context.stream(request.stream, "stream")
        with self._quotas.promised(present.name, present.tenant, partitions_after(present, moves)):
            if moves and not request.dry_run:
                await self._provision(term, request.stream, moves, caller)
                await self._until(term, lambda: all(each.to for each in self._moves(request.stream, order)))
                moves = self._moves(request.stream, order)
                await self._perform(request.stream, moves, request.reason, caller)
        stream = self._context.stream(request.stream, "stream")
        messages = [move_message(stream.name, each) for each in moves]
        return api.MoveStreamResponse(moves=messages, stream=self._message(stream))

    # --- creating

    def _tenant(self, name: str, caller: Caller) -> str:
        """The tenant of a stream; of one that does not exist, that of its creator."""
        present = self._context.replica.aggregates.state(STREAMS, name)
        return present.tenant if present.exists else caller.tenant

    def _preview_unless_known(self, name: str, command: CreateStream, caller: Caller) -> Stream | None:
        """The stream that would be created; None if it exists and this may be a repeated request."""
        exists = self._context.replica.aggregates.state(STREAMS, name).exists
        return None if exists and caller.request_id else self._context.preview(STREAMS, name, command, caller)

    def _check_clusters(self, spec: StreamSpec) -> None:
        world = self._context.world()
        for position, name in enumerate(spec.clusters):
            if not world.cluster(name).exists:
                field = f"spec.clusters[{position}]"
                raise Invalid(f"there is no cluster {name}", field=field, remedy="list them: braid get clusters")

    def _check_target(self, stream: Stream) -> None:
        """Raises `FailoverBlocked` if no cluster can take the first channels."""
        world = self._context.world()
        room = Room(world)
        for lane, partitions in stream.spec.lanes.items():
            target = choose_target(world, stream, partitions, (), room)
            if not target:
                reason = why_no_target(world, stream, partitions, (), room)
                raise FailoverBlocked(f"lane {lane}: {reason}", field="spec.clusters")
            room.take(target, partitions)

    def _settled(self, term: Term, name: str) -> bool:
        stream = self._context.stream(name)
        return all(stream.active(lane) for lane in stream.spec.lanes) or self._refused(term, name) is not None

    def _refused(self, term: Term, name: str) -> BraidError | None:
        """Why Kafka refuses the declaration; None if it does not, or once a lane has a route."""
        stream = self._context.stream(name)
        if any(stream.active(lane) for lane in stream.spec.lanes):
            return None
        mine = [channel.ref for channel in stream.channels if not channel.retiring]
        problems = (term.reconciler.problems.get((name, ref)) for ref in mine)
        return next((problem for problem in problems if isinstance(problem, Invalid)), None)

    # --- moving

    def _moves(self, name: str, order: MoveOrder) -> Sequence[LaneMove]:
        world, stream = self._context.world(), self._context.stream(name, "stream")
        return plan_shares(world, stream, order) if shares_traffic(order) else plan_move(world, stream, order)

    async def _provision(self, term: Term, name: str, moves: Sequence[LaneMove], caller: Caller) -> None:
        for move in moves:
            if move.to is not None:
                continue
            async with term.placing:
                cluster = self._context.world().cluster(move.cluster)
                if not cluster.takes_traffic:
                    state = cluster.refusal or cluster.health.name
                    message = f"cluster {move.cluster} takes no traffic any more: it is {state}"
                    raise Refused(message, field="to_cluster", remedy="choose another cluster")
                command = PlanChannel(move.lane, move.cluster, cluster.spec.topic_prefix, move.partitions)
                part = f"/{move.lane}/{move.cluster}" if move.share else f"/{move.lane}"
                await self._context.execute(STREAMS, name, command, caller, part)

    async def _perform(self, name: str, moves: Sequence[LaneMove], reason: str, caller: Caller) -> None:
        waiting = [move.lane for move in moves if move.to is None]
        if waiting:
            message = f"channels of lanes {', '.join(waiting)} are still being provisioned"
            raise Unavailable(message, remedy="repeat the request; what was begun goes on")
        command = as_command(self._context.world(), self._context.stream(name, "stream"), moves, reason)
        await self._context.execute(STREAMS, name, command, caller)

    # --- shared

    async def _until(self, term: Term, done: Callable[[], bool]) -> None:
        """Waits until a condition holds, at most `CREATE_WAIT_SECONDS`."""
        clock = self._context.replica.host.clock
        deadline = clock.elapsed() + CREATE_WAIT_SECONDS
        while True:
            changed = term.changed.next()
            self._context.replica.require_leader()
            if done() or clock.elapsed() >= deadline:
                return
            await wait_for(changed, deadline - clock.elapsed())

    def _message(self, stream: Stream) -> stream_pb2.Stream:
        world = self._context.world()
        return stream_message(stream, self._known(), world.zones, missing_zones(world, stream))
