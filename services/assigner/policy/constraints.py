"""A group's rules applied to its placement: which members may hold a lease, and what must change hands.

Pure, NumPy.

A mask has one row for every set of members that some partition may go to; partitions that may go to the same members
share a row. Where a rule leaves the choice (a pin whose member is away) it is as if it were not there. Preferred
zones depend on loads and are added by `zone_preference.py`. What a member holds against the rules is asked back only
when somebody else may take it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from braid.kernel.limits.assigner.placement import CAPACITY_DEFAULT
from braid.kernel.zones import zone_key
from services.assigner.model.events import RevokesStarted
from services.assigner.model.group import Channel, Group, Member, channel_of
from services.assigner.model.members import index_of
from services.assigner.model.rules import Ban, Zones
from services.assigner.policy.arrays import (
    Floats,
    Indices,
    Mask,
)
from services.assigner.policy.lease_names import LeaseNames
from services.assigner.policy.member_work import bounded
from services.assigner.policy.placement_rules import Rules
from services.assigner.policy.slow_members import slow_parts

_LEASE_PARTS: Final = 4
_NOTHING_TOLD: Final[Mapping[str, float]] = {}
CROWDED: Final = "its lane is kept apart over hosts"
PREFERRED: Final = "its zone is preferred"  # begins the reason


def carries(member: Member, name: str) -> bool:
    """Whether a rule with this name means the member."""
    return name in (member.id, member.client_id)


def carriers(state: Group, name: str) -> list[str]:
    """Returns the ids of members that a rule means, sorted."""
    return sorted({*state.member_columns.clients.get(name, ()), *((name,) if name in state.members else ())})


def said_capacity(state: Group, member: Member) -> float:
    """Returns a member's stated capacity: the operator's, else its own; 0 if neither stated one."""
    capacities = state.rules.capacities
    return capacities.get(member.id) or capacities.get(member.client_id) or member.capacity


def drained(state: Group, member: Member) -> bool:
    """Whether a member is being drained."""
    return member.id in state.rules.drains or member.client_id in state.rules.drains


def borne(state: Group, told: Mapping[str, float] = _NOTHING_TOLD) -> Floats:
    """Returns every member's capacity in busy seconds per second, in the order of the member columns.

    As an operator set it, as the member declared it, as its heartbeats tell (`told`), or as most can. Part of that
    while it counts as slow, and nothing while it is drained. What members say of themselves is bounded by what the
    others say.
    """
    columns = state.member_columns
    bears = np.where(columns.capacities > 0, columns.capacities, CAPACITY_DEFAULT)
    if told:
        heard = np.array([told.get(id, 0.0) for id in columns.ids])
        bears = np.where((columns.capacities > 0) | (heard <= 0), bears, heard)
    bears = bounded(bears)
    by_name = sorted(state.rules.capacities.items(), key=lambda pair: pair[0] in state.members)  # its id counts last
    for name, capacity in [*by_name, *((name, 0.0) for name in state.rules.drains)]:
        bears[[columns.position(id) for id in carriers(state, name)]] = capacity
    for id, part in slow_parts(state).items():
        bears[columns.position(id)] *= part
    return bears


def masks(state: Group, members: Sequence[str], leases: LeaseNames) -> Rules | None:
    """Returns which members may hold which leases.

    Args:
        state: The group.
        members: Ids of those that can be told something, sorted; columns of the mask.
        leases: Of which leases.

    Returns:
        None when everybody may hold everything.
    """
    if not state.rules.constrain or not members or not leases:
        return None
    sieve = MemberFilter(state, members)
    rows: dict[bytes, int] = {}
    kept: list[Mask] = []

    def kind(row: Mask) -> int:
        number = rows.setdefault(row.tobytes(), len(rows))
        if number == len(kept):
            kept.append(row)
        return number

    of_channel = np.zeros(len(leases.channels), np.int64)
    for number in np.flatnonzero(np.bincount(leases.of_channel)).tolist():
        of_channel[number] = kind(sieve.row(leases.channels[number]))
    kinds = of_channel[leases.of_channel]
    for at, name in sorted((leases.find(name), name) for name in sieve.special):
        if at >= 0:
            kinds[at] = kind(sieve.row(channel_of(name), name))
    allowed = np.array(kept, np.bool_)
    if state.rules.spread and (apart := _apart(state, members, leases, kinds, allowed)):
        return apart
    return None if allowed.all() else Rules(kinds, allowed)


def host_of(member: Member) -> str:
    """Returns the member's host: its address without the port."""
    return member.peer.rpartition(":")[0] or member.peer


def hosts_of(state: Group) -> Mapping[str, str]:
    """Returns the host of each member."""
    return {id: host_of(member) for id, member in state.members.items()}


def _apart(state: Group, members: Sequence[str], leases: LeaseNames, kinds: Indices, allowed: Mask) -> Rules | None:
    """Returns lanes as sets of which no host holds more than its even part, rounded up.

    None where all are on one host.

    Without other rules there is always room: parts of all hosts together are at least the lane. With them there may be
    none, and a host is crowded rather than a partition left alone: so all is placed that somebody may hold.
    """
    names = [host_of(state.members[member]) for member in members]
    known, hosts = np.unique(names, return_inverse=True)
    if len(known) < 2:
        return None
    lanes: dict[str, int] = {}
    of_channel = np.zeros(len(leases.channels), np.int64)
    for number in np.flatnonzero(np.bincount(leases.of_channel)).tolist():
        of_channel[number] = lanes.setdefault(channel_of(leases.channels[number]), len(lanes))
    apart = of_channel[leases.of_channel]
    at_host = np.stack([allowed[:, hosts == host].any(axis=1) for host in range(len(known))], axis=1)
    room = np.zeros(len(lanes), np.int64)
    for lane in range(len(lanes)):
        inside = apart == lane
        could = at_host[np.unique(kinds[inside])].any(axis=0).sum()
        room[lane] = -(-int(inside.sum()) // max(int(could), 1))
    return Rules(kinds, allowed, apart, np.asarray(hosts, np.int64), room, soft=True)


def crowded(rules: Rules, holders: Indices) -> Indices:
    """Returns partitions that a host holds beyond its room for their set: the last ones of each set."""
    if rules.apart is None or rules.hosts is None or rules.room is None:
        return np.zeros(0, np.int64)
    held = np.flatnonzero(holders >= 0)
    places = rules.apart[held] * (int(rules.hosts.max()) + 1) + rules.hosts[holders[held]]
    order = np.argsort(places, kind="stable")
    ranked = places[order]
    starts = np.flatnonzero(np.diff(ranked, prepend=-1))
    rank = np.arange(len(ranked)) - np.repeat(starts, np.diff(np.append(starts, len(ranked))))
    result: Indices = np.sort(held[order][rank >= rules.room[rules.apart[held[order]]]])
    return result


def forced(rules: Rules, holders: Indices, moves_max: int) -> Indices:
    """Returns partitions that the rules forbid their holders while another may hold them; at most so many."""
    held = np.flatnonzero(holders >= 0)
    kinds = rules.kinds[held]
    wrong = ~rules.allowed[kinds, holders[held]] & _open_to_any(rules)[kinds]
    result: Indices = held[wrong][: max(moves_max, 0)]
    return result


def stuck(rules: Rules | None) -> Indices:
    """Returns partitions that no member may hold."""
    if rules is None:
        return np.zeros(0, np.int64)
    result: Indices = np.flatnonzero(~_open_to_any(rules)[rules.kinds])
    return result


def _open_to_any(rules: Rules) -> Mask:
    """Per kind, whether anybody may hold it."""
    return np.asarray(rules.allowed.any(axis=1), np.bool_)


def why_not(state: Group, lease: str, member: Member) -> str:
    """Returns the rule that keeps a lease from a member, for people; empty when there is none."""
    rules, name = state.rules, member.client_id or member.id
    channel = state.channels[channel_of(lease)]
    if drained(state, member):
        return f"{name} is being drained"
    for ban in rules.bans:
        if carries(member, ban.member) and ban.covers(lease, channel.cluster):
            return f"{name} is banned from {ban.what}"
    pin = rules.pins.get(lease)
    if pin is not None and not carries(member, pin.member):
        return f"it is pinned to {pin.member}"
    if _elsewhere(channel, member) and rules.zones is Zones.STRICT:
        return f"{name} is in zone {member.zone or 'unknown'}, cluster {channel.cluster} in {channel.zone}"
    return ""


def why_nearer(state: Group, lease: str, holder: Member, taker: Member) -> str:
    """Says why a lease moves to a member of its cluster's zone; empty if the group does not prefer that, or none is."""
    channel = state.channels[channel_of(lease)]
    if state.rules.zones is not Zones.PREFER or not _elsewhere(channel, holder) or _elsewhere(channel, taker):
        return ""
    return f"{PREFERRED}: cluster {channel.cluster} is in zone {channel.zone}"


def asked_for(state: Group, event: RevokesStarted) -> int:
    """How many of the leases were asked back because a rule keeps them from their holders."""
    if event.reason == CROWDED or event.reason.startswith(PREFERRED):
        return len(event.leases)
    if not state.rules.constrain:
        return 0
    holders = [(each.lease, state.members.get(each.member)) for each in event.leases]
    return sum(member is not None and why_not(state, lease, member) != "" for lease, member in holders)


def ruled(state: Group, lease: str) -> str:
    """Describes for people the rules about who may hold a lease; empty when there are none."""
    channel = state.channels.get(channel_of(lease))
    pin = state.rules.pins.get(lease)
    said = [f"pinned to {pin.member}{' only' if pin.strict else ''}"] if pin else []
    cluster = channel.cluster if channel else ""
    said += [f"not {ban.member}" for ban in state.rules.bans if ban.covers(lease, cluster)]
    return ", ".join(said)


def _elsewhere(channel: Channel, member: Member) -> bool:
    return zone_key(channel.zone) not in ("", zone_key(member.zone))


class MemberFilter:
    """Says which members a group's rules let a lease go to; members lie in columns."""

    def __init__(self, state: Group, members: Sequence[str]) -> None:
        self._state = state
        self._members = members
        self._columns: Mapping[str, Mask] = {name: self._carried(name) for name in state.rules.names}
        self._open: Mask = np.ones(len(members), np.bool_)
        for name in state.rules.drains:
            self._open &= ~self._columns[name]
        strict = state.rules.zones is Zones.STRICT
        self._zones = np.array([zone_key(state.members[member].zone) if strict else "" for member in members])
        single = {ban.path for ban in state.rules.bans if ban.path.count("/") == _LEASE_PARTS - 1}
        self.special = single | set(state.rules.pins)

    def _carried(self, name: str) -> Mask:
        """Returns which members a rule means."""
        row: Mask = np.zeros(len(self._members), np.bool_)
        row[[at for at in (index_of(self._members, id) for id in carriers(self._state, name)) if at >= 0]] = True
        return row

    def row(self, channel: str, lease: str = "") -> Mask:
        """Returns which members may hold a lease, or any lease on a channel that no rule names."""
        rules, known = self._state.rules, self._state.channels[channel]
        row: Mask = self._open.copy()
        for ban in rules.bans:
            if ban.covers(lease or channel, known.cluster):
                row &= ~self._columns[ban.member]
        if rules.zones is Zones.STRICT and known.zone:
            row &= self._zones == zone_key(known.zone)
        pin = rules.pins.get(lease)
        if pin is not None:
            pinned = row & self._columns[pin.member]
            if pin.strict or pinned.any():
                return pinned
        return row


def contradicts(state: Group, ban: Ban, lease: str, pinned_to: str) -> bool:
    """Whether a ban and a pin name the same lease and member."""
    channel = state.channels.get(channel_of(lease))
    same = ban.member == pinned_to or bool({*carriers(state, ban.member)} & {*carriers(state, pinned_to)})
    return same and ban.covers(lease, channel.cluster if channel else "")
