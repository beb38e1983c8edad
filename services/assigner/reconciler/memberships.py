"""One group's memberships on clusters while this replica leads: joins as `generations` asks, and keeps them alive.

The order: append the intent with the member id, ask the cluster, append its answer and lend it. A leader that is killed
or stopped in between leaves an intent, and the next leader joins with the same member id. A leader that was only paused
and joins late makes a generation that no member is lent. Members' commits are then refused, they report it, and the
present leader makes the next generation.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from braid.kernel.errors import BraidError, ClusterUnavailable, CorruptHistory, Fenced, GroupOccupied, NotLeader
from braid.kernel.limits.assigner.leases import (
    CLUSTER_REACHED_SECONDS,
    HEARTBEAT_MS_MAX,
    MEMBERSHIP_RENEW_SECONDS,
    REFUSAL_SECONDS,
    VACANCY_SECONDS,
)
from braid.kernel.ports import Generation, Kafka, KafkaMembership, Task
from braid.kernel.timing.backoff import Backoff
from braid.runtime.replica import Replica
from braid.runtime.telemetry import AssignerMetrics
from services.assigner.model import generations
from services.assigner.model.commands import (
    Command,
    IntendBump,
    RecordBump,
    WaiveFencing,
)
from services.assigner.model.group import Group
from services.assigner.model.registry_view import ClusterPlace
from services.assigner.peers import RegistryFollower

_EVIDENCE_SECONDS: Final = CLUSTER_REACHED_SECONDS + HEARTBEAT_MS_MAX / 1000  # old is what members say of a cluster


class Memberships:
    """Clients for memberships of one term, one per cluster, made when used."""

    def __init__(self, kafka: Kafka, metrics: AssignerMetrics) -> None:
        self.metrics = metrics
        self._kafka = kafka
        self._open: dict[tuple[str, str], KafkaMembership] = {}

    def of(self, place: ClusterPlace) -> KafkaMembership:
        """Returns the client for a cluster. Raises `Invalid` for an unknown security profile."""
        key = (place.bootstrap, place.security_profile)
        if key not in self._open:
            self._open[key] = self._kafka.cluster(*key).membership()
        return self._open[key]

    async def check_vacant(self, group: str, places: Iterable[ClusterPlace]) -> None:
        """Asks clusters briefly whether others use a group's name; a cluster that does not answer is asked later.

        Raises:
            GroupOccupied: other Kafka consumers use it.
        """
        await asyncio.gather(*(self._check_vacant(group, place) for place in places))

    async def _check_vacant(self, group: str, place: ClusterPlace) -> None:
        with contextlib.suppress(ClusterUnavailable, TimeoutError):
            async with asyncio.timeout(VACANCY_SECONDS):
                await self.of(place).check_vacant(group)

    async def leave(self, group: str, member_id: str, place: ClusterPlace) -> None:
        """Ends a membership that is no longer needed; one that cannot be reached ends with its session."""
        with contextlib.suppress(ClusterUnavailable):
            await self.of(place).leave(group, member_id)

    async def close(self) -> None:
        """Frees connections."""
        opened, self._open = self._open, {}
        for membership in opened.values():
            await membership.close()


class GenerationKeeper:
    """Bumps and renews the generations of one group."""

    def __init__(
        self,
        replica: Replica,
        registry: RegistryFollower,
        memberships: Memberships,
        name: str,
        *,
        state: Callable[[], Group],
        execute: Callable[[Command, str], Awaitable[bool]],
        ask: Callable[[Command, str], None],
        reached: Callable[[str], bool],
    ) -> None:
        """`execute` decides a command at once, and balances; `ask` adds it to the next decision.

        `reached` says whether members that hold leases on a cluster reach it.
        """
        self._replica = replica
        self._registry = registry
        self._memberships = memberships
        self._name = name
        self._state = state
        self._execute = execute
        self._ask = ask
        self._reached = reached
        self._bumps: dict[str, Task] = {}
        self._renewing: Task | None = None
        self._refused: dict[str, tuple[Generation, float]] = {}

    def look(self) -> None:
        """Starts what the state asks for."""
        state, spawn = self._state(), self._replica.host.tasks.spawn
        for cluster in generations.wanting(state):
            if cluster not in self._bumps:
                self._bumps[cluster] = spawn(self._bump(cluster), f"bump of {self._name} on {cluster}")
        if state.fences and self._renewing is None:
            self._renewing = spawn(self._renew(), f"memberships of {self._name}")

    def refused(self, cluster: str, generation: Generation) -> bool:
        """Notes that a member's commit was refused.

        Returns whether a newer generation can be lent; if not, one is made.
        """
        lent, now = generations.lent(self._state(), cluster), self._replica.host.clock.elapsed()
        known, asked_at = self._refused.get(cluster, (None, float("-inf")))
        if lent == generation != known and now - asked_at >= REFUSAL_SECONDS:
            self._refused[cluster] = generation, now  # once is enough, however many members say so, and how often
            self._ask(
                IntendBump(cluster, generation.member_id, refused=generation.generation),
                f"{cluster} refused generation {generation.generation}",
            )
        return lent not in (None, generation)

    @property
    def active(self) -> bool:
        """Whether a membership is made or kept, or a refusal is remembered."""
        return bool(self._bumps or self._renewing or self._refused)

    def stop(self) -> None:
        """Ends the tasks that were started here."""
        for task in [*self._bumps.values(), *([self._renewing] if self._renewing else [])]:
            task.cancel()

    # --- bumps

    async def _bump(self, cluster: str) -> None:
        """Bumps until no newer generation is needed."""
        clock, backoff = self._replica.host.clock, Backoff(self._replica.host)
        started = clock.elapsed()
        try:
            while generations.wants_bump(self._state(), cluster):
                if not await self._attempt(cluster, clock.elapsed() - started):
                    await backoff.wait()
        except (NotLeader, CorruptHistory):
            return  # the next leader finds the intent
        finally:
            self._bumps.pop(cluster, None)

    async def _attempt(self, cluster: str, seconds: float) -> bool:
        """Makes one attempt; returns whether the next one, if needed, may come at once."""
        try:
            return await self._join(cluster)
        except (NotLeader, CorruptHistory):
            raise
        except GroupOccupied as error:
            self._replica.log.warning("nothing can be granted", group=self._name, cluster=cluster, error=str(error))
        except BraidError as error:
            self._replica.log.info("a bump waits for its cluster", group=self._name, cluster=cluster, error=str(error))
            await self._waive(cluster, seconds)
        return False

    async def _join(self, cluster: str) -> bool:
        view = self._registry.view
        place = view.clusters.get(cluster) if view else None
        if place is None:
            return False
        membership, begun = self._memberships.of(place), self._replica.host.clock.elapsed()
        member_id = generations.fence_of(self._state(), cluster).member_id
        if not member_id:
            member_id = await membership.reserve(self._name)
        try:
            made = await self._intend(cluster, membership, member_id, f"first grant on {cluster}")
        except Fenced:  # its session ended, or the cluster came back without it
            member_id = await membership.reserve(self._name)
            made = await self._intend(cluster, membership, member_id, f"{cluster} does not know its member any more")
        record = RecordBump(cluster, made.member_id, made.generation)
        counted = await self._execute(record, f"{cluster} is at generation {made.generation}")
        self._memberships.metrics.bump_seconds.observe(self._replica.host.clock.elapsed() - begun)
        return counted

    async def _intend(self, cluster: str, membership: KafkaMembership, member_id: str, cause: str) -> Generation:
        if not generations.intends(self._state(), cluster, member_id):  # most often the decision that needs it said so
            await self._execute(IntendBump(cluster, member_id), cause)
        self._replica.require_leader()
        return await membership.join(self._name, member_id)

    async def _waive(self, cluster: str, seconds: float) -> None:
        """Waives fencing if joins failed for the lease time while members reached the cluster."""
        state = self._state()
        lease_ms = state.spec.lease_ms if state.spec else 0
        if (
            seconds < max(lease_ms / 1000, _EVIDENCE_SECONDS)
            or not generations.waivable(state, cluster)
            or not self._reached(cluster)
        ):
            return
        if await self._execute(WaiveFencing(cluster), f"{cluster} takes no joins"):
            self._memberships.metrics.fencing_waived.labels(self._name).inc()
            self._replica.log.warning("grants go on unfenced", group=self._name, cluster=cluster)

    # --- renewals

    async def _renew(self) -> None:
        """Renews memberships while no member commits: otherwise the cluster would forget the progress."""
        while True:
            await self._replica.host.clock.sleep(MEMBERSHIP_RENEW_SECONDS)
            for cluster in sorted(self._state().fences):
                try:
                    await self._renew_one(cluster)
                except BraidError as error:
                    self._replica.log.info("a membership is renewed later", group=self._name, error=str(error))

    async def _renew_one(self, cluster: str) -> None:
        state, view = self._state(), self._registry.view
        lent, place = generations.lent(state, cluster), view.clusters.get(cluster) if view else None
        if lent is None or place is None or generations.wants_bump(state, cluster):
            return
        try:
            await self._memberships.of(place).renew(self._name, lent)
        except Fenced:
            self.refused(cluster, lent)
