"""Grants as items to show, and as manifests that `apply` takes."""

import hashlib
import re
from datetime import datetime
from typing import Final

from braid.api.registry.v1 import grant_pb2 as api
from braid.cli.core.documents import Document, enum_text, to_document
from braid.cli.core.kinds import Scope
from braid.cli.core.output import API_VERSION, Column, Columns, Item
from braid.cli.core.session import Session
from braid.cli.core.times import clock_text
from braid.kernel.limits.names import PAGE_SIZE_MAX

COLUMNS: Final = Columns(
    (
        Column("ROLE"),
        Column("ON", shrinks=True),
        Column("ENDS"),
        Column("BY", wide=True),
        Column("REASON", wide=True),
    )
)
_NAME_CHARS_MAX: Final = 54  # of a manifest's name, before what tells equal beginnings apart
_ROLE_PREFIX: Final = "ACCESS_ROLE_"


async def list_grants(session: Session, scope: Scope) -> list[Item]:
    """Grants by principal, those of the settings first; a name in the scope is a principal."""
    admins: list[str] = []

    def items(page: api.ListGrantsResponse) -> list[api.Grant]:
        admins[:] = page.configured_admins
        return list(page.grants)

    found = await session.pages(
        "registry",
        "ListGrants",
        lambda token: api.ListGrantsRequest(principal=scope.name, page_size=PAGE_SIZE_MAX, page_token=token),
        api.ListGrantsResponse,
        items,
    )
    configured = [
        api.Grant(spec=api.GrantSpec(principal=each, role=api.ACCESS_ROLE_ADMIN), granted_by="settings")
        for each in admins
    ]
    return [grant_item(each, session.now) for each in (*configured, *found)]


def grant_item(grant: api.Grant, now: datetime) -> Item:
    """The row of a grant; its document is a manifest."""
    spec = grant.spec
    cells = (
        role_text(spec.role),
        spec.resource or "mesh",
        end_text(grant, now),
        grant.granted_by,
        spec.reason,
    )
    name = manifest_name(spec)
    document: Document = {
        "apiVersion": API_VERSION,
        "kind": "Grant",
        "metadata": {"name": name, "create_time_ms": grant.grant_time_ms},
        "spec": to_document(spec),
        "status": {"granted_by": grant.granted_by, "ended": grant.ended},
    }
    return Item(spec.principal, f"grant/{name}", cells, grant.grant_time_ms, document)


def end_text(grant: api.Grant, now: datetime) -> str:
    """When a grant ends: `never`, `ENDED`, `until 18:00:00.000`."""
    if grant.ended:
        return "ENDED"
    if not grant.spec.expire_time_ms:
        return "never"
    return f"until {clock_text(grant.spec.expire_time_ms, now).partition('.')[0]}"


def role_text(role: "api.AccessRole.ValueType") -> str:
    """A role in its typed form: `stream-owner`."""
    return enum_text(api.AccessRole.DESCRIPTOR, role).replace("_", "-")


def role_number(text: str) -> "api.AccessRole.ValueType":
    """The number of a role from its typed form."""
    return api.AccessRole.Value(f"{_ROLE_PREFIX}{text.replace('-', '_').upper()}")


def manifest_name(spec: api.GrantSpec) -> str:
    """A name for a grant's manifest, always the same for the same grant; the mesh does not store it."""
    text = f"{role_text(spec.role)} {spec.principal} {spec.resource}"
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return f"{slug[:_NAME_CHARS_MAX].rstrip('-')}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
