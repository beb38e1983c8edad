"""The rules about groups: those that go back, and those without members that soon hold no drain any more. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from braid.kernel.limits.lagmon.alerts import ALERT_TEXT_MAX, ALERTS_OPEN_MAX
from services.lagmon.alerts.decisions.facts import Facts, GroupFacts, LaneKey
from services.lagmon.alerts.decisions.model import GROUP_IDLE, GROUP_REWOUND, AlertKey, Condition
from services.lagmon.alerts.decisions.rewinds import Rewinds, Rewound

_HOUR: Final = 3_600.0
_PARTITIONS_NAMED: Final = 10


def group_conditions(facts: Facts, lanes: Iterable[LaneKey], rewinds: Rewinds) -> Iterator[Condition]:
    """Yields what each rule about groups says; nothing is known while the assigner does not answer."""
    yield from idle_conditions(facts)
    for lane in lanes:
        key = AlertKey(GROUP_REWOUND.name, lane.stream, "", lane.lane, lane.group)
        found = rewinds.rewound(lane)
        summary = rewound_summary(lane, found) if found is not None else ""
        yield _condition(key, found is not None if facts.groups_fresh else None, summary)


def idle_conditions(facts: Facts) -> Iterator[Condition]:
    """Yields which groups soon hold no drain any more."""
    for name, group in (facts.groups or {}).items():
        if group.streams:
            key = AlertKey(GROUP_IDLE.name, group.streams[0], group=name)
            idle = is_idle(group)
            yield _condition(key, idle if facts.groups_fresh else None, _idle(name, group) if idle else "")


def is_idle(group: GroupFacts) -> bool:
    """Whether drains soon stop waiting for a group, or have stopped."""
    return group.idle_alerted or group.idle_expired


def first_idle(groups: Mapping[str, GroupFacts]) -> Sequence[str]:
    """Returns the groups whose alerts are first by key, no more than can be open at once."""
    idle = [(group.streams[0], name) for name, group in groups.items() if group.streams and is_idle(group)]
    return [name for _, name in sorted(idle)[:ALERTS_OPEN_MAX]]


def rewound_summary(lane: LaneKey, found: Rewound) -> str:
    """Says which partitions of a lane went back, and how far."""
    where = ", ".join(map(str, sorted(found.partitions)[:_PARTITIONS_NAMED]))
    back = f"group {lane.group} went back by {found.records:,} records in partitions {where} of lane {lane.lane}"
    return f"{back}, and nobody reset it"


def _idle(name: str, group: GroupFacts) -> str:
    streams = ", ".join(group.streams)
    if group.idle_expired:
        return f"group {name} has had no member for so long that drains of {streams} do not wait for it any more"
    left = f"{group.idle_left_seconds / _HOUR:.1f} hours"
    return (
        f"group {name} has no member; in {left} drains of {streams} wait for it no more, and its records may be deleted"
    )


def _condition(key: AlertKey, holds: bool | None, summary: str) -> Condition:
    return Condition(key, holds, summary[:ALERT_TEXT_MAX])
