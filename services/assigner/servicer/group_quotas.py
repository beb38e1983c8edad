"""Quotas of groups and members, checked where a request would add one. A member that is known is never refused.

A quota is about all groups of a tenant, a history about one. So a request that was let through is counted as if it
were recorded, until it is or has failed.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

from braid.kernel.access.quotas import check_quota
from braid.runtime.replica import Replica
from services.assigner.model.group import Group, Member
from services.assigner.reconciler.group_loop import GROUPS

_GROUPS_FREE: Final = "delete groups that nobody needs (braid get groups)"
_MEMBERS_FREE: Final = "run fewer members (braid get members)"


class _Promise(NamedTuple):
    """The group and the member that a request under way will add."""

    group: str
    member: str  # empty for a group alone


class GroupQuotas:
    """The quotas of one replica's requests on groups."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._promises: dict[str, Counter[_Promise]] = {}  # by tenant

    @contextmanager
    def promised(self, group: str, tenant: str, member: str = "") -> Iterator[None]:
        """Checks that a group may be registered, and that a member may join it; counts both from then on to the end.

        Args:
            group: The group's name.
            tenant: The caller's tenant, which has the group if it is new.
            member: The member's id; empty where none joins.

        Raises:
            QuotaExceeded: the group's tenant has too many groups or members.
        """
        state = self._replica.aggregates.state(GROUPS, group)
        tenant = tenant if state.spec is None else state.tenant
        self._check(tenant, state, member)
        promise, promises = _Promise(group, member), self._promises.setdefault(tenant, Counter())
        promises[promise] += 1
        try:
            yield
        finally:
            promises[promise] -= 1
            if not promises[promise]:
                del promises[promise]
            if not promises and self._promises.get(tenant) is promises:
                del self._promises[tenant]

    def _check(self, tenant: str, state: Group, member: str) -> None:
        quotas = self._replica.tenants.tenant(tenant).quotas
        new_group, new_member = state.spec is None, bool(member) and member not in state.members
        if not (quotas.groups and new_group) and not (quotas.members and new_member):
            return
        groups = self._groups(tenant)
        members = sum(map(len, groups.values()))
        promises = self._promises.get(tenant, Counter[_Promise]())
        if quotas.groups and len(groups) + len(promises) >= quotas.groups:  # else there is room, whatever is under way
            under_way = {each.group for each in promises} - groups.keys()
            more = int(new_group and state.name not in under_way)
            used = len(groups) + len(under_way)
            check_quota(tenant, "groups", used, more, quotas.groups, free=_GROUPS_FREE)
        if quotas.members and members + len(promises) >= quotas.members:
            joining = {each for each in promises if each.member and each.member not in groups.get(each.group, ())}
            more = int(new_member and _Promise(state.name, member) not in joining)
            used = members + len(joining)
            check_quota(tenant, "members", used, more, quotas.members, free=_MEMBERS_FREE)

    def _groups(self, tenant: str) -> dict[str, Mapping[str, Member]]:
        """The members of each registered group of a tenant."""
        aggregates = self._replica.aggregates
        states = [aggregates.state(GROUPS, history.id) for history in aggregates.histories(GROUPS.name)]
        return {each.name: each.members for each in states if each.spec is not None and each.tenant == tenant}
