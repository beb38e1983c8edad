"""The assigner as the runtime runs it: its methods, changes of groups, and its work as leader or follower."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import beat_pb2, group_pb2, join_pb2
from braid.kernel.access.approvals import GuardedVerb
from braid.kernel.access.requests import Lookup
from braid.kernel.decider import Context
from braid.kernel.errors import Invalid, Unavailable
from braid.kernel.ids import check_name
from braid.kernel.limits.assigner.leases import GROUP_IDLE_EXPIRY_SECONDS, LEASE_MESSAGE_BYTES_MAX
from braid.kernel.ports import Caller, Kafka, RpcService
from braid.rpc.methods import duplex, method_path, service_path, unary
from braid.runtime.histories.kinds import AnyKind, Outcome
from braid.runtime.replica import Replica
from braid.runtime.telemetry import AssignerMetrics, make_assigner_metrics
from services.assigner.codec.specs import spec_message
from services.assigner.domain.admission import check_spec
from services.assigner.domain.decide import registered_spec
from services.assigner.liveness.member_streams import MemberKey
from services.assigner.liveness.tickets import Tickets
from services.assigner.model.commands import (
    Command,
    DeleteGroup,
    RegisterGroup,
    UpdateGroup,
)
from services.assigner.model.group import Group, GroupSpec
from services.assigner.peers import RegistryFollower
from services.assigner.policy.member_work import Usage
from services.assigner.reconciler.gauges import GroupGauges
from services.assigner.reconciler.group_loop import GROUPS
from services.assigner.reconciler.term import Term
from services.assigner.servicer.approvals import require_approval
from services.assigner.servicer.beats import Beats
from services.assigner.servicer.closing import Closings
from services.assigner.servicer.group_quotas import GroupQuotas
from services.assigner.servicer.group_specs import read_wishes
from services.assigner.servicer.joins import Joins
from services.assigner.servicer.member_session import MemberSession
from services.assigner.servicer.operations import Operations
from services.assigner.servicer.past import PastReads
from services.assigner.servicer.preview import Previews
from services.assigner.servicer.reads import Reads, group_message
from services.assigner.servicer.resets import Resets
from services.assigner.servicer.scaler import Scaler


class Assigner:
    """The assigner service, which owns groups, members and leases; a `runtime.service.Service`.

    One instance serves one replica.
    """

    name = "assigner"
    kinds: Mapping[str, AnyKind] = MappingProxyType({GROUPS.name: GROUPS})

    def __init__(self, kafka: Kafka, *, group_idle_expiry_seconds: float = GROUP_IDLE_EXPIRY_SECONDS) -> None:
        """`kafka` is for start positions and memberships; a group idle for the given time holds no drain any more."""
        self._kafka = kafka
        self._idle_expiry_seconds = group_idle_expiry_seconds
        self._registry: RegistryFollower | None = None
        self._term: Term | None = None
        self._metrics: AssignerMetrics | None = None
        self._gauges: GroupGauges | None = None

    def rpc(self, replica: Replica) -> RpcService:
        """Returns the table of methods; called once, before serving."""
        registry = self._registry = RegistryFollower(replica.host, replica.client("registry"))
        self._metrics, self._gauges = make_assigner_metrics(replica.metrics), GroupGauges(replica.metrics)
        term = partial(self._require_term, replica)
        reads = Reads(replica, self._connected, self._usage, round(self._idle_expiry_seconds * 1_000))
        operations, scaler, quotas = Operations(replica), Scaler(replica), GroupQuotas(replica)
        writes = _Writes(replica, registry, term, quotas)
        tickets = Tickets[MemberSession](int.from_bytes(replica.host.randomness.entropy(5)))
        joins = Joins(replica, registry, tickets, term, quotas)
        beats, previews = Beats(replica, tickets, term), Previews(replica, term)
        progress, past = Resets(replica, self._kafka, registry), PastReads(replica)
        closings = Closings(replica, registry, self._kafka, term)
        return RpcService(
            name=service_path(self.name),
            unary={
                _path("GetGroup"): unary(api.GetGroupRequest, reads.get_group),
                _path("ListGroups"): unary(api.ListGroupsRequest, reads.list_groups),
                _path("CreateGroup"): unary(api.CreateGroupRequest, writes.create_group),
                _path("UpdateGroup"): unary(api.UpdateGroupRequest, writes.update_group),
                _path("DeleteGroup"): unary(api.DeleteGroupRequest, writes.delete_group),
                _path("ListMembers"): unary(api.ListMembersRequest, reads.list_members),
                _path("ListLeases"): unary(api.ListLeasesRequest, reads.list_leases),
                _path("ExplainLease"): unary(api.ExplainLeaseRequest, reads.explain_lease),
                _path("DescribePast"): unary(api.DescribePastRequest, past.describe),
                _path("ListPastGroups"): unary(api.ListPastGroupsRequest, past.list_groups),
                _path("PreviewPlacement"): unary(api.PreviewPlacementRequest, previews.preview_placement),
                _path("PinLease"): unary(api.PinLeaseRequest, operations.pin_lease),
                _path("BanMember"): unary(api.BanMemberRequest, operations.ban_member),
                _path("FreezeGroup"): unary(api.FreezeGroupRequest, operations.freeze_group),
                _path("DrainMember"): unary(api.DrainMemberRequest, operations.drain_member),
                _path("SetCapacity"): unary(api.SetCapacityRequest, operations.set_capacity),
                _path("SetSpreading"): unary(api.SetSpreadingRequest, operations.set_spreading),
                _path("SetPolicy"): unary(api.SetPolicyRequest, operations.set_policy),
                _path("SetShadow"): unary(api.SetShadowRequest, operations.set_shadow),
                _path("SetScaling"): unary(api.SetScalingRequest, operations.set_scaling),
                _path("SetResponses"): unary(api.SetResponsesRequest, operations.set_responses),
                _path("ResumeLane"): unary(api.ResumeLaneRequest, operations.resume_lane),
                _path("SplitBacklog"): unary(api.SplitBacklogRequest, operations.split_backlog),
                _path("ResetProgress"): unary(api.ResetProgressRequest, progress.reset_progress),
                _path("CloseChannel"): unary(api.CloseChannelRequest, closings.close_channel),
                **scaler.unary,
            },
            server_stream=scaler.server_stream,
            duplex={
                _path("Join"): duplex(join_pb2.JoinRequest, joins.serve),
                _path("Beat"): duplex(beat_pb2.BeatRequest, beats.serve),
            },
            bytes_max={_path("Join"): LEASE_MESSAGE_BYTES_MAX, _path("Beat"): LEASE_MESSAGE_BYTES_MAX},
        )

    def resources(self, replica: Replica) -> Lookup:
        """The streams of a registered group: see `KnowsResources`."""
        return Lookup(streams_of_group=lambda group: _registered_streams(replica, group))

    async def lead(self, replica: Replica) -> None:
        """Leads for one term; cancelled the moment authority ends."""
        assert self._metrics and self._gauges, "rpc() comes first"
        metrics, gauges, idle_seconds = self._metrics, self._gauges, self._idle_expiry_seconds
        self._term = Term(replica, self._followed(), self._kafka, metrics, gauges, idle_seconds)
        counting = replica.host.tasks.spawn(replica.waits.lead(), f"{replica.instance} waits")
        try:
            await self._term.run()
        finally:
            self._term = None
            counting.cancel()
            await counting.ended()

    async def follow(self, replica: Replica) -> None:
        """Follows the registry's channels and how long groups were idle, leading or not."""
        following = replica.host.tasks.spawn(replica.waits.follow(), f"{replica.instance} follows waits")
        try:
            await self._followed().run()
        finally:
            following.cancel()

    def _followed(self) -> RegistryFollower:
        if self._registry is None:
            raise Unavailable("the assigner does not serve yet")
        return self._registry

    def _require_term(self, replica: Replica) -> Term:
        replica.require_leader()
        if self._term is None:
            raise Unavailable(f"{replica.instance} is about to lead", remedy="try again")
        return self._term

    def _connected(self, key: MemberKey) -> bool:
        return self._term is not None and self._term.connected(key)

    def _usage(self, key: MemberKey) -> Usage | None:
        return None if self._term is None else self._term.usage(key)


class _Writes:
    """Handlers of the changing methods."""

    def __init__(
        self, replica: Replica, registry: RegistryFollower, term: Callable[[], Term], quotas: GroupQuotas
    ) -> None:
        self._replica = replica
        self._registry = registry
        self._term = term
        self._quotas = quotas

    async def create_group(self, request: api.CreateGroupRequest, caller: Caller) -> group_pb2.Group:
        """Registers a group before its first member joins."""
        self._replica.require_leader()
        name = check_name(request.name, "name")
        spec, _ = read_wishes(request.spec)
        check_spec(spec)
        with self._quotas.promised(name, caller.tenant):
            view = (await self._registry.view_with(spec.streams)).of(spec.streams)
            await self._term().check_vacant(name, spec, view)
            return group_message((await self._execute(name, RegisterGroup(spec, view), caller)).state)

    async def update_group(self, request: api.UpdateGroupRequest, caller: Caller) -> group_pb2.Group:
        """Changes a group's spec; fields that the request leaves out stay."""
        self._replica.require_leader()
        spec = self._updated(request)
        check_spec(spec)
        view = (await self._registry.view_with(spec.streams)).of(spec.streams)
        return group_message((await self._execute(request.name, UpdateGroup(spec, view, request.etag), caller)).state)

    async def delete_group(self, request: api.DeleteGroupRequest, caller: Caller) -> group_pb2.Group:
        """Deletes a group without members and returns it as it was. Its committed progress stays in its clusters."""
        self._replica.require_leader()
        before = self._replica.aggregates.state(GROUPS, request.name)
        term, command = self._term(), DeleteGroup(request.etag)
        if before.spec is not None and self._replica.approvals.state.policies:
            context = Context(self._replica.host.clock.now_ms(), caller.principal, caller.tenant)
            GROUPS.decider.decide(before, command, context)  # what it refuses needs no approval
            verb, streams = GuardedVerb.DELETE_GROUP, before.spec.streams
            await require_approval(self._replica, "DeleteGroup", request, verb, before, streams, caller)
        outcome = await self._execute(request.name, command, caller)
        if not outcome.repeated:  # else a group of the same name may be there by now
            term.deleted(before)
        if outcome.repeated and before.spec is None:
            return group_pb2.Group(name=request.name)
        return group_message(before)

    def _updated(self, request: api.UpdateGroupRequest) -> GroupSpec:
        state = self._replica.aggregates.state(GROUPS, request.name)
        if not request.HasField("spec"):
            raise Invalid("a spec is needed", field="spec")
        merged = spec_message(registered_spec(state))
        for field in ("streams", "lanes"):
            if getattr(request.spec, field):
                merged.ClearField(field)
        merged.MergeFrom(request.spec)
        return read_wishes(merged)[0]

    async def _execute(self, group: str, command: Command, caller: Caller) -> Outcome[Group]:
        return await self._replica.aggregates.execute(
            GROUPS,
            group,
            command,
            actor=caller.principal or caller.peer,
            tenant=caller.tenant,
            request_id=caller.request_id,
        )


def _path(rpc: str) -> str:
    return method_path("assigner", rpc)


def _registered_streams(replica: Replica, group: str) -> Sequence[str]:
    spec = replica.aggregates.state(GROUPS, group).spec
    return () if spec is None else spec.streams
