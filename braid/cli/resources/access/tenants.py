"""Tenants as items to show: their use beside their quotas, and where their quotas stand at Kafka."""

from collections.abc import Sequence
from typing import Final

from braid.api.assigner.v1 import group_pb2
from braid.api.registry.v1 import tenant_pb2 as api
from braid.cli.core.documents import Document, enum_text, to_document
from braid.cli.core.kinds import Scope
from braid.cli.core.lists import all_groups, all_tenants
from braid.cli.core.output import API_VERSION, Column, Columns, Item
from braid.cli.core.session import Session
from braid.kernel.errors import BraidError

KAFKA_QUOTAS: Final = "kafka_quotas"  # in a tenant's document
_OF_KAFKA: Final = ("producer_bytes_per_second", "consumer_bytes_per_second", "request_percentage")
_WORST_FIRST: Final = (
    api.KAFKA_QUOTA_STATE_REFUSED,
    api.KAFKA_QUOTA_STATE_PENDING,
    api.KAFKA_QUOTA_STATE_APPLIED,
)
COLUMNS: Final = Columns(
    (
        Column("STREAMS"),
        Column("PARTITIONS"),
        Column("GROUPS"),
        Column("MEMBERS"),
        Column("OPEN CALLS"),
        Column("REQUESTS/S"),
        Column("KAFKA"),
        Column("PRINCIPALS", shrinks=True),
        Column("BY", wide=True),
        Column("PRODUCE B/S", wide=True),
        Column("CONSUME B/S", wide=True),
        Column("REQUEST %", wide=True),
        Column("KAFKA USERS", wide=True),
    )
)


async def list_tenants(session: Session, scope: Scope) -> list[Item]:
    """Tenants by name, with what the assigner knows of them, if it answers."""
    found = await all_tenants(session, scope.name)
    groups = await _groups(session) if found else []
    return [tenant_item(each, groups) for each in found]


async def _groups(session: Session) -> list[group_pb2.Group] | None:
    try:
        return await all_groups(session)
    except BraidError as error:
        session.terminal.note(f"how many groups and members tenants have is not known: {error.message}")
        return None


def tenant_item(tenant: api.Tenant, groups: Sequence[group_pb2.Group] | None) -> Item:
    """The row of a tenant, whose groups are among these (None: nobody knows); its document is a manifest."""
    mine = [each for each in groups or () if each.tenant == tenant.name]
    members = sum(each.status.members for each in mine)
    use, quotas = tenant.use, tenant.spec.quotas
    cells = (
        _of(use.streams, quotas.streams),
        _of(use.partitions, quotas.partitions),
        _of(len(mine), quotas.groups) if groups is not None else "?",
        _of(members, quotas.members) if groups is not None else "?",
        _of(use.open_calls, quotas.open_calls),
        _limit(quotas.requests_per_second),
        kafka_text(tenant),
        ",".join(tenant.spec.principals) or ("all others" if tenant.name == "default" else "-"),
        tenant.changed_by,
        _limit(quotas.producer_bytes_per_second),
        _limit(quotas.consumer_bytes_per_second),
        _limit(quotas.request_percentage),
        ",".join(each.name for each in tenant.spec.kafka_users) or "-",
    )
    document: Document = {
        "apiVersion": API_VERSION,
        "kind": "Tenant",
        "metadata": {"name": tenant.name, "create_time_ms": tenant.change_time_ms},
        "spec": to_document(tenant.spec),
        "status": {
            "use": to_document(use),
            "changed_by": tenant.changed_by,
            KAFKA_QUOTAS: [to_document(each) for each in tenant.kafka_quotas],
        },
    }
    return Item(tenant.name, f"tenant/{tenant.name}", cells, tenant.change_time_ms, document)


def kafka_text(tenant: api.Tenant) -> str:
    """Where its quotas stand at Kafka: the worst state, with its clusters; `-` without any, `?` if nobody knows."""
    if not tenant.spec.kafka_users or not any(getattr(tenant.spec.quotas, name) for name in _OF_KAFKA):
        return "-"
    for state in _WORST_FIRST:
        found = [each.cluster for each in tenant.kafka_quotas if each.state == state]
        if found:
            told = enum_text(api.KafkaQuotaState.DESCRIPTOR, state)
            return told if len(found) == len(tenant.kafka_quotas) else f"{told}: {','.join(found)}"
    return "?"


def quota_lines(item: Item) -> list[str]:
    """Lines about each cluster's state of a tenant's quotas, for `describe`; empty for other things."""
    status = item.document.get("status")
    found = status.get(KAFKA_QUOTAS) if isinstance(status, dict) else None
    lines: list[str] = []
    for each in found if isinstance(found, list) else ():
        if isinstance(each, dict):
            told = f": {each['reason']}" if each["reason"] else ""
            todo = f"; try: {each['remedy']}" if each["remedy"] else ""
            lines.append(f"  {each['cluster']}  {each['state']}{told}{todo}")
    return ["Quotas at Kafka:", *lines] if lines else []


def _of(used: int, limit: int) -> str:
    return f"{used}/{limit}" if limit else str(used)


def _limit(limit: int) -> str:
    return str(limit or "-")
