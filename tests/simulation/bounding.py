"""An admin who declares tenants with byte quotas again and again, while the registry's leader dies between its steps.

By construction, every third quota that a leader records is its last deed: it dies before it can set it. After every
third quota that a cluster sets, the leader dies before it is answered.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Mapping
from typing import Final

from braid.api.registry.v1 import tenant_pb2 as api
from braid.kernel.errors import BraidError, NotFound
from braid.kernel.ports import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, QuotaEntity
from testbed.checkers.facts import QuotaChanged
from testbed.checkers.quotas import OwnQuotas
from tests.simulation.world import World

_TENANT: Final = "acme"
_SHOP, _BATCH, _TAKEN = QuotaEntity("shop"), QuotaEntity("shop", "batch"), QuotaEntity("taken")
# What somebody else has set: of a user that no tenant names, of one that a tenant names, another key of a third one.
_THEIRS: Final[Mapping[QuotaEntity, Mapping[str, float]]] = {
    QuotaEntity("stranger"): {PRODUCER_BYTE_RATE: 7.0},
    _TAKEN: {PRODUCER_BYTE_RATE: 7.0},
    _SHOP: {CONSUMER_BYTE_RATE: 9.0},
}
_EVERY: Final = 3  # time a leader dies
_AWAY_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 0.5


def own_quotas() -> OwnQuotas:
    """The checker, which knows what somebody else has set."""
    return OwnQuotas(frozenset((*entity, key) for entity, values in _THEIRS.items() for key in values))


class Bounding:
    """The admin, the somebody else, and what befalls leaders."""

    def __init__(self, world: World, checker: OwnQuotas) -> None:
        """Sets what somebody else sets, on clusters that no tenant was declared for yet."""
        self._world = world
        self._dice = random.Random(f"quotas/{world.plan.seed}")
        self._rate = 0
        self._clusters: tuple[str, ...] = ()
        self._steps: Counter[str] = Counter()
        for name in world.plan.clusters:
            quotas = world.kafka.named(name).client_quotas
            for entity, values in _THEIRS.items():
                quotas.alter(entity, values)
            self._observe(name)
        checker.recorded = lambda: self._step("recorded a quota")
        self._running = world.host.tasks.spawn(self._run(world.plan.fault_seconds), "admin of quotas")

    async def ended(self) -> None:
        """Waits until the last declaration was made."""
        await self._running.ended()

    async def _run(self, seconds: float) -> None:
        """Declares, changes and deletes for so long; something stays declared in the end."""
        clock = self._world.host.clock
        until = clock.elapsed() + seconds
        while clock.elapsed() < until:
            await (self._delete() if self._rate and self._dice.random() < 0.4 else self._declare())
            await clock.sleep(self._dice.uniform(0.5, 4.0))
        await self._declare()

    def left(self) -> list[str]:
        """Clusters whose quotas are not as declared last, and how."""
        found: list[str] = []
        for name in self._world.plan.clusters:
            present = self._world.kafka.named(name).client_quotas.describe(["shop", "taken", "stranger"])
            wanted = {entity: dict(values) for entity, values in _THEIRS.items()}
            if self._rate and name in self._clusters:
                for entity in (_SHOP, _BATCH):
                    wanted.setdefault(entity, {})[PRODUCER_BYTE_RATE] = float(self._rate)
            if present != wanted:
                found.append(f"{name} has {present}, not {wanted}")
        return found

    async def _declare(self) -> None:
        clusters = tuple(sorted(self._dice.sample(self._world.plan.clusters, self._dice.randint(1, 2))))
        rate = self._dice.randint(1, 1_000_000)
        users = [
            api.KafkaUser(name=each.user, client_id=each.client_id, clusters=clusters)
            for each in (_SHOP, _BATCH, _TAKEN)
        ]
        spec = api.TenantSpec(kafka_users=users, quotas=api.TenantQuotas(producer_bytes_per_second=rate))
        await self._insist("SetTenant", api.SetTenantRequest(name=_TENANT, spec=spec))
        self._rate, self._clusters = rate, clusters

    async def _delete(self) -> None:
        await self._insist("DeleteTenant", api.DeleteTenantRequest(name=_TENANT))
        self._rate = 0

    async def _insist(self, method: str, request: api.SetTenantRequest | api.DeleteTenantRequest) -> None:
        while True:
            try:
                await self._world.registry.unary(method, request, api.Tenant)
            except NotFound:
                return  # it was deleted by a call whose answer was lost
            except BraidError as error:
                self._world.journal.say(f"{method} again: {error}")
                await self._world.host.clock.sleep(_AGAIN_SECONDS)
            else:
                return

    def _observe(self, cluster: str) -> None:
        quotas = self._world.kafka.named(cluster).client_quotas
        real = quotas.alter

        def alter(entity: QuotaEntity, changes: Mapping[str, float | None]) -> None:
            real(entity, changes)
            for key, value in changes.items():
                self._world.journal.note(QuotaChanged(cluster, *entity, key, value))
            self._step("set a quota")

        quotas.alter = alter  # type: ignore[method-assign]

    def _step(self, what: str) -> None:
        """A leader has done a step; every third one of a kind is its last."""
        self._steps[what] += 1
        if self._steps[what] % _EVERY:
            return
        leader = self._world.leader("registry")
        self._world.journal.say(f"SCRIPT {leader} has {what} and dies")
        asyncio.get_running_loop().call_soon(self._end, leader)

    def _end(self, leader: str) -> None:
        if leader:
            self._world.kill(leader)
            self._world.host.tasks.spawn(self._start_again(leader), f"start {leader} again")

    async def _start_again(self, name: str) -> None:
        await self._world.host.clock.sleep(_AWAY_SECONDS)
        self._world.start_process(name)
