"""A fixed split of partitions in place of an assigner: the i-th belongs to the (i mod n)-th of n members."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from braid.client.membership.lease_protocol import LeaseListener
from braid.client.producing.routes import cluster_address
from braid.client.records.delivery import OwnedLease
from braid.kafka.memory import MemoryKafka
from braid.kernel.ids import DLQ_LANE, LeaseId, make_epoch
from braid.kernel.limits.assigner.leases import REVOKE_DEADLINE_SECONDS
from braid.kernel.ports import Generation, TopicPartition
from braid.testing.streams import Channel


@dataclass
class Group:
    """One group: its members in the order they joined, and the holder of each partition."""

    channels: Callable[[], list[Channel]]
    lanes: frozenset[str]
    kafka: MemoryKafka
    members: "list[SplitMember]" = field(default_factory=list)
    holders: "dict[LeaseId, SplitMember]" = field(default_factory=dict)
    revoking: dict[LeaseId, None] = field(default_factory=dict)
    epochs: int = 0

    def leases(self) -> dict[LeaseId, Channel]:
        """Every partition the group consumes, in a fixed order."""
        wanted = [each for each in self.channels() if self._wants(each.id.lane)]
        wanted.sort(key=lambda channel: channel.id)
        return {LeaseId(channel.id, number): channel for channel in wanted for number in range(channel.partitions)}

    def split(self) -> None:
        """Grants free partitions, and revokes those that now belong to another member."""
        granted: dict[str, list[OwnedLease]] = {}
        for position, (lease, channel) in enumerate(self.leases().items()):
            target = self.members[position % len(self.members)] if self.members else None
            holder = self.holders.get(lease)
            if target is None or holder is target:
                continue
            if holder is None:
                granted.setdefault(target.member_id, []).append(self._grant(lease, channel, target))
            elif lease not in self.revoking:
                self.revoking[lease] = None
                holder.listener.revoked(holder.held[lease], REVOKE_DEADLINE_SECONDS)
        for member in list(self.members):
            if member.member_id in granted:
                member.listener.granted(granted[member.member_id])

    def freed(self, lease: LeaseId) -> None:
        """Takes a partition that its holder released."""
        self.holders.pop(lease, None)
        self.revoking.pop(lease, None)
        self.split()

    def leaving(self, member: "SplitMember") -> None:
        """Grants a member nothing more; it releases what it holds."""
        if member in self.members:
            self.members.remove(member)

    def gone(self, member: "SplitMember") -> None:
        """Removes a member that left or died."""
        self.leaving(member)
        for lease in [lease for lease, holder in self.holders.items() if holder is member]:
            del self.holders[lease]
            self.revoking.pop(lease, None)
        member.held.clear()
        self.split()

    def _wants(self, lane: str) -> bool:
        return lane in self.lanes if self.lanes else lane != DLQ_LANE

    def _grant(self, lease: LeaseId, channel: Channel, member: "SplitMember") -> OwnedLease:
        self.epochs += 1
        address = cluster_address(channel.cluster, self.kafka.named(channel.cluster).bootstrap)
        held = OwnedLease(lease, make_epoch(1, self.epochs), address, TopicPartition(channel.topic, lease.partition))
        self.holders[lease] = member
        member.held[lease] = held
        return held


class SplitMember:
    """A `LeaseKeeper` over the fixed split: no deadline, and no connection that could break."""

    def __init__(self, group: Group, member_id: str, listener: LeaseListener) -> None:
        self.listener = listener
        self.held: dict[LeaseId, OwnedLease] = {}
        self._group = group
        self._member_id = member_id
        self._joined = asyncio.Event()

    @property
    def member_id(self) -> str:
        """The member's id: `member-1`, `member-2`, …"""
        return self._member_id

    @property
    def attached(self) -> bool:
        """True: there is no connection that could break."""
        return True

    def may_start(self) -> bool:
        """True: nothing holds work back."""
        return True

    async def joined(self) -> None:
        """Waits until `run` began."""
        await self._joined.wait()

    async def run(self) -> None:
        """Joins the split and stays until cancelled."""
        self._group.members.append(self)
        self._joined.set()
        self._group.split()

    async def guard(self) -> None:
        """Does nothing: there is no deadline to watch."""

    async def stopped(self, lanes: Mapping[str, str]) -> None:
        """Does nothing: there is nobody to report to."""

    async def divided(self, splits: Sequence[object]) -> None:
        """Does nothing: there is nobody to report to."""

    async def found(self, findings: object) -> None:
        """Does nothing: there is nobody to report to."""

    async def release(self, lease: LeaseId, epoch: int, *, commit_waived: bool = False, reason: str = "") -> None:
        """Releases a partition to the other members."""
        if lease in self.held and self.held[lease].epoch == epoch:
            del self.held[lease]
            self._group.freed(lease)

    async def refused(self, cluster: str, generation: Generation) -> None:
        """Does nothing: no generation is lent here."""

    async def leaving(self) -> None:
        """Accepts no more partitions."""
        self._group.leaving(self)

    async def leave(self, reason: str) -> None:
        """Leaves the split."""
        self._group.gone(self)
