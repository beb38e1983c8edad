"""What a group's rules mean for its placement: who may hold what, as masks, and what has to change hands. Pure, NumPy.

A mask has one row for every set of members that some partition may go to; partitions that may go to the same members
share a row. Where a rule leaves the choice (a pin whose member is away, a preferred zone nobody is in) it is as if it
were not there. What a member holds against the rules is asked back only when somebody else may take it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from braid.kernel.limits import CAPACITY_DEFAULT
from services.assigner.events import RevokesStarted
from services.assigner.group import Channel, Group, Member, channel_of
from services.assigner.placement import Indices, Mask, Rules
from services.assigner.rules import Ban, Zones

_LEASE_PARTS: Final = 4
CROWDED: Final = "its lane is kept apart over hosts"


def carries(member: Member, name: str) -> bool:
    """Whether a rule that names this means the member."""
    return name in (member.id, member.client_id)


def carriers(state: Group, name: str) -> list[str]:
    """Ids of the members a rule means."""
    return [member.id for member in state.members.values() if carries(member, name)]


def capacity_of(state: Group, member: Member) -> float:
    """Busy seconds per second a member is to bear: as an operator set it, as it declared it, or as most can."""
    return said_capacity(state, member) or CAPACITY_DEFAULT


def said_capacity(state: Group, member: Member) -> float:
    """What somebody said a member bears: an operator, else the member; 0 when nobody did."""
    capacities = state.rules.capacities
    return capacities.get(member.id) or capacities.get(member.client_id) or member.capacity


def drained(state: Group, member: Member) -> bool:
    """Whether a member is to hold nothing."""
    return member.id in state.rules.drains or member.client_id in state.rules.drains


def masks(state: Group, members: Sequence[str], leases: Sequence[str], channels: Indices) -> Rules | None:
    """Who may hold what.

    Args:
        state: The group.
        members: Ids of those that can be told something; columns of the mask.
        leases: Names.
        channels: Per lease, the index of its channel; shape (P,).

    Returns:
        None when everybody may hold everything.
    """
    if not state.rules.constrain or not members or not leases:
        return None
    sieve = _Sieve(state, members)
    rows: dict[bytes, int] = {}
    kept: list[Mask] = []

    def kind(row: Mask) -> int:
        number = rows.setdefault(row.tobytes(), len(rows))
        if number == len(kept):
            kept.append(row)
        return number

    numbers, first = np.unique(channels, return_index=True)
    of_channel = np.zeros(int(numbers.max()) + 1, np.int64)
    for number, at in zip(numbers.tolist(), first.tolist(), strict=True):
        of_channel[number] = kind(sieve.row(channel_of(leases[at])))
    kinds = of_channel[channels]
    if special := sieve.special:
        for at in np.flatnonzero(np.isin(np.array(leases), list(special))).tolist():
            kinds[at] = kind(sieve.row(channel_of(leases[at]), leases[at]))
    allowed = np.array(kept, np.bool_)
    if state.rules.spread and (apart := _apart(state, members, leases, channels, kinds, allowed)):
        return apart
    return None if allowed.all() else Rules(kinds, allowed)


def host_of(member: Member) -> str:
    """Where a member runs, as far as its address tells: without the port."""
    return member.peer.rpartition(":")[0] or member.peer


def _apart(
    state: Group, members: Sequence[str], leases: Sequence[str], channels: Indices, kinds: Indices, allowed: Mask
) -> Rules | None:
    """Lanes as sets of which no host holds more than its even part, rounded up. None where all are on one host.

    Without other rules there is always room: parts of all hosts together are at least the lane. With them there may be
    none, and a host is crowded rather than a partition left alone: so all is placed that somebody may hold.
    """
    names = [host_of(state.members[member]) for member in members]
    known, hosts = np.unique(names, return_inverse=True)
    if len(known) < 2:
        return None
    lanes: dict[str, int] = {}
    numbers, first = np.unique(channels, return_index=True)
    of_channel = np.zeros(int(numbers.max()) + 1, np.int64)
    for number, at in zip(numbers.tolist(), first.tolist(), strict=True):
        of_channel[number] = lanes.setdefault(leases[at].rsplit("/", 2)[0], len(lanes))
    apart = of_channel[channels]
    at_host = np.stack([allowed[:, hosts == host].any(axis=1) for host in range(len(known))], axis=1)
    room = np.zeros(len(lanes), np.int64)
    for lane in range(len(lanes)):
        inside = apart == lane
        could = at_host[np.unique(kinds[inside])].any(axis=0).sum()
        room[lane] = -(-int(inside.sum()) // max(int(could), 1))
    return Rules(kinds, allowed, apart, np.asarray(hosts, np.int64), room, soft=True)


def crowded(rules: Rules, holders: Indices) -> Indices:
    """Partitions a host holds beyond its room for their set: the last of each."""
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
    """Partitions held by whom the rules keep them from, while somebody else may hold them; at most so many."""
    held = np.flatnonzero(holders >= 0)
    kinds = rules.kinds[held]
    wrong = ~rules.allowed[kinds, holders[held]] & _open_to_any(rules)[kinds]
    result: Indices = held[wrong][: max(moves_max, 0)]
    return result


def stuck(rules: Rules | None) -> Indices:
    """Partitions nobody may hold."""
    if rules is None:
        return np.zeros(0, np.int64)
    result: Indices = np.flatnonzero(~_open_to_any(rules)[rules.kinds])
    return result


def _open_to_any(rules: Rules) -> Mask:
    """Per kind, whether anybody may hold it."""
    return np.asarray(rules.allowed.any(axis=1), np.bool_)


def why_not(state: Group, lease: str, member: Member) -> str:
    """The rule that keeps a lease from a member, for people; empty when none does."""
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
    if _elsewhere(channel, member) and rules.zones is not Zones.ANY:
        return f"{name} is in zone {member.zone or 'unknown'}, cluster {channel.cluster} in {channel.zone}"
    return ""


def asked_for(state: Group, event: RevokesStarted) -> int:
    """How many of the leases were asked back because a rule keeps them from their holders."""
    if event.reason == CROWDED:
        return len(event.leases)
    if not state.rules.constrain:
        return 0
    holders = [(each.lease, state.members.get(each.member)) for each in event.leases]
    return sum(member is not None and why_not(state, lease, member) != "" for lease, member in holders)


def ruled(state: Group, lease: str) -> str:
    """The rules about who may hold a lease, for people; empty for none."""
    channel = state.channels.get(channel_of(lease))
    pin = state.rules.pins.get(lease)
    said = [f"pinned to {pin.member}{' only' if pin.strict else ''}"] if pin else []
    cluster = channel.cluster if channel else ""
    said += [f"not {ban.member}" for ban in state.rules.bans if ban.covers(lease, cluster)]
    return ", ".join(said)


def _elsewhere(channel: Channel, member: Member) -> bool:
    return channel.zone not in ("", member.zone)


class _Sieve:
    """The rules of a group with its members in columns."""

    def __init__(self, state: Group, members: Sequence[str]) -> None:
        self._state = state
        present = [state.members[member] for member in members]
        self._columns: Mapping[str, Mask] = {
            name: np.array([carries(member, name) for member in present], np.bool_) for name in state.rules.names
        }
        self._open = np.array([not drained(state, member) for member in present], np.bool_)
        self._zones = np.array([member.zone for member in present])
        single = {ban.path for ban in state.rules.bans if ban.path.count("/") == _LEASE_PARTS - 1}
        self.special = single | set(state.rules.pins)

    def row(self, channel: str, lease: str = "") -> Mask:
        """Who may hold a lease, or any on a channel that no rule names."""
        rules, known = self._state.rules, self._state.channels[channel]
        row: Mask = self._open.copy()
        for ban in rules.bans:
            if ban.covers(lease or channel, known.cluster):
                row &= ~self._columns[ban.member]
        near = self._zones == known.zone if known.zone else np.ones(len(row), np.bool_)
        if rules.zones is Zones.STRICT:
            row &= near
        pin = rules.pins.get(lease)
        if pin is not None:
            pinned = row & self._columns[pin.member]
            if pin.strict or pinned.any():
                return pinned
        if rules.zones is Zones.PREFER and (row & near).any():
            row &= near
        return row


def contradicts(state: Group, ban: Ban, lease: str, pinned_to: str) -> bool:
    """Whether a ban and a pin speak of the same lease and member."""
    channel = state.channels.get(channel_of(lease))
    same = ban.member == pinned_to or bool({*carriers(state, ban.member)} & {*carriers(state, pinned_to)})
    return same and ban.covers(lease, channel.cluster if channel else "")
