"""Handlers of RPCs on approvals. Replicas list; the leader sets policies, records decisions and answers services."""

from braid.api.registry.v1 import approval_pb2 as api
from braid.kernel.access.approvals import ApprovalPolicy, GuardedVerb, check_policy
from braid.kernel.access.roles import MESH
from braid.kernel.decider import Context
from braid.kernel.errors import AccessDenied, Conflict, Invalid, NotFound, Unauthenticated
from braid.kernel.limits.access.audit import AUDIT_COMMAND_CHARS_MAX
from braid.kernel.ports import Caller
from braid.runtime.access.approval_codec import (
    APPROVALS,
    approval_message,
    policy_message,
    read_policy,
    read_request,
)
from braid.runtime.access.approval_history import ApprovalsState, Command, Decide, DeletePolicy, SetPolicy
from braid.runtime.access.approvals import Destruction, approvals_of
from braid.runtime.replica import Replica
from services.registry.servicer.request_context import page_of


class ApprovalRequests:
    """Handlers of RPCs on approvals in one replica."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._approvals = replica.approvals

    async def set_policy(self, request: api.SetApprovalPolicyRequest, caller: Caller) -> api.ApprovalPolicy:
        """Sets a policy, and returns it as recorded. To replace another one may need an approval itself.

        Raises:
            Invalid: the policy is malformed.
            ApprovalRequired: a policy guards the one that it would replace.
            Conflict: that was replaced while this waited.
            Exhausted: the mesh has as many policies as there may be.
        """
        self._replica.require_leader()
        self._approvals.require_known()
        policy = check_policy(read_policy(api.ApprovalPolicy(name=request.name, spec=request.spec)))
        command = SetPolicy(policy)
        if not request.dry_run:
            await self._require_approval("SetApprovalPolicy", request, caller)
        state = await self._executed(command, caller, request.dry_run)
        return policy_message(self._policy(state, request.name))

    async def delete_policy(self, request: api.DeleteApprovalPolicyRequest, caller: Caller) -> api.ApprovalPolicy:
        """Deletes a policy, and returns it as it was.

        Raises:
            NotFound: there is no such policy; a repeated request is answered.
            ApprovalRequired: a policy guards it.
            Conflict: it was replaced while this waited.
        """
        self._replica.require_leader()
        self._approvals.require_known()
        before = await self._require_approval("DeleteApprovalPolicy", request, caller)
        await self._executed(DeletePolicy(request.name, request.reason), caller)
        return policy_message(before) if before is not None else api.ApprovalPolicy(name=request.name)

    async def list_policies(
        self, request: api.ListApprovalPoliciesRequest, caller: Caller
    ) -> api.ListApprovalPoliciesResponse:
        """Policies by name."""
        self._approvals.require_known()
        found = sorted(self._approvals.state.policies.items())
        page, token = page_of(found, request.page_size, request.page_token)
        return api.ListApprovalPoliciesResponse(policies=map(policy_message, page), next_page_token=token)

    async def list_approvals(self, request: api.ListApprovalsRequest, caller: Caller) -> api.ListApprovalsResponse:
        """Approvals that wait, and those that were decided lately, in the order in which they were asked for."""
        self._approvals.require_known()
        led_ms = self._approvals.led_ms
        found = [(f"{each.asked_ms:016d} {each.id}", each) for each in approvals_of(self._approvals.state)]
        page, token = page_of(found, request.page_size, request.page_token)
        messages = [approval_message(each, led_ms) for each in page]
        return api.ListApprovalsResponse(approvals=messages, next_page_token=token)

    async def decide(self, request: api.DecideApprovalRequest, caller: Caller) -> api.Approval:
        """Approves or refuses another principal's request. The principal that asked may only take it back.

        Raises:
            NotFound: nothing waits under this id.
            Unauthenticated: nobody knows who decides.
            AccessDenied: the caller asked for it, or may not do it itself.
            Refused: it was decided or used, or has expired.
        """
        self._replica.require_leader()
        self._approvals.require_known()
        if not caller.authenticated or not caller.principal:
            remedy = "connect by mutual TLS, or with a token"
            raise Unauthenticated("an approval takes a caller that has proved who it is", remedy=remedy)
        asked = self._approvals.state.find(request.id).request
        withdraws = request.refused and caller.principal == asked.asked_by
        if not withdraws and caller.principal != asked.asked_by:
            self._require_rights(request.id, caller)
        command = Decide(request.id, request.refused, request.reason, self._approvals.led_ms)
        state = await self._executed(command, caller, request.dry_run)
        return approval_message(state.find(request.id), self._approvals.led_ms)

    async def claim(self, request: api.ClaimApprovalRequest, caller: Caller) -> api.ClaimApprovalResponse:
        """Answers another service whether a request of its caller may be carried out; uses up its approval.

        Raises:
            Invalid: the request is malformed.
            Exhausted: too many requests of that caller wait.
        """
        guarded = read_request(request.request)
        if not guarded.verbs or not guarded.resources or not guarded.asked_by or not request.request_id:
            message = "a claim names verbs, resources, who asks, and its request id"
            raise Invalid(message, field="request", remedy="name them")
        if len(guarded.command) > AUDIT_COMMAND_CHARS_MAX:
            raise Invalid("the command is too long", field="request.command", remedy="shorten it")
        claimed = await self._approvals.claim(guarded, request.request_id)
        answer = api.ClaimApprovalResponse(allowed=claimed.allowed)
        if claimed.approval.id:
            answer.approval.CopyFrom(claimed.approval)
        return answer

    async def _require_approval(
        self, rpc: str, request: api.SetApprovalPolicyRequest | api.DeleteApprovalPolicyRequest, caller: Caller
    ) -> ApprovalPolicy | None:
        """Returns the policy that the request takes away, once that needs no approval or has it; None for none."""
        before = self._approvals.state.policies.get(request.name)
        if before is None:
            return None
        destruction = Destruction((GuardedVerb.CHANGE_POLICY,), (MESH,), f"{before.name} {before.set_ms}")
        await self._approvals.require(rpc, request, destruction, caller)
        if self._approvals.state.policies.get(request.name) != before:
            raise Conflict(f"the policy {request.name} was changed meanwhile", field="name", remedy="look again")
        return before

    def _require_rights(self, id: str, caller: Caller) -> None:
        asked = self._approvals.state.find(id).request
        self._replica.access.require_known()
        if not self._approvals.may_approve(caller.principal, asked):
            needs = ", ".join(f"{each.action.value} {each.resource}" for each in asked.needs)
            message = f"{caller.principal} cannot decide on {id}: it may not do it itself ({needs})"
            facts = {"principal": caller.principal, "approval": id}
            raise AccessDenied(message, remedy="somebody with these rights decides", metadata=facts)

    async def _executed(self, command: Command, caller: Caller, dry_run: bool = False) -> ApprovalsState:
        """The state after the command; with a dry run nothing is recorded."""
        if not dry_run:
            return await self._approvals.execute(command, caller, caller.request_id)
        state = self._approvals.state
        context = Context(self._replica.host.clock.now_ms(), caller.principal, caller.tenant)
        for event in APPROVALS.decider.decide(state, command, context):
            state = APPROVALS.decider.evolve(state, event, context)
        return state

    def _policy(self, state: ApprovalsState, name: str) -> ApprovalPolicy:
        found = state.policies.get(name)
        if found is None:  # it was deleted again since the request was first answered
            raise NotFound(f"the policy {name} was deleted since", field="name", remedy="set it again")
        return found
