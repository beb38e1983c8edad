"""Revocations as items to show."""

from datetime import datetime
from typing import Final

from braid.api.registry.v1 import revocation_pb2 as api
from braid.cli.core.documents import Document
from braid.cli.core.kinds import Scope
from braid.cli.core.output import API_VERSION, Column, Columns, Item
from braid.cli.core.session import Session
from braid.cli.core.times import clock_text
from braid.kernel.limits.names import PAGE_SIZE_MAX

COLUMNS: Final = Columns(
    (
        Column("PRINCIPAL", shrinks=True),
        Column("REASON", shrinks=True),
        Column("ENDS"),
        Column("BY", wide=True),
    )
)


async def list_revocations(session: Session, scope: Scope) -> list[Item]:
    """Revocations by identity; a name in the scope is an identity."""
    found = await session.pages(
        "registry",
        "ListRevocations",
        lambda token: api.ListRevocationsRequest(identity=scope.name, page_size=PAGE_SIZE_MAX, page_token=token),
        api.ListRevocationsResponse,
        lambda page: page.revocations,
    )
    return [revocation_item(each, session.now) for each in found]


def revocation_item(revocation: api.Revocation, now: datetime) -> Item:
    """A revocation's row and document."""
    cells = (revocation.principal or "-", revocation.reason, end_text(revocation, now), revocation.revoked_by)
    document: Document = {
        "apiVersion": API_VERSION,
        "kind": "Revocation",
        "metadata": {"name": revocation.identity, "create_time_ms": revocation.revoke_time_ms},
        "spec": {
            "identity": revocation.identity,
            "principal": revocation.principal,
            "reason": revocation.reason,
            "expire_time_ms": revocation.expire_time_ms,
        },
        "status": {"revoked_by": revocation.revoked_by, "ended": revocation.ended},
    }
    name = f"revocation/{revocation.identity}"
    return Item(revocation.identity, name, cells, revocation.revoke_time_ms, document)


def end_text(revocation: api.Revocation, now: datetime) -> str:
    """When a revoked certificate ends: `-` for a principal, `unknown`, `ENDED`, or a time."""
    if not revocation.identity.startswith(("sha256:", "serial:")):
        return "-"
    if not revocation.expire_time_ms:
        return "unknown"
    return "ENDED" if revocation.ended else clock_text(revocation.expire_time_ms, now).partition(".")[0]
