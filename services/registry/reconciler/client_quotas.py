"""Brings tenants' quotas of bytes to every cluster while leading, and takes away those that nobody wants any more.

Each look compares what tenants declare, what the cluster's history remembers, and what the cluster has
(`policy/client_quotas.py`). What is to be set is recorded first. So a leader that takes over at any moment, a request
that arrives twice, and a write of a deposed leader that comes late are all mended by the next look.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from braid.kernel.access.tenants import Tenant
from braid.kernel.errors import BraidError, ClusterAccessDenied, CorruptHistory, Unavailable
from braid.kernel.limits.registry.resources import (
    CLIENT_QUOTAS_ABSENT_SECONDS,
    CLIENT_QUOTAS_GATHER_SECONDS,
    CLIENT_QUOTAS_LOOK_SECONDS,
    CLIENT_QUOTAS_RECORDED_AT_ONCE,
    CLIENT_QUOTAS_RETRY_SECONDS,
)
from braid.kernel.ports import QuotaEntity
from braid.runtime.histories.kinds import Change, Reloaded
from braid.runtime.replica import Replica
from services.registry.each_cluster import watch_each
from services.registry.histories import CLUSTERS, read_cluster
from services.registry.kafka.clients import Access
from services.registry.model.clusters.client_quotas import (
    ClientQuota,
    ClientQuotasCommand,
    IntendClientQuotas,
    QuotaKey,
    ReleaseClientQuotas,
)
from services.registry.model.clusters.cluster import Cluster
from services.registry.policy.client_quotas import Comparison, Wish, compare, wishes_on, without_own
from services.registry.term_tasks import Signal, wait_for

_FIRST_RETRY, _LAST_RETRY = CLIENT_QUOTAS_RETRY_SECONDS


class QuotaState(Enum):
    """Where the quotas of one tenant stand on one cluster."""

    PENDING = "pending"
    APPLIED = "applied"
    REFUSED = "refused"


class QuotaStatus(NamedTuple):
    """The state, why it is so where it is not applied, and what to do about it."""

    state: QuotaState
    reason: str = ""
    remedy: str = ""


NOT_LOOKED: Final = QuotaStatus(QuotaState.PENDING, "the registry has not looked at the cluster yet")


@dataclass
class _Sight:
    """The state of looks at one cluster.

    Attributes:
        retry_seconds: Until the next try after a failure; grows while it fails.
        absent: Since when each remembered quota that nobody wants was seen to be gone.
    """

    retry_seconds: float = _FIRST_RETRY
    absent: dict[QuotaKey, float] = field(default_factory=dict)


class QuotaKeeper:
    """Keeps the quotas of Kafka users on all clusters for one term.

    Attributes:
        leftovers: Why a cluster still has quotas that no tenant wants; by cluster.
    """

    def __init__(self, replica: Replica, access: Access) -> None:
        self.leftovers: dict[str, QuotaStatus] = {}
        self._replica = replica
        self._access = access
        self._changed = Signal()
        self._told: dict[str, dict[str, QuotaStatus]] = {}  # by cluster, by tenant

    def status(self, tenant: Tenant) -> Mapping[str, QuotaStatus]:
        """Where a tenant's quotas stand, by cluster; empty if it has none for Kafka."""
        if not tenant.quotas.of_kafka:
            return {}
        registered = [name for name, each in self._replica.aggregates.states(CLUSTERS).items() if each.exists]
        found = {
            name: self._told.get(name, {}).get(tenant.name, NOT_LOOKED)
            for name in registered
            if any(user.is_on(name) for user in tenant.kafka_users)
        }
        for name in sorted({each for user in tenant.kafka_users for each in user.clusters} - set(registered)):
            found[name] = QuotaStatus(QuotaState.PENDING, f"there is no cluster {name}", "see: braid get clusters")
        return found

    async def run(self) -> None:
        """Keeps quotas until cancelled; does nothing before every tenant is known."""
        unsubscribe = self._replica.tenants.histories.subscribe(self._tenants_changed)
        try:
            await self._know_tenants()
            await watch_each(self._replica, self._watch)
        finally:
            unsubscribe()

    def _tenants_changed(self, _: Change | Reloaded) -> None:
        self._changed.fire()

    async def _know_tenants(self) -> None:
        """Reads the tenants to their last change: with fewer, quotas would be taken away."""
        await self._replica.tenants.known()
        while True:
            try:
                await self._replica.tenants.histories.catch_up()
            except CorruptHistory:
                return  # each look says so
            except Unavailable:
                await self._replica.host.clock.sleep(_FIRST_RETRY)
            else:
                return

    async def _watch(self, name: str) -> None:
        """Keeps the quotas of one cluster until it is deleted."""
        sight = _Sight()
        try:
            while (cluster := read_cluster(self._replica.aggregates, name)).exists:
                changed = self._changed.next()
                if await wait_for(changed, await self._look(cluster, sight)):
                    await self._replica.host.clock.sleep(CLIENT_QUOTAS_GATHER_SECONDS)
        finally:
            self._told.pop(name, None)
            self.leftovers.pop(name, None)

    async def _look(self, cluster: Cluster, sight: _Sight) -> float:
        """Compares once, and does what is to be done. Returns the seconds until the next look."""
        wishes = [] if cluster.emptied else wishes_on(cluster.name, self._replica.tenants.state.all())
        if not wishes and not cluster.client_quotas:
            self._tell(cluster, (), {})
            sight.absent.clear()
            return CLIENT_QUOTAS_LOOK_SECONDS
        try:
            self._require_sure(cluster)
            refused = await self._bring(cluster, wishes, sight)
        except BraidError as error:
            self._tell(cluster, wishes, dict.fromkeys([*(each.tenant for each in wishes), ""], error))
            seconds, sight.retry_seconds = sight.retry_seconds, min(2 * sight.retry_seconds, _LAST_RETRY)
            return seconds
        self._tell(cluster, wishes, refused)
        sight.retry_seconds = _FIRST_RETRY
        return CLIENT_QUOTAS_LOOK_SECONDS

    def _require_sure(self, cluster: Cluster) -> None:
        """Raises `Unavailable` while nothing may be decided on the cluster's quotas."""
        if self._replica.tenants.histories.corrupt is not None:
            raise Unavailable("this release cannot read the tenants", remedy="run a newer release")
        if cluster.belonging.refusal:
            raise Unavailable(f"cluster {cluster.name} is {cluster.belonging.refusal}")
        if not cluster.reachable:
            raise Unavailable(f"cluster {cluster.name} is {cluster.health.name}")

    async def _bring(self, cluster: Cluster, wishes: Sequence[Wish], sight: _Sight) -> Mapping[str, BraidError]:
        """Brings the cluster's quotas to what is wanted; returns why not, by tenant ('' for those nobody wants).

        Raises:
            BraidError: nothing could be read or recorded.
        """
        wishes, refused = without_own(wishes, self._access.user(cluster.spec), cluster.name)
        users = {*(each.quota.user for each in wishes), *(each.user for each in cluster.client_quotas)}
        await self._access.described(cluster)
        found = await self._access.admin(cluster, "quotas").client_quotas(sorted(users))
        comparison = compare(wishes, cluster.client_quotas, found)
        await self._release(cluster, comparison.absent, sight)
        for start in range(0, len(comparison.intend), CLIENT_QUOTAS_RECORDED_AT_ONCE):
            part = comparison.intend[start : start + CLIENT_QUOTAS_RECORDED_AT_ONCE]
            await self._execute(cluster, IntendClientQuotas(tuple(part)))
        failed = await self._change(cluster, comparison)
        owners = {wish.quota.about.entity: wish.tenant for wish in wishes}
        return {**{owners.get(each, ""): error for each, error in failed.items()}, **comparison.refused, **refused}

    async def _change(self, cluster: Cluster, comparison: Comparison) -> Mapping[QuotaEntity, BraidError]:
        """Sets and removes quotas; returns which ones the cluster refused.

        Raises:
            Unavailable: the cluster does not answer, or refuses this client.
        """
        admin, failed = self._access.admin(cluster, "quotas"), dict[QuotaEntity, BraidError]()
        for entity, changes in comparison.change.items():
            self._replica.require_leader()
            try:
                await admin.alter_client_quotas(entity, changes)
            except Unavailable:
                raise
            except BraidError as error:
                failed[entity] = error
        return failed

    async def _release(self, cluster: Cluster, absent: Sequence[ClientQuota], sight: _Sight) -> None:
        """Forgets quotas that have been gone for a while.

        A write of a leader that was deposed may still be on its way. What is remembered is then taken away again.
        """
        now = self._replica.host.clock.elapsed()
        sight.absent = {each.about: sight.absent.get(each.about, now) for each in absent}
        gone = [each for each in absent if now - sight.absent[each.about] >= CLIENT_QUOTAS_ABSENT_SECONDS]
        if gone:
            await self._execute(cluster, ReleaseClientQuotas(tuple(gone)))

    async def _execute(self, cluster: Cluster, command: ClientQuotasCommand) -> None:
        await self._replica.aggregates.execute(
            CLUSTERS, cluster.name, command, actor=self._replica.instance, cause="quotas of tenants"
        )

    def _tell(self, cluster: Cluster, wishes: Iterable[Wish], failed: Mapping[str, BraidError]) -> None:
        """Notes where each tenant stands; logs what is new."""
        before = self._told.get(cluster.name, {})
        told = {each.tenant: _status(failed.get(each.tenant)) for each in wishes}
        self._told[cluster.name] = told
        for tenant, status in told.items():
            if status.reason and status != before.get(tenant):
                self._log(cluster, tenant, status)
        left = self._left(cluster, failed.get(""))
        if left is not None and left != self.leftovers.get(cluster.name):
            self._log(cluster, "", left)
        if left is None:
            self.leftovers.pop(cluster.name, None)
        else:
            self.leftovers[cluster.name] = left

    def _left(self, cluster: Cluster, error: BraidError | None) -> QuotaStatus | None:
        """Why quotas that nobody wants are still there, if some are."""
        wanted = {each.quota.about for each in wishes_on(cluster.name, self._replica.tenants.state.all())}
        unwanted = [each for each in cluster.client_quotas if cluster.emptied or each.about not in wanted]
        return _status(error) if error is not None and unwanted else None

    def _log(self, cluster: Cluster, tenant: str, status: QuotaStatus) -> None:
        self._replica.log.warning(
            "quotas of Kafka users wait", cluster=cluster.name, tenant=tenant, reason=status.reason
        )


def _status(error: BraidError | None) -> QuotaStatus:
    if error is None:
        return QuotaStatus(QuotaState.APPLIED)
    waits = isinstance(error, Unavailable) and not isinstance(error, ClusterAccessDenied)
    return QuotaStatus(QuotaState.PENDING if waits else QuotaState.REFUSED, error.message, error.remedy)
