"""Faults of links: between processes, and from a process to a cluster."""

from typing import Final

from tests.simulation.faults.schedule import Schedule
from tests.simulation.world import MEMBERS, PRODUCERS, SERVICES

_LATENCY: Final = (0.0002, 0.001)


class LinkFaults:
    """Faults of links; each method is a kind of fault."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule, self._world, self._dice = schedule, schedule.world, schedule.dice

    def _cut(self, one: str, other: str, *, longest: float) -> None:
        network, one_way = self._world.network, self._dice.random() < 0.4
        network.cut(one, other, one_way=one_way)
        text = f"cut {one} {'>' if one_way else '<>'} {other}"
        self._schedule.begin(text, self._dice.uniform(0.2, longest), lambda: network.heal(one, other))

    def cut_services(self) -> None:
        one = self._dice.choice(SERVICES)
        other = self._dice.choice([name for name in SERVICES if name != one])
        self._cut(one, other, longest=20.0)

    def cut_member(self) -> None:
        ends = [self._schedule.one(SERVICES), self._dice.choice(MEMBERS)]
        self._dice.shuffle(ends)
        self._cut(*ends, longest=20.0)

    def cut_producer(self) -> None:
        ends = [self._schedule.one(SERVICES), self._dice.choice(PRODUCERS)]
        self._dice.shuffle(ends)
        self._cut(*ends, longest=20.0)

    def slow_link(self) -> None:
        one, other = self._schedule.one(SERVICES), self._dice.choice((*SERVICES, *MEMBERS, *PRODUCERS))
        low = self._dice.uniform(0.01, 0.5)
        network = self._world.network
        network.set_latency(one, other, low, low * 2)
        text = f"slow link {one} {other} {low:.3f}"
        self._schedule.begin(text, self._dice.uniform(1.0, 15.0), lambda: network.set_latency(one, other, *_LATENCY))

    def fade_member(self) -> None:
        """A member's link to the leading assigner becomes slow, then loses what the member says."""
        network, member = self._world.network, self._dice.choice(MEMBERS)
        assigner = self._world.leader("assigner") or SERVICES[-1]
        low = self._world.plan.lease_seconds * self._dice.uniform(0.1, 0.4)
        network.set_latency(assigner, member, low, low * 1.2)

        def cut() -> None:
            network.cut(member, assigner, one_way=True)
            self._schedule.begin(f"cut {member} > {assigner}", 3 * self._world.plan.lease_seconds, heal)

        def heal() -> None:
            network.set_latency(assigner, member, *_LATENCY)
            network.heal(member, assigner)

        self._schedule.begin(f"fade {member} {low:.3f}", self._dice.uniform(1.0, 4.0), cut)

    def cut_cluster(self) -> None:
        name = self._dice.choice((*SERVICES, *MEMBERS, *PRODUCERS))
        kafka, cluster = self._world.running[name].kafka, self._dice.choice(self._world.plan.clusters)
        kafka.cut(cluster)
        self._schedule.begin(f"cut {name} from {cluster}", self._dice.uniform(0.2, 10.0), lambda: kafka.mend(cluster))
