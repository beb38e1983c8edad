"""The assigner's metrics about responses to lag, exported while it leads."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from braid.kernel.limits.assigner.placement import SLOW_RATIO
from braid.kernel.metrics import MetricDeclaration
from braid.runtime.metrics.sampled import SampledMetric
from braid.runtime.telemetry import Metrics
from services.assigner.model.group import Group
from services.assigner.model.lag.response_events import ResponseTaken, ResponseUndone
from services.assigner.policy.responses.facts import MemberFacts
from services.assigner.policy.responses.group_facts import answers_slowness

GROUP_DESIRED_MEMBERS: Final = MetricDeclaration(
    "braid_group_desired_members", "gauge", "{member}", ("group",), "Members that a group's scaling policy calls for"
)
GROUP_RESPONSES: Final = MetricDeclaration(
    "braid_group_responses",
    "gauge",
    "{response}",
    ("group", "kind", "state"),
    "Responses to lag: proposed, applied, or applied and not enough (`exhausted`)",
)
GROUP_RESPONSE_CHANGES: Final = MetricDeclaration(
    "braid_group_response_changes",
    "counter",
    "{change}",
    ("group", "kind", "outcome"),
    "Responses to lag that were proposed, applied, found to be not enough (`exhausted`), or undone",
)
GROUP_SLOW_MEMBERS: Final = MetricDeclaration(
    "braid_group_slow_members",
    "gauge",
    "{member}",
    ("group",),
    "Members that take much longer for a record than the others, where a policy compares them",
)


class GroupGauges:
    """One replica's metrics about responses to lag, with a row for each group that has such policies."""

    def __init__(self, metrics: Metrics) -> None:
        registry = metrics.registry
        self._desired = SampledMetric(registry, GROUP_DESIRED_MEMBERS)
        self._responses = SampledMetric(registry, GROUP_RESPONSES)
        self._changes = SampledMetric(registry, GROUP_RESPONSE_CHANGES)
        self._slow = SampledMetric(registry, GROUP_SLOW_MEMBERS)
        self._changed: Counter[tuple[str, str, str]] = Counter()
        self._slow_by_group: dict[str, int] = {}
        self._names: set[str] = set()  # of groups with something to show

    @property
    def names(self) -> Collection[str]:
        """The groups that `show` is to be given: those that have something to show now, or had it."""
        return self._names | self._slow_by_group.keys() | {group for group, _, _ in self._changed}

    def follow(self, state: Group) -> None:
        """Takes a group as it is now."""
        if state.scaling.desired is not None or state.responses.taken or answers_slowness(state.responses):
            self._names.add(state.name)

    def count(self, group: str, events: Iterable[object]) -> None:
        """Counts the changes of a group's responses; other events count nothing."""
        changes = [each for each in events if isinstance(each, ResponseTaken | ResponseUndone)]
        for each in changes:
            outcome = each.state.name.lower() if isinstance(each, ResponseTaken) else "undone"
            self._changed[group, each.kind.title, outcome] += 1
        if changes:
            self._changes.replace({labels: count for labels, count in self._changed.items()})

    def compare(self, group: str, members: Mapping[str, MemberFacts]) -> None:
        """Takes how the members of a group compare with one another; shown by the next `show`."""
        self._slow_by_group[group] = sum(each.ratio >= SLOW_RATIO for each in members.values())

    def show(self, groups: Mapping[str, Group]) -> None:
        """Shows these groups as they are; one that was deleted, or has no policy any more, has no row."""
        self._names &= groups.keys()
        desired = {(name,): state.scaling.desired for name, state in groups.items()}
        self._desired.replace({labels: each.members for labels, each in desired.items() if each is not None})
        self._responses.replace(
            Counter(
                (name, each.kind.title, each.state.name.lower())
                for name, state in groups.items()
                for each in state.responses.taken.values()
            )
        )
        compared = {name for name, state in groups.items() if answers_slowness(state.responses)}
        self._slow_by_group = {name: count for name, count in self._slow_by_group.items() if name in compared}
        self._slow.replace({(name,): count for name, count in self._slow_by_group.items()})
        self._forget({name for name, state in groups.items() if state.spec is not None})

    def clear(self) -> None:
        """Removes the rows of gauges, because another replica may lead; counters stay."""
        self._slow_by_group, self._names = {}, set()
        for each in (self._desired, self._responses, self._slow):
            each.replace({})

    def _forget(self, groups: set[str]) -> None:
        """Drops the counts of groups that were deleted."""
        gone = [labels for labels in self._changed if labels[0] not in groups]
        for labels in gone:
            del self._changed[labels]
        if gone:
            self._changes.replace({labels: count for labels, count in self._changed.items()})
