"""Tenants as items to show: their use beside their quotas."""

from collections.abc import Sequence
from typing import Final

from braid.api.assigner.v1 import group_pb2
from braid.api.registry.v1 import tenant_pb2 as api
from braid.cli.core.documents import Document, to_document
from braid.cli.core.kinds import Scope
from braid.cli.core.lists import all_groups, all_tenants
from braid.cli.core.output import API_VERSION, Column, Columns, Item
from braid.cli.core.session import Session
from braid.kernel.errors import BraidError

COLUMNS: Final = Columns(
    (
        Column("STREAMS"),
        Column("PARTITIONS"),
        Column("GROUPS"),
        Column("MEMBERS"),
        Column("OPEN CALLS"),
        Column("REQUESTS/S"),
        Column("PRINCIPALS", shrinks=True),
        Column("BY", wide=True),
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
        ",".join(tenant.spec.principals) or ("all others" if tenant.name == "default" else "-"),
        tenant.changed_by,
    )
    document: Document = {
        "apiVersion": API_VERSION,
        "kind": "Tenant",
        "metadata": {"name": tenant.name, "create_time_ms": tenant.change_time_ms},
        "spec": to_document(tenant.spec),
        "status": {"use": to_document(use), "changed_by": tenant.changed_by},
    }
    return Item(tenant.name, f"tenant/{tenant.name}", cells, tenant.change_time_ms, document)


def _of(used: int, limit: int) -> str:
    return f"{used}/{limit}" if limit else str(used)


def _limit(limit: int) -> str:
    return str(limit or "-")
