"""Mutants of how clusters are judged, each with a plan in which clusters ail and nothing else is wrong."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from braid.api.registry.v1 import route_pb2
from braid.kafka.memory import link
from braid.kernel.errors import ClusterUnavailable
from services.registry.health import evidence, judge
from services.registry.health.evidence import Evidence, Look
from services.registry.liveness import own_lateness, witnesses
from services.registry.model.clusters.thresholds import Thresholds
from services.registry.model.streams import Stream
from services.registry.policy import failover, plan
from services.registry.policy.world import Room, World
from services.registry.watches import routes
from tests.simulation.mutants import Mutant
from tests.simulation.plan import THREE_CLUSTERS
from tests.simulation.scripted import Step


def _heedless(self: own_lateness.Lateness, now: float) -> float:
    return now


def _host_of_its_own(hello: route_pb2.ProducerHello, peer: str) -> str:
    return hello.producer_id


def _hosts_alone(reporters: Collection[witnesses.Reporter]) -> Mapping[witnesses.Reporter, witnesses.Reporter]:
    """A defect: a principal may speak with as many voices as it names hosts."""
    return {each: each for each in reporters}


def _any_complaint(self: witnesses.ReportCounts) -> bool:
    return self.failing > 0


def _never(self: witnesses.ReportCounts) -> bool:
    return False


def _whoever_answers(look: Look, heard: witnesses.ClusterReports) -> witnesses.ReportCounts:
    return heard.everyone


_after_bad: Final = judge._after_bad


def _down_at_once(judgement: judge.Judgement, evidence: Evidence, thresholds: Thresholds) -> judge.Judgement:
    return _after_bad(judgement, evidence, replace(thresholds, down_after_seconds=0.0))


def _any_spare(world: World, stream: Stream, lane: str, room: Room) -> bool:
    """A spare counts whatever ails its cluster."""
    return any(
        world.cluster(each.cluster).reachable for each in stream.channels if each.spare and each.ref.lane == lane
    )


def _no_answer(self: link.Link) -> ClusterUnavailable | None:
    """A defect: the SDK counts every failure of Kafka's as an unreachable cluster."""
    if not self._denied or not self._reaches:
        return None
    return ClusterUnavailable(f"cluster {self.cluster.name} does not answer")


_AILING: Final[dict[str, Any]] = {
    "ailing": True,
    "brokers": 3,
    "voices": 3,
    "thresholds": {"slow_floor_seconds": 0.08},
    "fault_seconds": 60.0,
    "fault_interval_seconds": 2.0,
    "settle_seconds": 120.0,
}

_ALL_SLOW: Final = [Step(10.0 + number, "slow-cluster", name, 30.0) for number, name in enumerate(THREE_CLUSTERS)]

_LATE_WHILE_SLOW: Final = (
    Step(2.0, "slow-cluster", "east", 14.0),
    *(Step(3.0 + 2.2 * number, "stall-registry", lasts_seconds=1.7) for number in range(6)),
)

HEALTH_MUTANTS: Final = (
    Mutant(
        "a cluster blamed for its registry's lateness",
        "health",
        [(own_lateness.Lateness, "attentive", _heedless)],
        ("stall-registry", "slow-cluster"),
        {**_AILING, "fault_seconds": 18.0, "script": _LATE_WHILE_SLOW},
    ),
    Mutant(
        "producers counted as hosts",
        "health",
        [(routes, "_host", _host_of_its_own), (witnesses, "_witnesses", _hosts_alone)],
        ("cut-voices",),
        _AILING,
    ),
    Mutant(
        "one witness condemns",
        "health",
        [
            (witnesses.ReportCounts, "condemns", property(_any_complaint)),
            (witnesses.ReportCounts, "sole", property(_never)),
        ],
        ("cut-voices",),
        _AILING,
    ),
    Mutant(
        "acknowledgements that producers saw do not count",
        "health",
        [(witnesses.ReportCounts, "acquits", property(_never))],
        ("cut-registries",),
        _AILING,
    ),
    Mutant(
        "readers acquit a cluster that takes no appends",
        "health",
        [(evidence, "_outweighing", _whoever_answers)],
        ("fill-cluster",),
        # of several brokers, that appends hang is seen whoever answers
        {**_AILING, "brokers": 1, "fault_seconds": 13.0, "script": [Step(3.0, "fill-cluster", "east", 8.0)]},
    ),
    Mutant(
        "a host that alone uses a cluster is believed like several",
        "health",
        [(witnesses.ReportCounts, "sole", property(_never))],
        ("cut-applications",),
        {**_AILING, "one_host": True, "fault_interval_seconds": 8.0},
    ),
    Mutant(
        "a refusal taken for silence",
        "health",
        [(link.Link, "denial", property(_no_answer))],
        ("deny-applications", "kill-member"),
        _AILING,
    ),
    Mutant(
        "a moment's silence is a death",
        "health",
        [(judge, "_after_bad", _down_at_once)],
        ("gasp-cluster",),
        _AILING,
    ),
    Mutant(
        "a spare counts that can take nothing",
        "traffic",
        [(plan, "covered", _any_spare), (failover, "covered", _any_spare)],
        ("slow-cluster",),
        {**_AILING, "clusters": THREE_CLUSTERS, "fault_seconds": 50.0, "script": _ALL_SLOW},
    ),
)
