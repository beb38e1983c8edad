"""Handlers of RPCs on tenants. Any replica lists; the leader declares and deletes."""

from collections.abc import Mapping, Sequence
from typing import Final

from braid.api.registry.v1 import tenant_pb2 as api
from braid.kernel.access.kafka_users import KafkaUser
from braid.kernel.access.tenants import Tenant
from braid.kernel.decider import Context
from braid.kernel.errors import Invalid, NotFound
from braid.kernel.ports import Caller
from braid.runtime.access.tenant_codec import TENANTS, read_kafka_users, read_quotas, tenant_message
from braid.runtime.access.tenant_history import DeleteTenant, SetTenant, TenantsState
from services.registry.histories import CLUSTERS
from services.registry.policy.client_quotas import own_user_refusal
from services.registry.reconciler.client_quotas import QuotaState, QuotaStatus
from services.registry.servicer.request_context import RequestContext, page_of
from services.registry.servicer.tenant_quotas import TenantQuotas, Used

_STATES: Final = {
    QuotaState.PENDING: api.KAFKA_QUOTA_STATE_PENDING,
    QuotaState.APPLIED: api.KAFKA_QUOTA_STATE_APPLIED,
    QuotaState.REFUSED: api.KAFKA_QUOTA_STATE_REFUSED,
}


class TenantRequests:
    """Handlers of RPCs on tenants in one replica."""

    def __init__(self, context: RequestContext, quotas: TenantQuotas) -> None:
        self._context = context
        self._replica = context.replica
        self._quotas = quotas

    async def set(self, request: api.SetTenantRequest, caller: Caller) -> api.Tenant:
        """Declares a tenant, and returns it as recorded.

        Raises:
            Invalid: a name, a principal, a Kafka user or a quota is out of form, or is another tenant's; or the user is
                the registry's own.
            Exhausted: there are as many tenants as there may be.
        """
        self._replica.require_leader()
        self._replica.tenants.require_known()
        spec = request.spec
        users = read_kafka_users(spec.kafka_users)
        self._check_users(users)
        command = SetTenant(request.name, tuple(spec.principals), read_quotas(spec.quotas), users)
        if request.dry_run:
            state = self._preview(command, caller)
        else:
            state = await self._replica.tenants.execute(command, caller)
        found = state.tenants.get(request.name)
        if found is None:  # it was deleted again since the request was first answered
            raise NotFound(f"tenant {request.name} was deleted since", remedy="see: braid get tenants")
        return self._messages([found])[0]

    async def delete(self, request: api.DeleteTenantRequest, caller: Caller) -> api.Tenant:
        """Forgets a tenant, and returns it as it was.

        Raises:
            NotFound: there is no such tenant; a repeated request is answered.
        """
        self._replica.require_leader()
        self._replica.tenants.require_known()
        before = self._replica.tenants.tenant(request.name)
        await self._replica.tenants.execute(DeleteTenant(request.name), caller)
        return self._messages([before])[0]

    async def list(self, request: api.ListTenantsRequest, caller: Caller) -> api.ListTenantsResponse:
        """Tenants by name, each with its use; only the one that is named."""
        self._replica.tenants.require_known()
        found = [each for each in self._replica.tenants.state.all() if request.name in ("", each.name)]
        page, token = page_of([(each.name, each) for each in found], request.page_size, request.page_token)
        leading = None if request.page_token or request.name else self._context.leading()
        left = leading.quotas.leftovers if leading is not None else {}
        return api.ListTenantsResponse(
            tenants=self._messages(page), next_page_token=token, leftovers=_status_messages(left)
        )

    def _preview(self, command: SetTenant, caller: Caller) -> TenantsState:
        """The state that the command would lead to; nothing is recorded."""
        state = self._replica.tenants.state
        context = Context(self._replica.host.clock.now_ms(), caller.principal, caller.tenant)
        for event in TENANTS.decider.decide(state, command, context):
            state = TENANTS.decider.evolve(state, event, context)
        return state

    def _check_users(self, users: Sequence[KafkaUser]) -> None:
        """Raises `Invalid` for a user that the registry itself logs in as on a cluster."""
        access = self._context.term().access
        for name, cluster in self._replica.aggregates.states(CLUSTERS).items():
            own = access.user(cluster.spec) if cluster.exists else ""
            for position, user in enumerate(users):
                if own and user.name == own and user.is_on(name):
                    refusal = own_user_refusal(own, name)
                    where = f"spec.kafka_users[{position}].name"
                    raise Invalid(refusal.message, field=where, remedy=refusal.remedy)

    def _messages(self, tenants: Sequence[Tenant]) -> Sequence[api.Tenant]:
        used, messages, leading = self._quotas.used(), list[api.Tenant](), self._context.leading()
        for each in tenants:
            streams, partitions = used.get(each.name, Used(0, 0))
            opened = self._replica.tenants.open_calls(each.name)
            use = api.TenantUse(streams=streams, partitions=partitions, open_calls=opened)
            message = tenant_message(each, use)
            if leading is not None:
                message.kafka_quotas.extend(_status_messages(leading.quotas.status(each)))
            messages.append(message)
        return messages


def _status_messages(by_cluster: Mapping[str, QuotaStatus]) -> list[api.KafkaQuotaStatus]:
    return [
        api.KafkaQuotaStatus(cluster=name, state=_STATES[each.state], reason=each.reason, remedy=each.remedy)
        for name, each in sorted(by_cluster.items())
    ]
