"""`doctor` names a tenant that has used up a quota, and byte quotas that are not on their clusters."""

from braid.api.assigner.v1.group_pb2 import Group, GroupStatus
from braid.api.registry.v1 import tenant_pb2 as api
from braid.api.registry.v1.tenant_pb2 import KafkaQuotaStatus, Tenant, TenantQuotas, TenantSpec, TenantUse
from braid.cli.doctor.findings import Level
from braid.cli.doctor.tenant_findings import check_kafka_quotas, check_tenants

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


def test_byte_quotas_that_are_not_on_their_clusters_are_named() -> None:
    applied = KafkaQuotaStatus(cluster="east", state=api.KAFKA_QUOTA_STATE_APPLIED)
    pending = KafkaQuotaStatus(cluster="west", state=api.KAFKA_QUOTA_STATE_PENDING, reason="cluster west is DOWN")
    refused = KafkaQuotaStatus(
        cluster="north", state=api.KAFKA_QUOTA_STATE_REFUSED, reason="no right", remedy="give it"
    )
    waiting = Tenant(name="acme", kafka_quotas=[applied, pending, refused])
    found = check_kafka_quotas([waiting, Tenant(name="bakery", kafka_quotas=[applied]), Tenant(name="c")], [pending])
    assert [(each.name, each.level) for each in found] == [
        ("tenant/acme", Level.WARN),
        ("tenant/acme", Level.FAIL),
        ("tenant/bakery", Level.OK),
        ("cluster/west", Level.WARN),
    ]
    assert "cluster west: cluster west is DOWN" in found[0].message and found[1].remedy == "give it"
    assert "no tenant wants: cluster west is DOWN" in found[3].message
