"""`doctor` names a tenant that has used up a quota."""

from braid.api.assigner.v1.group_pb2 import Group, GroupStatus
from braid.api.registry.v1.tenant_pb2 import Tenant, TenantQuotas, TenantSpec, TenantUse
from braid.cli.doctor.findings import Level
from braid.cli.doctor.tenant_findings import check_tenants

GROUPS = [Group(name="a", tenant="acme", status=GroupStatus(members=3)), Group(name="b", tenant="bakery")]


def tenant(use: TenantUse, **quotas: int) -> Tenant:
    return Tenant(name="acme", spec=TenantSpec(quotas=TenantQuotas(**quotas)), use=use)


def test_a_tenant_at_its_limit_is_named_with_what_it_has_used_up() -> None:
    use = TenantUse(streams=3, partitions=5)
    [found] = check_tenants([tenant(use, streams=3, partitions=6, groups=1, members=4)], GROUPS)
    assert (found.name, found.level) == ("tenant/acme", Level.WARN)
    assert found.message == "it is at its limit: 3 of 3 streams, 1 of 1 groups"


def test_a_tenant_within_its_quotas_or_without_any_is_fine() -> None:
    for each in (tenant(TenantUse(streams=3)), tenant(TenantUse(streams=2), streams=3, members=4)):
        assert [found.level for found in check_tenants([each], GROUPS)] == [Level.OK]
    assert check_tenants([], GROUPS) == []
