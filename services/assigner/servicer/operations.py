"""Handlers of operators' requests: pins, bans, freezes, drains and capacities, and their removal."""

from collections.abc import Callable

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2, responses_pb2, rules_pb2
from braid.kernel.errors import Invalid, NotFound
from braid.kernel.ids import LeaseId
from braid.kernel.limits.assigner.responses import RESPONSE_POLICIES_MAX
from braid.kernel.ports import Caller
from braid.runtime.replica import Replica
from services.assigner.codec.responses import read_response_policy
from services.assigner.codec.rules import read_policy
from services.assigner.codec.scaling import read_scaling_policy
from services.assigner.domain import operator_rules
from services.assigner.domain.responses import check_response_policy
from services.assigner.domain.scaling import check_scaling
from services.assigner.model.backlog_splits import SplitBacklog
from services.assigner.model.group import Group
from services.assigner.model.lag.response_events import SetResponses
from services.assigner.model.lag.responses import ResponsePolicy
from services.assigner.model.lag.scaling_events import SetScaling
from services.assigner.model.rules import (
    Ban,
    BanMember,
    DrainMember,
    FreezeGroup,
    PinLease,
    PlacementPolicy,
    RuleCommand,
    SetCapacity,
    SetPolicy,
    SetShadow,
    SetSpreading,
    UnbanMember,
    UnpinLease,
    Zones,
)
from services.assigner.model.stopped_lanes import ResumeLane
from services.assigner.policy import constraints
from services.assigner.reconciler.group_loop import GROUPS
from services.assigner.servicer.reads import group_message


def asked_policy(message: rules_pb2.PlacementPolicy) -> PlacementPolicy:
    """Reads a policy in a request. Raises `Invalid`."""
    try:
        policy = read_policy(message)
    except ValueError:
        raise Invalid(f"basis {message.basis} is unknown", field="policy.basis", remedy="use load or count") from None
    operator_rules.check_policy(policy)
    return policy


def _asked_response(message: responses_pb2.ResponsePolicy, field: str) -> ResponsePolicy:
    """Reads a response policy in a request. Raises `Invalid`."""
    known = message.kind in responses_pb2.ResponseKind.values() and message.kind
    try:
        policy = read_response_policy(message)
    except ValueError:
        wrong, remedy = ("mode", "off, propose or automatic") if known else ("kind", "shift-shares or another kind")
        told = f"{wrong} {getattr(message, wrong)} is unknown"
        raise Invalid(told, field=f"{field}.{wrong}", remedy=f"use {remedy}") from None
    check_response_policy(policy, field)
    return policy


class Operations:
    """The handlers of methods that operators call. Each returns the group after the change."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    async def pin_lease(self, request: api.PinLeaseRequest, caller: Caller) -> group_pb2.Group:
        """Pins a lease to a member, or takes the pin away."""
        channel = str(LeaseId.parse(request.lease, "lease").channel)
        group = self._group(request.group, "lease", request.lease, lambda state: channel in state.channels)
        if not request.member:
            return await self._execute(group, UnpinLease(request.lease), caller)
        pin = PinLease(request.lease, request.member, request.strict, request.absent)
        return await self._execute(group, pin, caller)

    async def ban_member(self, request: api.BanMemberRequest, caller: Caller) -> group_pb2.Group:
        """Bans a member from a part of its group, or lifts the ban."""
        ban = Ban(request.member, request.path, request.cluster)
        command = UnbanMember(ban) if request.lifted else BanMember(ban, request.absent)
        return await self._execute(self._of_member(request.group, request.member), command, caller)

    async def freeze_group(self, request: api.FreezeGroupRequest, caller: Caller) -> group_pb2.Group:
        """Freezes a group, or lets it move again."""
        return await self._execute(request.group, FreezeGroup(request.frozen, request.reason), caller)

    async def drain_member(self, request: api.DrainMemberRequest, caller: Caller) -> group_pb2.Group:
        """Drains a member, or ends its drain."""
        drain = DrainMember(request.member, request.drained, request.reason, request.absent)
        return await self._execute(self._of_member(request.group, request.member), drain, caller)

    async def set_capacity(self, request: api.SetCapacityRequest, caller: Caller) -> group_pb2.Group:
        """Sets a member's capacity, or goes back to the one it declared."""
        capacity = request.capacity if request.HasField("capacity") else None
        command = SetCapacity(request.member, capacity, request.absent)
        return await self._execute(self._of_member(request.group, request.member), command, caller)

    async def set_spreading(self, request: api.SetSpreadingRequest, caller: Caller) -> group_pb2.Group:
        """Sets a group's rules for zones and hosts."""
        if request.zones not in rules_pb2.ZoneRule.values():
            raise Invalid(f"zone rule {request.zones} is unknown", field="zones", remedy="use any, prefer or strict")
        zones = Zones(request.zones) if request.zones else None
        hosts = request.hosts if request.HasField("hosts") else None
        return await self._execute(request.group, SetSpreading(zones, hosts), caller)

    async def set_policy(self, request: api.SetPolicyRequest, caller: Caller) -> group_pb2.Group:
        """Sets a group's placement policy."""
        return await self._execute(request.group, SetPolicy(asked_policy(request.policy)), caller)

    async def set_shadow(self, request: api.SetShadowRequest, caller: Caller) -> group_pb2.Group:
        """Sets a group's shadow policy, or removes it."""
        policy = asked_policy(request.policy) if request.HasField("policy") else None
        return await self._execute(request.group, SetShadow(policy), caller)

    async def set_scaling(self, request: api.SetScalingRequest, caller: Caller) -> group_pb2.Group:
        """Sets how the number of members that a group should have follows its lag and load."""
        try:
            policy = read_scaling_policy(request.policy)
        except ValueError:
            mode = request.policy.mode
            remedy = "use off, propose or automatic"
            raise Invalid(f"mode {mode} is unknown", field="policy.mode", remedy=remedy) from None
        check_scaling(policy)
        return await self._execute(request.group, SetScaling(policy), caller)

    async def set_responses(self, request: api.SetResponsesRequest, caller: Caller) -> group_pb2.Group:
        """Sets how a group answers lag by itself."""
        if not 1 <= len(request.policies) <= RESPONSE_POLICIES_MAX:
            remedy = f"name 1 to {RESPONSE_POLICIES_MAX}"
            raise Invalid(f"{len(request.policies)} policies", field="policies", remedy=remedy)
        policies = [_asked_response(each, f"policies.{number}") for number, each in enumerate(request.policies)]
        return await self._execute(request.group, SetResponses(tuple(policies)), caller)

    async def resume_lane(self, request: api.ResumeLaneRequest, caller: Caller) -> group_pb2.Group:
        """Asks members that have stopped a lane to resume it."""
        return await self._execute(request.group, ResumeLane(request.lane, request.member), caller)

    async def split_backlog(self, request: api.SplitBacklogRequest, caller: Caller) -> group_pb2.Group:
        """Asks the holders of leases to work at their head and on their backlog at once."""
        partition = request.partition if request.HasField("partition") else None
        split = SplitBacklog(request.stream, request.share, request.lane, partition, request.relaxed)
        return await self._execute(request.group, split, caller)

    def _of_member(self, group: str, member: str) -> str:
        def known(state: Group) -> bool:
            return bool(constraints.carriers(state, member)) or member in state.rules.names

        return self._group(group, "member", member, known)

    def _group(self, group: str, field: str, name: str, has: Callable[[Group], bool]) -> str:
        """Returns the named group, or the only group that has the lease or member."""
        self._replica.require_leader()
        if group:
            return group
        if not name:
            raise Invalid(f"a {field} is needed", field=field)
        found = sorted(
            state.name for state in self._replica.aggregates.states(GROUPS).values() if state.spec and has(state)
        )
        if len(found) > 1:
            remedy = f"name one of {', '.join(found)}"
            raise Invalid(f"{len(found)} groups have a {field} {name!r}", field="group", remedy=remedy)
        if not found:
            raise NotFound(f"no group has a {field} {name!r}", field=field, remedy=f"list them: braid get {field}s")
        return found[0]

    async def _execute(
        self, group: str, command: RuleCommand | ResumeLane | SetScaling | SetResponses | SplitBacklog, caller: Caller
    ) -> group_pb2.Group:
        self._replica.require_leader()
        outcome = await self._replica.aggregates.execute(
            GROUPS,
            group,
            command,
            actor=caller.principal or caller.peer,
            tenant=caller.tenant,
            request_id=caller.request_id,
        )
        return group_message(outcome.state)
