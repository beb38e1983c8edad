"""Decides what to do now about uneven load: moves, proposals, and what is recorded once when nothing helps. Pure.

A cluster must be overloaded for a while, by medians of several looks. A stream rests for an hour after any move, and
moves three times a day at most. Moves at once and kept bytes a day have budgets. Targets are healthy, open and measured
clusters with headroom whose disks do not fill up.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from braid.kernel.limits.registry.balancing import BALANCE_CALM_SECONDS, BALANCE_SLACK
from braid.kernel.timing.days import DAY_MS
from braid.kernel.timing.forecasts import Forecast
from services.registry.model.channels import DrainStep
from services.registry.model.rebalances import BalanceMode, BalanceRules, Rebalance, RebalanceProposal
from services.registry.policy.balancing.filling import Filling, filling, nearly_full, relieve
from services.registry.policy.balancing.loads import RESTS, View, mode_of, placement_of
from services.registry.policy.balancing.memory import BalanceMemory
from services.registry.policy.balancing.placement import BYTES, DISK, NAMES, Placement, Step, search
from services.registry.policy.world import World

NO_BUDGET = "the budget allows no moves"
DAY_SPENT = "the day's budget of bytes is spent"
ALONE = "no other cluster takes traffic and is measured"
NOTHING_HELPS = "no stream that may move would help"


@dataclass(frozen=True, slots=True)
class StartMove:
    """A stream's lanes are to move now."""

    stream: str
    lanes: tuple[str, ...]
    rebalance: Rebalance


@dataclass(frozen=True, slots=True)
class Propose:
    """An operator is to be asked to move a stream."""

    stream: str
    rebalance: Rebalance


@dataclass(frozen=True, slots=True)
class Withdraw:
    """A proposal is not wanted any more."""

    stream: str
    reason: str


@dataclass(frozen=True, slots=True)
class Block:
    """The reason why a cluster gets no relief has changed; '' for none."""

    cluster: str
    reason: str


Action = StartMove | Propose | Withdraw | Block


def decide(world: World, memory: BalanceMemory, rules: BalanceRules, now: float) -> Sequence[Action]:
    """Returns what is to be done now; nothing if all is within the band and no disk fills up.

    Args:
        world: The world, with the loads of clusters.
        memory: What was seen before; overloads are noted in it.
        rules: The mesh's settings.
        now: Of a clock that never steps, in seconds.
    """
    if rules.mode is BalanceMode.OFF:
        return [*_withdrawals(world, lambda proposal: "balancing is off"), *_unblocked(world, ())]
    full = filling(world, memory)
    view = View(world, memory, rules, frozenset({*full, *nearly_full(world)}))
    present = placement_of(replace(view, counted=False, targets=False))
    over = present.over().max(axis=1, initial=0.0) if present.clusters else np.zeros(0)
    held = {
        name
        for number, name in enumerate(present.clusters)
        if memory.overloaded(name, now, over=bool(over[number] > 1.0 + BALANCE_SLACK))
    }
    calm = {name for name, since in memory.calm_since.items() if now - since >= BALANCE_CALM_SECONDS} - {*full}
    counted = placement_of(replace(view, targets=bool(held or full)))
    planned = planned_steps(counted, held, full)
    started = list(_started(view, counted, planned, full))
    return [
        *_withdrawals(world, lambda proposal: _why_not_any_more(world, proposal, calm)),
        *started,
        *_blocks(view, counted, held, full, calm, started),
    ]


def planned_steps(placement: Placement, held: Collection[str], full: Mapping[str, Filling]) -> Sequence[Step]:
    """Moves that are wanted: those that keep disks from filling, then those that even out."""
    steps = list(relieve(placement, full))
    moved = placement.moved(steps)
    over = moved.over()
    if any((over[number] > 1.0 + BALANCE_SLACK).any() for number, name in enumerate(moved.clusters) if name in held):
        gone = {step.unit for step in steps}
        allowed = moved.allowed.copy()
        allowed[list(gone)] = False
        more = search(replace(moved, allowed=allowed)).steps
        gained = np.maximum(0.0, over - 1.0).sum() - np.maximum(0.0, moved.moved(more).over() - 1.0).sum()
        steps += more if gained >= BALANCE_SLACK * len(more) else ()
    return steps


def _started(
    view: View, placement: Placement, planned: Sequence[Step], full: Mapping[str, Filling]
) -> Iterator[StartMove | Propose]:
    """The planned moves that the budgets allow, and proposals for streams that ask first."""
    slots = view.rules.moves_at_once - len(under_way(view.world, view.memory))
    left = view.rules.bytes_per_day - spent(view.world)
    for step in planned:
        unit = placement.units[step.unit]
        kept = int(min(unit.load[DISK], float(1 << 60)))
        target = placement.clusters[step.target]
        rebalance = Rebalance(unit.home, target, kept, reason_of(placement, step, full))
        if mode_of(view.world.streams[unit.stream], view.rules) is BalanceMode.PROPOSE:
            yield Propose(unit.stream, rebalance)
        elif slots > 0 and left > 0 and kept <= left:
            slots, left = slots - 1, left - kept
            yield StartMove(unit.stream, unit.lanes, rebalance)


def under_way(world: World, memory: BalanceMemory) -> Collection[str]:
    """Streams that are moving to even out load, or whose producers change over after a planned move."""
    changing = {
        stream.name
        for stream in world.streams.values()
        if stream.exists and any(each.planned and each.drain_step is DrainStep.PRODUCERS for each in stream.channels)
        if stream.rebalances
    }
    return changing | {*memory.intents}


def spent(world: World) -> int:
    """Kept bytes of streams that were moved within a day."""
    return sum(
        made.kept_bytes
        for stream in world.streams.values()
        for made in stream.rebalances
        if abs(world.now_ms - made.at_ms) < DAY_MS
    )


def reason_of(placement: Placement, step: Step, full: Mapping[str, Filling]) -> str:
    """Returns the reason of a move for people, with figures."""
    unit, target = placement.units[step.unit], placement.clusters[step.target]
    goes = f"{bytes_text(unit.load[BYTES])}/s go to {target}"
    if unit.home in full:
        each = full[unit.home]
        wave = ", by a daily wave" if each.forecast.seasonal else ""
        nearly = f"at 90% in {_forecast_text(each.forecast)}{wave}"
        return f"the fullest disk of {unit.home} is at {each.used_share:.0%} and {nearly}: {goes}"
    over = placement.over()
    at = placement.clusters.index(unit.home) if unit.home in placement.clusters else step.target
    most = int(np.argmax(over[at]))
    return f"{unit.home} has {over[at, most]:.2f} times what its band allows of {NAMES[most]}: {goes}"


def _forecast_text(forecast: Forecast) -> str:
    """When a disk is nearly full, for people: minutes below two hours, and the soonest time if there is no other."""
    seconds = forecast.seconds if math.isfinite(forecast.seconds) else forecast.soonest
    text = f"{seconds / 60.0:.0f} min" if seconds < 7_200.0 else f"{seconds / 3_600.0:.1f} h"
    return text if seconds == forecast.seconds else f"{text} at the soonest"


def bytes_text(count: float) -> str:
    """Bytes for people: three digits and a unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1_024:
            return f"{count:.3g} {unit}"
        count /= 1_024
    return f"{count:.3g} TiB"


def _withdrawals(world: World, why: Callable[[RebalanceProposal], str]) -> Iterator[Withdraw]:
    for stream in world.streams.values():
        if stream.exists and stream.rebalance is not None and (reason := why(stream.rebalance)):
            yield Withdraw(stream.name, reason)


def _why_not_any_more(world: World, proposal: RebalanceProposal, calm: Collection[str]) -> str:
    """Why a proposal is not wanted any more; '' while it is."""
    if not world.cluster(proposal.to_cluster).takes_traffic:
        return f"cluster {proposal.to_cluster} takes no new traffic"
    return "its cluster is within its band" if proposal.from_cluster in calm else ""


def _unblocked(world: World, still: Collection[str]) -> Iterator[Block]:
    for name, cluster in sorted(world.clusters.items()):
        if cluster.exists and cluster.balance_blocked and name not in still:
            yield Block(name, "")


def _blocks(
    view: View,
    placement: Placement,
    held: Collection[str],
    full: Collection[str],
    calm: Collection[str],
    started: Sequence[Action],
) -> Iterator[Block]:
    """Yields the reasons to record, once each, of clusters that need relief and get none."""
    over = dict(zip(placement.clusters, placement.over().max(axis=1, initial=0.0), strict=True))
    helped = {each.rebalance.from_cluster for each in started if isinstance(each, StartMove | Propose)}
    helped |= {unit.home for unit in placement.units if unit.home != unit.cluster}
    for name, cluster in sorted(view.world.clusters.items()):
        if not cluster.exists:
            continue
        reason = cluster.balance_blocked
        if name in helped or name in calm or name not in placement.clusters:
            reason = ""
        elif name in full or (name in held and over[name] > 1.0 + BALANCE_SLACK):
            reason = _why_no_relief(view, placement, name) or reason
        if reason != cluster.balance_blocked:
            yield Block(name, reason)


def _why_no_relief(view: View, placement: Placement, cluster: str) -> str:
    """Why nothing leaves a cluster that carries too much; '' while something may leave it soon."""
    if view.rules.moves_at_once <= 0 or view.rules.bytes_per_day <= 0:
        return NO_BUDGET
    if len(placement.clusters) < 2:
        return ALONE
    if under_way(view.world, view.memory) or any(
        unit.home == cluster and unit.fixed == RESTS for unit in placement.units
    ):
        return ""
    smallest = min((unit.load[DISK] for unit in placement.units if unit.home == cluster), default=0.0)
    return DAY_SPENT if spent(view.world) + smallest > view.rules.bytes_per_day else NOTHING_HELPS
