"""Which streams would move to even out load, and what clusters would carry then. Pure.

The mesh may be an imagined one, with clusters more or less.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from braid.kernel.errors import AlreadyExists, Invalid, NotFound
from braid.kernel.ids import check_name
from braid.kernel.limits.registry.balancing import BALANCE_PREVIEW_CLUSTERS, BALANCE_PREVIEW_ROUNDS
from braid.kernel.timing.forecasts import Forecast
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.loads import MeasuredLoad
from services.registry.model.clusters.specs import ClusterSpec
from services.registry.model.rebalances import BalanceRules, Rebalance
from services.registry.policy.balancing.filling import filling, nearly_full
from services.registry.policy.balancing.loads import View, left_out, placement_of
from services.registry.policy.balancing.memory import BalanceMemory
from services.registry.policy.balancing.placement import BYTES, DISK, Placement, Step, Unit
from services.registry.policy.balancing.steps import planned_steps, reason_of
from services.registry.policy.world import World


@dataclass(frozen=True, slots=True)
class PreviewedMove:
    """One move that would be made, of these lanes, with the bytes a second that go along."""

    stream: str
    lanes: tuple[str, ...]
    bytes_per_s: float
    rebalance: Rebalance


@dataclass(frozen=True, slots=True)
class ClusterPreview:
    """A cluster's load now and after all moves: bytes a second, share of the disk, partitions, and load over band."""

    name: str
    left_out: str = ""
    now: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    then: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    forecast: Forecast | None = None


@dataclass(frozen=True, slots=True)
class Preview:
    """The whole preview; `problems` says why clusters stay uneven."""

    clusters: Sequence[ClusterPreview]
    moves: Sequence[PreviewedMove]
    balanced: bool
    problems: Sequence[str]


def preview(
    world: World, memory: BalanceMemory, rules: BalanceRules, without: Sequence[str], new: Sequence[str]
) -> Preview:
    """Plans until nothing helps any more, whatever budgets allow; with imagined clusters, streams that rest move too.

    Raises:
        NotFound: a cluster to imagine away does not exist.
        AlreadyExists: a cluster to imagine exists.
        Invalid: a name is malformed, named twice, or there are too many.
    """
    _check(world, without, new)
    full = filling(world, memory)
    imagined = _imagined(world, new)
    view = View(imagined, memory, rules, frozenset({*full, *nearly_full(world), *without}), rested=bool(without or new))
    before = placement_of(view)
    chosen, problems = _leave(before, without)
    after = _without(before.moved([each.step for each in chosen]), without, [each.step.unit for each in chosen])
    for _ in range(BALANCE_PREVIEW_ROUNDS):
        more = planned_steps(after, {*after.clusters}, full)
        if not more:
            break
        chosen += [_Chosen(each, after.clusters[each.target], reason_of(after, each, full)) for each in more]
        after = _without(after.moved(more), (), [each.unit for each in more])
    even = not (after.over() > 1.0 + 1e-9).any()
    if not even:
        problems.append("no further move of a stream that may move would bring every cluster within its band")
    forecasts = {name: memory.forecast(world, name) for name in world.loads}
    rows = [_row(name, before, after, forecasts.get(name)) for name in before.clusters]
    rows += [ClusterPreview(name, why) for name, why in left_out(imagined).items()]
    moves = [_move(before.units[each.step.unit], each) for each in chosen]
    return Preview(sorted(rows, key=lambda each: each.name), moves, even and not problems, problems)


class _Chosen(NamedTuple):
    """A step of some placement, with its target's name and the reason."""

    step: Step
    target: str
    reason: str


def _check(world: World, without: Sequence[str], new: Sequence[str]) -> None:
    for field, names in (("without", without), ("new_clusters", new)):
        if len(names) > BALANCE_PREVIEW_CLUSTERS:
            message = f"{len(names)} clusters are more than {BALANCE_PREVIEW_CLUSTERS}"
            raise Invalid(message, field=field, remedy="name fewer")
        for position, name in enumerate(names):
            check_name(name, f"{field}[{position}]")
            if name in names[:position]:
                raise Invalid(f"cluster {name} is named twice", field=f"{field}[{position}]")
            exists = world.cluster(name).exists
            if field == "without" and not exists:
                remedy = "list them: braid get clusters"
                raise NotFound(f"there is no cluster {name}", field=f"{field}[{position}]", remedy=remedy)
            if field == "new_clusters" and exists:
                message = f"cluster {name} exists already"
                raise AlreadyExists(message, field=f"{field}[{position}]", remedy="name one that does not")


def _imagined(world: World, new: Sequence[str]) -> World:
    """The world with empty clusters, each as large as the mean of those that are measured."""
    loads = [load for name, load in world.loads.items() if world.cluster(name).exists]
    if not new or not loads:
        return world
    total = sum(each.total_bytes for each in loads) // len(loads)
    brokers = max(1, round(sum(each.brokers for each in loads) / len(loads)))
    limits = [each.spec.capacity for each in world.clusters.values() if each.exists]
    capacity = sum(limits) // len(limits) if all(limits) else 0
    clusters = {name: Cluster(name, True, ClusterSpec("", capacity=capacity)) for name in new}
    empty = MeasuredLoad(world.now_ms, 1, total, total, 0.0, brokers=brokers)
    return replace(world, clusters={**world.clusters, **clusters}, loads={**world.loads, **dict.fromkeys(new, empty)})


def _leave(placement: Placement, without: Sequence[str]) -> tuple[list[_Chosen], list[str]]:
    """Where each stream of clusters that are imagined away goes, the largest first; and which have no place."""
    chosen: list[_Chosen] = []
    problems: list[str] = []
    leaving = [number for number, unit in enumerate(placement.units) if unit.cluster in without]
    for number in sorted(leaving, key=lambda each: (-placement.units[each].load[BYTES], each)):
        unit = placement.units[number]
        targets = [int(each) for each in np.flatnonzero(placement.allowed[number])]
        if not targets:
            problems.append(f"stream {unit.stream} has no other place: {unit.fixed or 'no cluster can take it'}")
            continue
        over = [float(placement.moved([Step(number, each)]).over()[each].max()) for each in targets]
        step = Step(number, targets[int(np.argmin(over))])
        chosen.append(_Chosen(step, placement.clusters[step.target], f"{unit.home} is left"))
        placement = placement.moved([step])
    return chosen, problems


def _without(placement: Placement, without: Sequence[str], moved: Sequence[int]) -> Placement:
    """The placement without some clusters, whose `moved` units move no more."""
    keep = [number for number, name in enumerate(placement.clusters) if name not in without]
    allowed = placement.allowed.copy()
    allowed[list(moved)] = False
    return replace(
        placement,
        clusters=tuple(placement.clusters[each] for each in keep),
        loads=placement.loads[keep],
        capacities=placement.capacities[keep],
        brokers=placement.brokers[keep],
        allowed=allowed[:, keep],
    )


def _row(name: str, before: Placement, after: Placement, forecast: Forecast | None) -> ClusterPreview:
    return ClusterPreview(name, "", _figures(before, name), _figures(after, name), forecast)


def _figures(placement: Placement, name: str) -> tuple[float, float, float, float]:
    if name not in placement.clusters:
        return 0.0, 0.0, 0.0, 0.0
    at = placement.clusters.index(name)
    rate, disk, partitions = (float(each) for each in placement.loads[at])
    return rate, disk / float(placement.capacities[at, DISK]), partitions, float(placement.over()[at].max())


def _move(unit: Unit, chosen: _Chosen) -> PreviewedMove:
    rebalance = Rebalance(unit.home, chosen.target, int(unit.load[DISK]), chosen.reason)
    return PreviewedMove(unit.stream, unit.lanes, unit.load[BYTES], rebalance)
