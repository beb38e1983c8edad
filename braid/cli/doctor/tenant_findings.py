"""Tenants that use up a quota, and quotas of bytes that did not reach Kafka. Pure."""

from collections.abc import Sequence

from braid.api.assigner.v1.group_pb2 import Group
from braid.api.registry.v1 import tenant_pb2 as api
from braid.api.registry.v1.tenant_pb2 import Tenant
from braid.cli.doctor.findings import Finding, Level


def check_tenants(tenants: Sequence[Tenant], groups: Sequence[Group]) -> list[Finding]:
    """Checks each tenant's use against its quotas, as far as these count what lasts; one finding for each tenant."""
    found: list[Finding] = []
    for tenant in tenants:
        mine = [each for each in groups if each.tenant == tenant.name]
        quotas = tenant.spec.quotas
        used = {
            "streams": (tenant.use.streams, quotas.streams),
            "partitions": (tenant.use.partitions, quotas.partitions),
            "groups": (len(mine), quotas.groups),
            "members": (sum(each.status.members for each in mine), quotas.members),
            "open_calls": (tenant.use.open_calls, quotas.open_calls),
        }
        full = [f"{count} of {limit} {name}" for name, (count, limit) in used.items() if limit and count >= limit]
        if full:
            remedy = "raise the quota (braid apply), or let the tenant delete what it does not need"
            message = f"it is at its limit: {', '.join(full)}"
            found.append(Finding(f"tenant/{tenant.name}", "quota", Level.WARN, message, remedy))
        else:
            found.append(Finding(f"tenant/{tenant.name}", "quota", Level.OK, "it is within its quotas"))
    return found


def check_kafka_quotas(tenants: Sequence[Tenant], leftovers: Sequence[api.KafkaQuotaStatus]) -> list[Finding]:
    """Checks that each tenant's quotas of bytes are on their clusters, and that no cluster has others of Braid's."""
    found: list[Finding] = []
    for tenant in tenants:
        waiting = [each for each in tenant.kafka_quotas if each.state != api.KAFKA_QUOTA_STATE_APPLIED]
        for each in waiting:
            refused = each.state == api.KAFKA_QUOTA_STATE_REFUSED
            message = f"its quotas of bytes are not on cluster {each.cluster}: {each.reason}"
            level = Level.FAIL if refused else Level.WARN
            found.append(Finding(f"tenant/{tenant.name}", "kafka quotas", level, message, each.remedy))
        if tenant.kafka_quotas and not waiting:
            message = f"its quotas of bytes are on {len(tenant.kafka_quotas)} clusters"
            found.append(Finding(f"tenant/{tenant.name}", "kafka quotas", Level.OK, message))
    for each in leftovers:
        message = f"it still has quotas of Kafka users that no tenant wants: {each.reason}"
        found.append(Finding(f"cluster/{each.cluster}", "kafka quotas", Level.WARN, message, each.remedy))
    return found
