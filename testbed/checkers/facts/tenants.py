"""Facts about tenants, read from the histories at rest."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupMade:
    """A caller of a tenant registered a group."""

    group: str
    tenant: str
