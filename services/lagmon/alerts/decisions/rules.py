"""The rules: which conditions hold, given the lag of lanes and the mesh's state. Pure.

Each rule says of each subject whether its condition holds, does not hold, or is not known. A condition that another one
explains is inhibited: it counts as not known while its cause holds. So a dead cluster is one alert, and so is a group
without members.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, NamedTuple

from braid.kernel.lag_targets import target_of
from braid.kernel.limits.lagmon.alerts import (
    ALERT_DRAIN_SECONDS,
    ALERT_HOT_PARTITIONS_MIN,
    ALERT_HOT_SHARE,
    ALERT_RETENTION_LEFT_SECONDS,
    ALERT_RETENTION_SHARE,
    ALERT_TEXT_MAX,
    ALERT_UNTARGETED_SECONDS,
)
from services.lagmon.alerts.decisions.burn_rates import FAST, SLOW, STEADY, BurnRates, Window
from services.lagmon.alerts.decisions.certificates import certificate_conditions
from services.lagmon.alerts.decisions.cluster_rules import cluster_conditions
from services.lagmon.alerts.decisions.copies import Copies
from services.lagmon.alerts.decisions.disks import Disks
from services.lagmon.alerts.decisions.facts import ClusterFacts, Facts, Health, LaneKey, LaneLag, StreamFacts
from services.lagmon.alerts.decisions.group_rules import group_conditions
from services.lagmon.alerts.decisions.model import (
    DRAIN_HELD,
    FAILOVER_BLOCKED,
    GROUP_UNATTENDED,
    LAG_PAGE,
    LAG_TICKET,
    PARTITION_HOT,
    PARTITION_STUCK,
    RETENTION_NEAR,
    AlertKey,
    Condition,
    Rule,
)
from services.lagmon.alerts.decisions.rewinds import Rewinds

# The causes of each rule's alerts about lag: while one of them holds for the same group and lane, it says enough.
_CAUSES: Final[Mapping[str, tuple[Rule, ...]]] = {
    LAG_PAGE.name: (GROUP_UNATTENDED,),
    LAG_TICKET.name: (GROUP_UNATTENDED, LAG_PAGE),
    PARTITION_STUCK.name: (GROUP_UNATTENDED,),
    PARTITION_HOT.name: (GROUP_UNATTENDED, PARTITION_STUCK),
}


class Seen(NamedTuple):
    """All that the rules look at.

    Attributes:
        lags: By stream, lane and group.
        burns: Windows of all targets.
        now_ms: The wall clock.
        now: A clock that never steps.
        copies, disks, rewinds: What was seen of clusters and groups over time.
    """

    facts: Facts
    lags: Mapping[LaneKey, LaneLag]
    burns: BurnRates[LaneKey]
    now_ms: int
    now: float = 0.0
    copies: Copies = Copies()
    disks: Disks = Disks()
    rewinds: Rewinds = Rewinds()


def conditions(seen: Seen) -> dict[AlertKey, Condition]:
    """Returns what each rule says of each subject, after inhibition."""
    found = {
        each.key: each
        for each in (
            *cluster_conditions(seen.facts, seen.copies, seen.disks, seen.now),
            *_stream_conditions(seen),
            *_lag_conditions(seen),
            *group_conditions(seen.facts, seen.lags, seen.rewinds),
            *certificate_conditions(seen.facts.certificates, seen.now_ms),
        )
    }
    dead = {name for name in seen.facts.streams or () if is_on_dead_cluster(name, seen.facts)}
    return {key: _inhibited(each, found, dead, seen.facts.fresh) for key, each in found.items()}


def is_bad(lag: LaneLag, target: float) -> bool | None:
    """Whether a lane misses its target now; None if that cannot be told."""
    if lag.seconds > target:
        return True
    return False if lag.known else None


def is_on_dead_cluster(stream: str, facts: Facts) -> bool:
    """Whether a cluster that holds records of a stream is down: its lag is the cluster's, not the group's."""
    known: Mapping[str, ClusterFacts] = facts.clusters or {}
    where = ((facts.streams or {}).get(stream) or StreamFacts()).clusters
    return any(known[name].health is Health.DOWN for name in where if name in known)


def _stream_conditions(seen: Seen) -> Iterator[Condition]:
    for name, stream in (seen.facts.streams or {}).items():
        summary = f"traffic of stream {name} cannot leave: {stream.blocked}"
        yield _condition(FAILOVER_BLOCKED, bool(stream.blocked), summary, stream=name)
        oldest = {each.lane: each for each in sorted(stream.drains, key=lambda each: -each.since_ms)}
        for lane, drain in oldest.items():
            minutes = (seen.now_ms - drain.since_ms) / 60_000
            held = ", ".join(drain.holders[:5]) or "nobody that is known"
            summary = f"channel {drain.channel} drains since {minutes:.0f} minutes; it waits for {held}"
            yield _condition(DRAIN_HELD, minutes * 60 > ALERT_DRAIN_SECONDS, summary, stream=name, lane=lane)


def _lag_conditions(seen: Seen) -> Iterator[Condition]:
    for key, lag in seen.lags.items():
        stream = (seen.facts.streams or {}).get(key.stream)
        if stream is None:
            continue
        target = target_of(stream.targets, key.lane, key.group)
        if target is not None:
            yield from _burn_conditions(seen, key, lag, stream, target)
        behind = is_bad(lag, ALERT_UNTARGETED_SECONDS if target is None else target)
        yield from _behind_conditions(key, lag, behind)
        yield _retention_condition(key, lag)


def _burn_conditions(seen: Seen, key: LaneKey, lag: LaneLag, stream: StreamFacts, target: float) -> Iterator[Condition]:
    """Burn rates; a page needs a lane that misses its target now, so that nobody is paged about what is over."""
    fast, slow = (seen.burns.burns(key, each, stream.budget) for each in (FAST, SLOW))
    burning = _either(fast, slow)
    page = None if burning and not is_bad(lag, target) else burning

    def told(window: Window, over: str) -> str:
        rate = seen.burns.rate(key, window, stream.budget)
        behind = f"group {key.group} is {lag.seconds:.1f} s behind in lane {key.lane}; its target is {target:g} s"
        return f"{behind}, and over {over} its error budget burnt {rate:.1f} times too fast"

    yield _of_lane(LAG_PAGE, page, key, lambda: told(FAST.long, "an hour"))
    steady = seen.burns.burns(key, STEADY, stream.budget)
    yield _of_lane(LAG_TICKET, steady, key, lambda: told(STEADY.long, "three days"))


def _behind_conditions(key: LaneKey, lag: LaneLag, behind: bool | None) -> Iterator[Condition]:
    def told(what: str) -> str:
        return f"group {key.group} {what} lane {key.lane}; it is {lag.records:,} records, {lag.seconds:.1f} s behind"

    def stuck() -> str:
        return f"does not move in partitions {', '.join(map(str, sorted(lag.stuck)[:10]))} of"

    yield _of_lane(GROUP_UNATTENDED, behind if lag.unattended else False, key, lambda: told("has no member for"))
    yield _of_lane(PARTITION_STUCK, behind if lag.stuck else False, key, lambda: told(stuck()))
    share = lag.largest / max(1, lag.records)
    hot = lag.partitions >= ALERT_HOT_PARTITIONS_MIN and share > ALERT_HOT_SHARE
    mostly = f"has {share:.0%} of its lag in one partition of"
    yield _of_lane(PARTITION_HOT, behind if hot else False, key, lambda: told(mostly))


def _retention_condition(key: LaneKey, lag: LaneLag) -> Condition:
    share, left = lag.retention or (0.0, math.inf)
    near = share > ALERT_RETENTION_SHARE and left < ALERT_RETENTION_LEFT_SECONDS
    holds = True if near else False if lag.known else None

    def told() -> str:
        oldest = f"the oldest record that group {key.group} has not done in lane {key.lane}"
        reached = f"has reached {100 * share:.0f} % of what its topic keeps"
        return f"{oldest} {reached}; Kafka deletes it in {max(0.0, left):.0f} s"

    return _of_lane(RETENTION_NEAR, holds, key, told)


def _of_lane(rule: Rule, holds: bool | None, key: LaneKey, tell: Callable[[], str]) -> Condition:
    """A condition about one lane; it is put into words only if it holds, because lanes are many."""
    alert = AlertKey(rule.name, key.stream, "", key.lane, key.group)
    return Condition(alert, holds, tell()[:ALERT_TEXT_MAX] if holds else "")


def _condition(rule: Rule, holds: bool | None, summary: str, **subject: str) -> Condition:
    return Condition(AlertKey(rule.name, **subject), holds, summary[:ALERT_TEXT_MAX])


def _either(one: bool | None, other: bool | None) -> bool | None:
    return True if True in (one, other) else None if None in (one, other) else False


def _inhibited(
    condition: Condition, found: Mapping[AlertKey, Condition], dead: Collection[str], fresh: bool
) -> Condition:
    key = condition.key
    if condition.holds is None or key.certificate:  # replicas speak of certificates themselves
        return condition
    if not key.group:  # about streams and clusters lagmon knows only what the registry says
        return condition if fresh else condition._replace(holds=None)
    if key.stream in dead:
        return condition._replace(holds=None)
    causes = [found.get(key._replace(rule=rule.name)) for rule in _CAUSES.get(key.rule, ())]
    caused = any(cause is not None and cause.holds for cause in causes)
    return condition._replace(holds=None) if caused else condition
