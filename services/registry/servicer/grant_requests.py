"""Handlers of RPCs on grants. Any replica lists and checks; the leader grants and revokes."""

from braid.api.registry.v1 import grant_pb2 as api
from braid.kernel.access.approvals import METHOD_VERBS
from braid.kernel.access.decisions import Decision
from braid.kernel.access.grants import Grant, check_principal
from braid.kernel.access.roles import Resource
from braid.kernel.access.verbs import Question, method_of, need_of
from braid.kernel.decider import Context
from braid.kernel.errors import NotFound
from braid.kernel.ports import Caller
from braid.runtime.access.grant_codec import GRANTS, grant_message, grant_spec, read_role
from braid.runtime.access.grant_history import GrantRole, GrantsState, RevokeRole
from braid.runtime.replica import Replica
from services.registry.servicer.request_context import page_of


class GrantRequests:
    """Handlers of RPCs on grants in one replica."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    async def grant(self, request: api.GrantAccessRequest, caller: Caller) -> api.Grant:
        """Grants a role, and returns the grant as recorded.

        Raises:
            Invalid: a principal, role, resource or end is malformed.
            Exhausted: the limit of grants is reached.
        """
        self._replica.require_leader()
        spec = request.spec
        role, resource = read_role(spec.role, "spec.role"), Resource.parse(spec.resource, "spec.resource")
        command = GrantRole(spec.principal, role, resource, spec.expire_time_ms, request.lasting_ms, spec.reason)
        if request.dry_run:
            state = self._preview(command, caller)
        else:
            state = await self._replica.access.execute(command, caller)
        return self._message(state.find(spec.principal, role, resource), spec.principal)

    async def revoke(self, request: api.RevokeAccessRequest, caller: Caller) -> api.Grant:
        """Revokes a role, and returns the grant as it was.

        Raises:
            NotFound: there is no such grant; a repeated request is answered.
        """
        self._replica.require_leader()
        role, resource = read_role(request.role, "role"), Resource.parse(request.resource, "resource")
        before = self._replica.access.grants.find(request.principal, role, resource)
        command = RevokeRole(request.principal, role, resource, request.reason)
        await self._replica.access.execute(command, caller)
        return self._message(before or Grant(request.principal, role, resource), request.principal)

    async def list(self, request: api.ListGrantsRequest, caller: Caller) -> api.ListGrantsResponse:
        """Grants by principal, role and resource; only those of one principal if it is named."""
        access = self._replica.access
        access.require_known()
        found = [each for each in access.grants.all() if request.principal in ("", each.principal)]
        page, token = page_of([(" ".join(each.key), each) for each in found], request.page_size, request.page_token)
        now_ms = self._replica.host.clock.now_ms()
        admins = [each for each in sorted(access.admins) if request.principal in ("", each)]
        return api.ListGrantsResponse(
            grants=[grant_message(each, now_ms) for each in page],
            next_page_token=token,
            configured_admins=admins,
            enforced=access.enforced,
        )

    async def check(self, request: api.CheckAccessRequest, caller: Caller) -> api.CheckAccessResponse:
        """Decides a request as it would be enforced here, and returns what allows it or is missing.

        Raises:
            Invalid: a principal or a word is malformed.
        """
        principal = request.principal or (caller.principal if caller.authenticated else "")
        if request.principal:
            check_principal(principal, "principal")
        question = Question(request.verb, request.kind, request.name)
        need = need_of(question)
        access = self._replica.access
        access.require_known()
        decision = self._of_revoked(principal) or access.decide(principal, need)
        verbs = METHOD_VERBS.get(method_of(question), ())
        answer = api.CheckAccessResponse(
            allowed=decision.allowed,
            why=decision.why,
            principal=principal,
            enforced=access.enforced,
            approval_policies=self._replica.approvals.state.may_guard(verbs, need.resource),
        )
        if decision.grant is not None:
            answer.grant.CopyFrom(grant_message(decision.grant))
        if decision.missing is not None:
            answer.missing.CopyFrom(grant_spec(decision.missing))
        return answer

    def _of_revoked(self, principal: str) -> Decision | None:
        """The refusal of a principal that was revoked, whatever it was granted; None for others."""
        found = self._replica.identities.revoked.revocations.get(principal)
        if found is None:
            return None
        return Decision(False, f"{principal} was revoked{f': {found.reason}' if found.reason else ''}")

    def _preview(self, command: GrantRole, caller: Caller) -> GrantsState:
        """The state that the command would lead to; nothing is recorded."""
        state = self._replica.access.grants
        context = Context(self._replica.host.clock.now_ms(), caller.principal, caller.tenant)
        for event in GRANTS.decider.decide(state, command, context):
            state = GRANTS.decider.evolve(state, event, context)
        return state

    def _message(self, grant: Grant | None, principal: str) -> api.Grant:
        if grant is None:  # it was revoked again since the request was first answered
            raise NotFound(f"the grant of {principal} was revoked since", remedy=f"see: braid get grants {principal}")
        return grant_message(grant, self._replica.host.clock.now_ms())
