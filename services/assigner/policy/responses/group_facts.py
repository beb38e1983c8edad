"""Sums up what is known of a group's lag, load and members, as responses to lag are computed from it. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from braid.kernel.ids import LeaseId
from services.assigner.model import group_channels
from services.assigner.model.commands import Loads
from services.assigner.model.group import Group
from services.assigner.model.lag.responses import MemberHandlers, ResponseKind, ResponseMode, Responses
from services.assigner.model.lag.rows import LagRow
from services.assigner.policy.costs import costs_of
from services.assigner.policy.responses.facts import LaneFacts, LeaseFacts, MemberFacts, ResponseFacts, SplitFacts
from services.assigner.policy.slowness import Slowness


def response_facts(
    state: Group,
    own: Mapping[str, int],
    loads: Loads,
    rows: Sequence[LagRow],
    targets: Mapping[str, float],
    handlers: Iterable[MemberHandlers | None],
    members: Mapping[str, MemberFacts],
) -> ResponseFacts:
    """Returns what is known of a group.

    Args:
        state: The group.
        own: Shares of its lanes, by name, as members have them by themselves.
        loads: What was measured of its leases.
        rows: Its lag by lane, and by partition where that was asked for.
        targets: Seconds, by `<stream>/<lane>`.
        handlers: Those of each connected member; None for one that cannot be told how to divide them.
        members: How each member compares with the others.
    """
    told = [each for each in handlers if each is not None]
    busy = _busy(state, loads)
    stopped = {stop.lane for stop in state.stops.values()}
    lanes = [
        LaneFacts(
            row.stream,
            row.lane,
            row.seconds,
            row.records,
            targets.get(f"{row.stream}/{row.lane}"),
            row.lane in stopped,
            row.seconds_to_zero,
            busy.get(f"{row.stream}/{row.lane}", 0.0),
        )
        for row in rows
        if row.partition < 0
    ]
    return ResponseFacts(
        lanes,
        list(_leases(state, rows)),
        dict(_splits(state)),
        members,
        own=own,
        dividable=len(told),
        handlers=sum(each.now for each in told),
        handlers_max=sum(each.most for each in told),
        busy_per_s=sum(busy.values()),
    )


def _leases(state: Group, rows: Sequence[LagRow]) -> Iterator[LeaseFacts]:
    """Yields the leases that rows of partitions are about, and that somebody holds."""
    topics = {channel.topic: name for name, channel in state.channels.items()}
    for row in rows:
        name = f"{topics.get(row.topic, '')}/{row.partition}"
        lease = state.leases.get(name) if row.partition >= 0 else None
        if lease is not None and lease.holder:
            yield LeaseFacts(name, row.lane, row.seconds, row.records)


def _splits(state: Group) -> Iterator[tuple[str, SplitFacts]]:
    """Yields the leases that are split, or were asked to be under their present epochs."""
    for name, split in state.splits.items():
        lease = state.leases.get(name)
        current = lease is not None and lease.epoch == split.epoch
        if current or (split.at >= 0 and not split.asked):
            yield name, SplitFacts(LeaseId.parse(name).channel.lane, split.refused)


def _busy(state: Group, loads: Loads) -> Mapping[str, float]:
    """Returns how many handlers each lane keeps busy, by `<stream>/<lane>`."""
    found: dict[str, float] = {}
    for name, channel in group_channels.wanted(state).items():
        lane = name.rsplit("/", 1)[0]
        found[lane] = found.get(lane, 0.0) + float(costs_of(loads.busy, [(name, channel.partitions)]).sum())
    return found


def answers_slowness(responses: Responses) -> bool:
    """Whether members are to be compared with each other: a policy says so, or one counts as slow."""
    policy = responses.policy(ResponseKind.LEAVE_SLOW_MEMBERS)
    return policy.mode is not ResponseMode.OFF or bool(responses.applied(ResponseKind.LEAVE_SLOW_MEMBERS))


def member_facts(state: Group, compared: Mapping[str, tuple[Slowness, str]]) -> Mapping[str, MemberFacts]:
    """Returns every member, with how it compares where that is known."""
    facts = {id: MemberFacts(member.client_id or id) for id, member in state.members.items()}
    for id, (found, lane) in compared.items():
        if id in facts:
            facts[id] = MemberFacts(facts[id].name, found.ratio, found.seconds, found.usual_seconds, lane, found.part)
    return facts
