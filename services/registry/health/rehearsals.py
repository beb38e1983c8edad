"""Judges clusters from the reports of drills' clients, for each drill's stream alone. Pure.

A drill's clients refuse connections to a cluster, or to one of its brokers, and report that they cannot reach it. The
rules are those for clusters (`witnesses.py`, `evidence.py`, `judge.py`). The registry's probe is assumed to fail as the
reports say, since it would if the cluster were gone. The judgement makes channels of the drill's own stream unfit for
traffic, as lost leaders would. It affects no cluster's health and no other stream.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from services.registry.health.evidence import Evidence, Look, LookPart, weigh
from services.registry.health.judge import Judgement, judge
from services.registry.liveness.witnesses import Reporter, Users, Witnesses
from services.registry.model.channels import ChannelState
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.drills import DrillKind
from services.registry.model.clusters.health import Health
from services.registry.model.clusters.thresholds import Thresholds, thresholds_of
from services.registry.model.streams import Stream

_WELL = Judgement(Health.HEALTHY)
_LEFT = (Health.DOWN, Health.HALF_DEAD)


@dataclass(slots=True)
class _Rehearsal:
    """Reports of one drill's clients about the one cluster that its mark names."""

    looked_at: float
    judgement: Judgement = _WELL
    hanging_since: float | None = None
    witnesses: Witnesses = field(default_factory=Witnesses)


class Rehearsals:
    """All drills of a term of leadership. Drills without a report take no memory."""

    def __init__(self) -> None:
        self._rehearsals: dict[str, _Rehearsal] = {}

    def complains(self, stream: Stream, cluster: str, reporter: Reporter, now: float) -> None:
        """A client of a drill reports that it does not reach a cluster. Only the one that the mark names counts."""
        if stream.spec.drill is not None and stream.spec.drill.cluster == cluster:
            rehearsal = self._rehearsals.setdefault(stream.name, _Rehearsal(now))
            rehearsal.witnesses.complains(cluster, reporter, now)

    def look(
        self, streams: Mapping[str, Stream], clusters: Mapping[str, Cluster], usual: Thresholds, now: float
    ) -> Mapping[tuple[str, str], str]:
        """Judges each drill again: why channels of drills cannot continue, by cluster and topic."""
        broken: dict[tuple[str, str], str] = {}
        for name, rehearsal in list(self._rehearsals.items()):
            stream = streams.get(name)
            drill = stream.spec.drill if stream is not None else None
            if stream is None or drill is None or drill.cluster not in clusters:
                del self._rehearsals[name]  # it is over
                continue
            _judge(rehearsal, stream, drill.kind, clusters[drill.cluster], usual, now)
            if rehearsal.judgement.health in _LEFT:
                why = f"a drill counts it as {rehearsal.judgement.health.name}: {rehearsal.judgement.reason}"
                active = [each for each in stream.channels if each.state is ChannelState.ACTIVE]
                broken |= {(each.cluster, each.topic): why for each in active if each.cluster == drill.cluster}
        return broken


def _judge(
    rehearsal: _Rehearsal, stream: Stream, kind: DrillKind, cluster: Cluster, usual: Thresholds, now: float
) -> None:
    thresholds = thresholds_of(cluster.spec.health, usual)
    if stream.spec.ride_out_seconds is not None:
        thresholds = replace(thresholds, ride_out_seconds=stream.spec.ride_out_seconds)
    heard = rehearsal.witnesses.heard(cluster.name, Users(0, 0), now)
    heard = heard.by(thresholds.witness_hosts, thresholds.witness_share)
    failed = LookPart.METADATA if heard.everyone.condemns else None
    look = Look(rehearsal.looked_at, now, failed, "as the drill's clients report")
    evidence = weigh(look, *heard, bad_since=rehearsal.judgement.firm_since)
    rehearsal.judgement = judge(rehearsal.judgement, _hanging(rehearsal, evidence, kind), thresholds)
    rehearsal.looked_at = now


def _hanging(rehearsal: _Rehearsal, evidence: Evidence, kind: DrillKind) -> Evidence:
    """Marks bad evidence of a lost broker as hanging: appends hang until Kafka elects other leaders, or traffic
    leaves."""
    if evidence.good or kind is not DrillKind.BROKER_LOSS:
        rehearsal.hanging_since = None
        return evidence
    if rehearsal.hanging_since is None:
        rehearsal.hanging_since = evidence.since
    return replace(evidence, hanging_since=rehearsal.hanging_since)
