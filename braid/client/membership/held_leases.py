"""The leases of one member, and the deadline until which they are certain.

The deadline counts from the send time of the last acknowledged heartbeat. The group's ownership decides what happens
after it. An `at_least_once` group continues for a bounded time with its leases; an `exclusive` group gives up all of
them. No stream here.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence

from braid.api.assigner.v1 import join_pb2 as wire
from braid.client.membership.lease_protocol import LeaseListener
from braid.client.records.delivery import OwnedLease
from braid.client.tasks import happens
from braid.kernel.ids import LeaseId
from braid.kernel.limits.assigner.leases import CLOCK_RATE_SLACK, HEARTBEAT_MS_MAX, LEASE_MS_DEFAULT
from braid.kernel.limits.client import EXCLUSIVE_MARGIN
from braid.kernel.ports import Generation, Host, TopicPartition

_log = logging.getLogger("braid.consumer")


class HeldLeases:
    """Leases that a member was granted and has neither released nor lost; iterates in the order of their grants.

    Attributes:
        group: Whose leases they are.
        lease_seconds: How long leases last after a heartbeat.
        heartbeat_seconds: How often one is due.
        heard_at: When the last acknowledged heartbeat was sent (`Clock.elapsed`).
        times_given_up: How often all of them were given up because time ran out.
    """

    def __init__(
        self,
        host: Host,
        group: str,
        listener: LeaseListener,
        *,
        lease_ms: int,
        exclusive: bool,
        detached_seconds_max: float,
    ) -> None:
        """`lease_ms` counts until a welcome says another; 0 stands for the default.

        `detached_seconds_max` bounds how long leases that are not exclusive are worked on past the deadline.
        """
        self.group = group
        self.heard_at = 0.0
        self.times_given_up = 0
        self._host = host
        self._listener = listener
        self._exclusive = exclusive
        self._detached_seconds_max = detached_seconds_max
        self._held: dict[LeaseId, OwnedLease] = {}
        self.lease_seconds = (lease_ms or LEASE_MS_DEFAULT) / 1000
        self.heartbeat_seconds = HEARTBEAT_MS_MAX / 1000
        self._deadline = 0.0
        self._lost_at: float | None = None  # when exclusive leases were lost whose work may still run
        self._lost = asyncio.Event()  # set when exclusive leases are lost

    def __iter__(self) -> Iterator[OwnedLease]:
        return iter(list(self._held.values()))

    @property
    def certain(self) -> bool:
        """Whether the assigner acknowledged a heartbeat recently enough."""
        return self._host.clock.elapsed() < self._deadline

    def extend(self, sent_at: float) -> None:
        """Notes that a heartbeat sent then is acknowledged, which moves the deadline."""
        self.heard_at = max(self.heard_at, sent_at)
        self._deadline = max(self._deadline, sent_at + self.lease_seconds * (1 - CLOCK_RATE_SLACK))

    # --- what the assigner says

    def welcomed(self, welcome: wire.MemberWelcome, sent_at: float) -> list[wire.ReleasedLease]:
        """Keeps the leases that a welcome confirms; returns those the assigner counts as held but the member lacks."""
        self.lease_seconds = welcome.lease_ms / 1000
        self.heartbeat_seconds = welcome.heartbeat_ms / 1000
        self.extend(sent_at)
        kept = {(LeaseId.parse(each.lease), each.epoch) for each in welcome.kept}
        self._lose([lease for lease, held in self._held.items() if (lease, held.epoch) not in kept])
        return [_not_held(each) for each in welcome.kept if self._under(each) is None]

    def apply(self, delta: wire.LeaseDelta) -> list[wire.ReleasedLease]:
        """Applies a change, generations last; returns revoked leases that are no longer held."""
        granted: list[OwnedLease] = []
        unknown: list[wire.RevokedLease] = []
        for cluster in delta.clusters:
            unknown += [revoked for revoked in cluster.revoked if not self._revoke(revoked)]
            for grant in cluster.granted:
                lease = LeaseId.parse(grant.lease)
                where = TopicPartition(grant.topic, grant.partition)
                self._held[lease] = held = OwnedLease(lease, grant.epoch, cluster.cluster, where)
                granted.append(held)
        if granted:
            self._listener.granted(granted)
        for cluster in delta.clusters:
            if cluster.HasField("generation"):
                borrowed = Generation(cluster.generation.generation, cluster.generation.member_id)
                self._listener.lent(cluster.cluster.name, borrowed)
        # What is asked back may have been granted by the same delta: a member that reconnects hears of both at once.
        return [_not_held(each) for each in unknown if not self._revoke(each) and each.deadline_ms > 0]

    # --- what ends them

    def release(self, lease: LeaseId, epoch: int) -> bool:
        """Removes a lease that is given back; False when it is not held under that epoch."""
        held = self._held.get(lease)
        if held is None or held.epoch != epoch:
            return False
        del self._held[lease]
        return True

    def lose_all(self) -> None:
        """Drops all leases and tells the listener."""
        self._lose(list(self._held))

    async def guard(self) -> None:
        """Gives up leases in time: exclusive ones a margin before the deadline, others a while after it."""
        while self._exclusive:
            moment = min(self._margin_seconds, self.heartbeat_seconds) / 4
            left = self._deadline - self._margin_seconds - self._host.clock.elapsed()
            self._lost.clear()
            await happens(self._lost, moment if self._lost_at is not None else max(left, moment))
            self.may_start()
            self._check_ended()
        while not self._exclusive:
            until = self._deadline + self._detached_seconds_max
            await self._host.clock.sleep(max(until - self._host.clock.elapsed(), self.heartbeat_seconds))
            if self._held and self._host.clock.elapsed() - self._deadline > self._detached_seconds_max:
                _log.warning(
                    "group %s: no assigner was in reach for %g s: leases are given up",
                    self.group, self._detached_seconds_max,
                )  # fmt: skip
                self._give_up()

    def may_start(self) -> bool:
        """Whether a handler may start now.

        After the deadline less a margin, an exclusive member gives up all leases.
        """
        if not self._exclusive or self._host.clock.elapsed() < self._deadline - self._margin_seconds:
            return True
        if self._held:
            self._give_up()
        return False

    async def work_ended(self) -> None:
        """Waits until no lost exclusive lease is worked on: a hello without leases asserts that."""
        while self._lost_at is not None:
            await self._host.clock.sleep(self._margin_seconds / 4)
            self._check_ended()

    @property
    def _margin_seconds(self) -> float:
        return self.lease_seconds * EXCLUSIVE_MARGIN

    def _check_ended(self) -> None:
        """Ends the process if it still works on a lease that may be another's: two live holders never overlap."""
        if self._lost_at is None:
            return
        if not self._listener.busy():
            self._lost_at = None
        elif self._host.clock.elapsed() - self._lost_at > self._margin_seconds:
            self._host.exit("records of an exclusive lease that ran out are still worked on, and cannot be cancelled")

    def _give_up(self) -> None:
        """Drops all leases; the next hello says so."""
        self.times_given_up += 1
        self.lose_all()

    def _under(self, named: wire.HeldLease | wire.RevokedLease) -> OwnedLease | None:
        """Returns the lease of that name, if it is held under that epoch."""
        held = self._held.get(LeaseId.parse(named.lease))
        return held if held is not None and held.epoch == named.epoch else None

    def _revoke(self, revoked: wire.RevokedLease) -> bool:
        """Marks a lease as asked back; returns whether it is held."""
        held = self._under(revoked)
        if held is None:
            return False
        if revoked.deadline_ms <= 0:
            self._lose([held.id], to_others=False)
        else:
            self._listener.revoked(held, revoked.deadline_ms / 1000)
        return True

    def _lose(self, leases: Sequence[LeaseId], *, to_others: bool = True) -> None:
        """Drops leases; work on exclusive ones that another may get must end soon."""
        lost = [self._held.pop(lease) for lease in leases if lease in self._held]
        if not lost:
            return
        if self._exclusive and to_others and self._lost_at is None:
            self._lost_at = self._host.clock.elapsed()
            self._lost.set()
        self._listener.lost(lost)


def _not_held(named: wire.HeldLease | wire.RevokedLease) -> wire.ReleasedLease:
    return wire.ReleasedLease(lease=named.lease, epoch=named.epoch, reason="not held")
