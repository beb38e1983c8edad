"""Quotas of groups and members, checked where a request would add one. A member that is known is never refused."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from braid.kernel.access.promises import Promises
from braid.kernel.access.quotas import check_quota
from braid.runtime.histories.kinds import Change, Reloaded
from braid.runtime.replica import Replica
from services.assigner.model.group import Group
from services.assigner.reconciler.group_loop import GROUPS

_GROUPS_FREE: Final = "delete groups that nobody needs (braid get groups)"
_MEMBERS_FREE: Final = "run fewer members (braid get members)"


class _Promise(NamedTuple):
    """The group and the member that a request under way will add."""

    group: str
    member: str  # empty for a group alone


class _Counted(NamedTuple):
    """A registered group as it is counted."""

    tenant: str
    members: int


class GroupQuotas:
    """The quotas of one replica's requests on groups. Groups are counted as they change: a join looks at its own."""

    def __init__(self, replica: Replica) -> None:
        """Counts what the replica's histories say from now on."""
        self._replica = replica
        self._promises = Promises[_Promise]()
        self._counted: dict[str, _Counted] = {}
        self._groups: Counter[str] = Counter()  # by tenant, as the members
        self._members: Counter[str] = Counter()
        replica.aggregates.subscribe(self._changed)

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
        with self._promises.made(tenant, _Promise(group, member)):
            yield

    def _check(self, tenant: str, state: Group, member: str) -> None:
        quotas = self._replica.tenants.tenant(tenant).quotas
        new_group, new_member = state.spec is None, bool(member) and member not in state.members
        if not (quotas.groups and new_group) and not (quotas.members and new_member):
            return
        groups, members, promises = self._groups[tenant], self._members[tenant], self._promises.of(tenant)
        if quotas.groups and groups + len(promises) >= quotas.groups:  # else there is room, whatever is under way
            under_way = {each.group for each in promises if each.group not in self._counted}
            more = int(new_group and state.name not in under_way)
            check_quota(tenant, "groups", groups + len(under_way), more, quotas.groups, free=_GROUPS_FREE)
        if quotas.members and members + len(promises) >= quotas.members:
            joining = {each for each in promises if each.member and not self._is_member(each)}
            more = int(new_member and _Promise(state.name, member) not in joining)
            check_quota(tenant, "members", members + len(joining), more, quotas.members, free=_MEMBERS_FREE)

    def _is_member(self, promise: _Promise) -> bool:
        return promise.member in self._replica.aggregates.state(GROUPS, promise.group).members

    # --- counting

    def _changed(self, change: Change | Reloaded) -> None:
        if isinstance(change, Change):
            if isinstance(change.state, Group):
                self._count(change.history.id, change.state)
            return
        states = self._replica.aggregates.states(GROUPS)
        registered = {name: state for name, state in states.items() if state.spec is not None}
        self._counted = {name: _Counted(state.tenant, len(state.members)) for name, state in registered.items()}
        self._groups, self._members = Counter(each.tenant for each in self._counted.values()), Counter()
        for counted in self._counted.values():
            self._members[counted.tenant] += counted.members

    def _count(self, name: str, state: Group) -> None:
        self._forget(name)
        if state.spec is not None:
            counted = self._counted[name] = _Counted(state.tenant, len(state.members))
            self._groups[counted.tenant] += 1
            self._members[counted.tenant] += counted.members

    def _forget(self, name: str) -> None:
        counted = self._counted.pop(name, None)
        if counted is not None:
            self._groups[counted.tenant] -= 1
            self._members[counted.tenant] -= counted.members
