"""Sums up what is known of a group's lag, load and members, as responses to lag are computed from it. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from braid.kernel.ids import LeaseId
from braid.kernel.limits.placement import LOAD_FLOOR
from services.assigner.model import group_channels
from services.assigner.model.commands import Loads
from services.assigner.model.group import Group
from services.assigner.model.lag_rows import LagRow
from services.assigner.model.responses import MemberHandlers
from services.assigner.policy.costs import costs_of
from services.assigner.policy.responses.facts import LaneFacts, LeaseFacts, ResponseFacts, SplitFacts


def response_facts(
    state: Group,
    own: Mapping[str, int],
    loads: Loads,
    rows: Sequence[LagRow],
    targets: Mapping[str, float],
    members: Iterable[MemberHandlers | None],
) -> ResponseFacts:
    """Returns what is known of a group.

    Args:
        state: The group.
        own: Shares of its lanes, by name, as members have them by themselves.
        loads: What was measured of its leases.
        rows: Its lag by lane, and by partition where that was asked for.
        targets: Seconds, by `<stream>/<lane>`.
        members: Handlers of each connected member; None for one that cannot be told how to divide them.
    """
    told = [each for each in members if each is not None]
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
        )
        for row in rows
        if row.partition < 0
    ]
    return ResponseFacts(
        lanes,
        list(_leases(state, rows)),
        dict(_splits(state)),
        own=own,
        dividable=len(told),
        handlers=sum(each.now for each in told),
        handlers_max=sum(each.most for each in told),
        busy_per_s=_busy(state, loads),
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


def _busy(state: Group, loads: Loads) -> float:
    blocks = [(name, channel.partitions) for name, channel in group_channels.wanted(state).items()]
    costs = costs_of(loads.costs, blocks) if blocks else np.zeros(0)
    return float(costs[costs > LOAD_FLOOR].sum())
