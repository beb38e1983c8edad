"""The rules: which conditions hold, given the lag of lanes and the mesh's state. Pure.

Each rule says of each subject whether its condition holds, does not hold, or is not known. A condition that another one
explains is inhibited: it counts as not known while its cause holds. So a dead cluster is one alert, and so is a group
without members. Rules about lanes say it of all lanes at once, because lanes are many. They are put into words for
those lanes alone that somebody is to hear of.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
from services.lagmon.alerts.decisions.burn_rates import FAST, SLOW, STEADY, BurnRates
from services.lagmon.alerts.decisions.certificates import certificate_conditions
from services.lagmon.alerts.decisions.cluster_rules import cluster_conditions
from services.lagmon.alerts.decisions.copies import Copies
from services.lagmon.alerts.decisions.disks import Disks
from services.lagmon.alerts.decisions.facts import ClusterFacts, Facts, Health, LaneKey, LaneLag, StreamFacts
from services.lagmon.alerts.decisions.group_rules import idle_conditions, rewound_summary
from services.lagmon.alerts.decisions.lanes.columns import LaneColumns
from services.lagmon.alerts.decisions.lanes.states import ABSENT, HOLDS, NO, UNKNOWN, YES, States, either, states, where
from services.lagmon.alerts.decisions.model import (
    DRAIN_HELD,
    FAILOVER_BLOCKED,
    GROUP_REWOUND,
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
from services.lagmon.alerts.decisions.rewinds import Rewinds, RewoundLanes

_Flags = NDArray[np.bool_]
_Floats = NDArray[np.float64]

LANE_RULES: Final = (
    LAG_PAGE,
    LAG_TICKET,
    GROUP_UNATTENDED,
    PARTITION_STUCK,
    PARTITION_HOT,
    RETENTION_NEAR,
    GROUP_REWOUND,
)

# The causes of each rule's alerts about lag: while one of them holds for the same group and lane, it says enough.
_CAUSES: Final[Mapping[str, tuple[Rule, ...]]] = {
    LAG_PAGE.name: (GROUP_UNATTENDED,),
    LAG_TICKET.name: (GROUP_UNATTENDED, LAG_PAGE),
    PARTITION_STUCK.name: (GROUP_UNATTENDED,),
    PARTITION_HOT.name: (GROUP_UNATTENDED, PARTITION_STUCK),
}


class LanesSeen(NamedTuple):
    """All lanes at one look, by number, as the rules look at them.

    Attributes:
        there: Which lanes have rows.
        listed: Those of streams that the registry knows.
        targets: Seconds; NaN where none is declared.
        budgets: Share of time in which a target may fail.
        dead: Those of streams with records on a cluster that is down.
        burns, burn_rows: Windows of all targets, and the row of each lane.
        rewound: What went back, and by lane whether something did.
        groups_fresh: Whether the assigner was heard lately.
    """

    keys: Sequence[LaneKey]
    lags: LaneColumns
    there: _Flags
    listed: _Flags
    targets: _Floats
    budgets: _Floats
    dead: _Flags
    burns: BurnRates[LaneKey]
    burn_rows: NDArray[np.int64]
    rewound: tuple[Rewinds | RewoundLanes, _Flags]
    groups_fresh: bool


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
    """Returns what each rule says of each subject, after inhibition, one by one."""
    found = {each.key: each for each in mesh_conditions(seen)}
    lanes = _lanes_seen(seen)
    for rule, of_lanes in zip(LANE_RULES, lane_states(lanes).tolist(), strict=True):
        for number, state in enumerate(of_lanes):
            if state != ABSENT:
                key = lane_alert(rule, lanes.keys[number])
                summary = lane_summary(rule, lanes, number) if state == YES else ""
                found[key] = Condition(key, HOLDS[state], summary)
    return found


def mesh_conditions(seen: Seen) -> Iterator[Condition]:
    """Yields what the rules say of clusters, streams, idle groups and certificates, after inhibition."""
    dead = {name for name in seen.facts.streams or () if is_on_dead_cluster(name, seen.facts)}
    of_clusters = cluster_conditions(seen.facts, seen.copies, seen.disks, seen.now)
    for each in chain(of_clusters, _stream_conditions(seen)):
        yield each if seen.facts.fresh else each._replace(holds=None)
    for each in idle_conditions(seen.facts):
        yield each._replace(holds=None) if each.key.stream in dead else each
    yield from certificate_conditions(seen.facts.certificates, seen.now_ms)  # replicas speak of them themselves


def lane_states(lanes: LanesSeen) -> States:
    """Returns what the rules about lanes say after inhibition, by rule in the order of `LANE_RULES` and by lane."""
    lags, declared = lanes.lags, ~np.isnan(lanes.targets)
    behind = is_bad(lags, np.where(declared, lanes.targets, ALERT_UNTARGETED_SECONDS))
    hot = (lags.partitions >= ALERT_HOT_PARTITIONS_MIN) & (_share(lags) > ALERT_HOT_SHARE)
    stuck = lags.stuck.flags(len(lags.records))
    rewound = states(lanes.rewound[1], ~lanes.rewound[1])
    found = {
        LAG_PAGE.name: where(declared, _paging(lanes), ABSENT),
        LAG_TICKET.name: where(declared, lanes.burns.burning(lanes.burn_rows, STEADY, lanes.budgets), ABSENT),
        GROUP_UNATTENDED.name: where(lags.unattended, behind, NO),
        PARTITION_STUCK.name: where(stuck, behind, NO),
        PARTITION_HOT.name: where(hot, behind, NO),
        RETENTION_NEAR.name: _retention_near(lags),
        GROUP_REWOUND.name: where(lanes.there & lanes.groups_fresh, rewound, UNKNOWN),
    }
    for name, said in found.items():
        about = lanes.there if name == GROUP_REWOUND.name else lanes.there & lanes.listed
        found[name] = where(about, said, ABSENT)
    return np.array([_inhibited(rule, found, lanes.dead) for rule in LANE_RULES], np.int8)


def lane_alert(rule: Rule, lane: LaneKey) -> AlertKey:
    """Returns the key of a rule's alert about a lane."""
    return AlertKey(rule.name, lane.stream, "", lane.lane, lane.group)


def lane_summary(rule: Rule, lanes: LanesSeen, number: int) -> str:
    """Says of one lane, in which a rule's condition holds, why it does."""
    key, lag = lanes.keys[number], lanes.lags.lag(number)
    if rule in (LAG_PAGE, LAG_TICKET):
        window, over = (FAST.long, "an hour") if rule is LAG_PAGE else (STEADY.long, "three days")
        rate = lanes.burns.rate(key, window, float(lanes.budgets[number]))
        target = f"its target is {float(lanes.targets[number]):g} s"
        behind = f"group {key.group} is {lag.seconds:.1f} s behind in lane {key.lane}; {target}"
        text = f"{behind}, and over {over} its error budget burnt {rate:.1f} times too fast"
    elif rule is GROUP_REWOUND:
        found = lanes.rewound[0].rewound(key)
        text = rewound_summary(key, found) if found is not None else ""
    elif rule is RETENTION_NEAR:
        text = _retention_summary(key, lag)
    else:
        text = f"group {key.group} {_trouble(rule, lag)} lane {key.lane}"
        text = f"{text}; it is {lag.records:,} records, {lag.seconds:.1f} s behind"
    return text[:ALERT_TEXT_MAX]


def is_bad(lags: LaneColumns, targets: _Floats) -> States:
    """Whether lanes miss their targets now."""
    bad = lags.seconds > targets
    return states(bad, ~bad & lags.known)


def is_on_dead_cluster(stream: str, facts: Facts) -> bool:
    """Whether a cluster that holds records of a stream is down: its lag is the cluster's, not the group's."""
    known: Mapping[str, ClusterFacts] = facts.clusters or {}
    clusters = ((facts.streams or {}).get(stream) or StreamFacts()).clusters
    return any(known[name].health is Health.DOWN for name in clusters if name in known)


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


def _paging(lanes: LanesSeen) -> States:
    """Burn rates; a page needs a lane that misses its target now, so that nobody is paged about what is over."""
    fast, slow = (lanes.burns.burning(lanes.burn_rows, each, lanes.budgets) for each in (FAST, SLOW))
    burning = either(fast, slow)
    over = (burning == YES) & (is_bad(lanes.lags, lanes.targets) != YES)
    return where(~over, burning, UNKNOWN)


def _retention_near(lags: LaneColumns) -> States:
    near = (lags.share > ALERT_RETENTION_SHARE) & (lags.seconds_left < ALERT_RETENTION_LEFT_SECONDS)
    return states(near, ~near & lags.known)


def _share(lags: LaneColumns) -> _Floats:
    """Returns the share of each lane's records that is in one partition."""
    found: _Floats = lags.largest / np.maximum(1, lags.records)
    return found


def _retention_summary(key: LaneKey, lag: LaneLag) -> str:
    share, left = lag.retention or (0.0, 0.0)
    oldest = f"the oldest record that group {key.group} has not done in lane {key.lane}"
    reached = f"has reached {100 * share:.0f} % of what its topic keeps"
    return f"{oldest} {reached}; Kafka deletes it in {max(0.0, left):.0f} s"


def _trouble(rule: Rule, lag: LaneLag) -> str:
    """Says what is wrong with a group that is behind."""
    if rule is GROUP_UNATTENDED:
        return "has no member for"
    if rule is PARTITION_STUCK:
        return f"does not move in partitions {', '.join(map(str, sorted(lag.stuck)[:10]))} of"
    return f"has {lag.largest / max(1, lag.records):.0%} of its lag in one partition of"


def _condition(rule: Rule, holds: bool | None, summary: str, **subject: str) -> Condition:
    return Condition(AlertKey(rule.name, **subject), holds, summary[:ALERT_TEXT_MAX])


def _inhibited(rule: Rule, found: Mapping[str, States], dead: _Flags) -> States:
    """Returns what a rule says where no cause of it holds, and where the lane's cluster is not the cause."""
    caused = dead.copy()
    for cause in _CAUSES.get(rule.name, ()):
        caused |= found[cause.name] == YES
    said = found[rule.name]
    return where(~(caused & (said != ABSENT)), said, UNKNOWN)


def _lanes_seen(seen: Seen) -> LanesSeen:
    """Puts lanes that were summed one by one into columns."""
    keys = list(seen.lags)
    known = [(seen.facts.streams or {}).get(key.stream) for key in keys]
    targets = [
        target_of(each.targets, key.lane, key.group) if each is not None else None
        for key, each in zip(keys, known, strict=True)
    ]
    return LanesSeen(
        keys,
        LaneColumns.of(list(seen.lags.values())),
        np.ones(len(keys), np.bool_),
        np.array([each is not None for each in known], np.bool_),
        np.array([np.nan if target is None else target for target in targets], np.float64),
        np.array([(each or StreamFacts()).budget for each in known], np.float64),
        np.array([is_on_dead_cluster(key.stream, seen.facts) for key in keys], np.bool_),
        seen.burns,
        seen.burns.rows(keys),
        (seen.rewinds, np.array([seen.rewinds.rewound(key) is not None for key in keys], np.bool_)),
        seen.facts.groups_fresh,
    )
