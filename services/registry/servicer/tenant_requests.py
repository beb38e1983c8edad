"""Handlers of RPCs on tenants. Any replica lists; the leader declares and deletes."""

from collections.abc import Sequence

from braid.api.registry.v1 import tenant_pb2 as api
from braid.kernel.access.tenants import Tenant
from braid.kernel.decider import Context
from braid.kernel.errors import NotFound
from braid.kernel.ports import Caller
from braid.runtime.access.tenant_codec import TENANTS, read_quotas, tenant_message
from braid.runtime.access.tenant_history import DeleteTenant, SetTenant, TenantsState
from braid.runtime.replica import Replica
from services.registry.servicer.request_context import page_of
from services.registry.servicer.tenant_quotas import TenantQuotas, Used


class TenantRequests:
    """Handlers of RPCs on tenants in one replica."""

    def __init__(self, replica: Replica, quotas: TenantQuotas) -> None:
        self._replica = replica
        self._quotas = quotas

    async def set(self, request: api.SetTenantRequest, caller: Caller) -> api.Tenant:
        """Declares a tenant, and returns it as recorded.

        Raises:
            Invalid: a name, a principal or a quota is out of form, or another tenant names the principal.
            Exhausted: there are as many tenants as there may be.
        """
        self._replica.require_leader()
        self._replica.tenants.require_known()
        spec = request.spec
        command = SetTenant(request.name, tuple(spec.principals), read_quotas(spec.quotas))
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
        return api.ListTenantsResponse(tenants=self._messages(page), next_page_token=token)

    def _preview(self, command: SetTenant, caller: Caller) -> TenantsState:
        """The state that the command would lead to; nothing is recorded."""
        state = self._replica.tenants.state
        context = Context(self._replica.host.clock.now_ms(), caller.principal, caller.tenant)
        for event in TENANTS.decider.decide(state, command, context):
            state = TENANTS.decider.evolve(state, event, context)
        return state

    def _messages(self, tenants: Sequence[Tenant]) -> Sequence[api.Tenant]:
        used, messages = self._quotas.used(), list[api.Tenant]()
        for each in tenants:
            streams, partitions = used.get(each.name, Used(0, 0))
            opened = self._replica.tenants.open_calls(each.name)
            use = api.TenantUse(streams=streams, partitions=partitions, open_calls=opened)
            messages.append(tenant_message(each, use))
        return messages
