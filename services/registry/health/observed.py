"""Observations of one cluster in one term, from probes and witnesses, and the judgement they lead to. No I/O.

The prober feeds it each probe and survey, and it returns the judgement; people see it as the cluster's present
evidence.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from braid.kernel.limits.registry.health import FLAP_WINDOW_SECONDS, HANDED_OVER_SECONDS, LAST_LOOK_SECONDS
from braid.kernel.ports import Survey, TopicPartition
from services.registry.health.append_latency import Latency, inherited
from services.registry.health.evidence import Look, LookPart, weigh
from services.registry.health.gaps import Gaps
from services.registry.health.judge import Judgement, hold_seconds, judge
from services.registry.liveness.witnesses import ClusterReports, ReportCounts
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.health import (
    Health,
    HealthVerdict,
)
from services.registry.model.clusters.thresholds import Thresholds, thresholds_of
from services.registry.model.topics import canary_topic


@dataclass(frozen=True, slots=True)
class EvidenceSummary:
    """The present evidence on a cluster, for people."""

    looked_ms: int
    look: Look
    latency: Latency
    reports: ReportCounts
    thresholds: Thresholds
    brokers: int
    missing_brokers: tuple[int, ...]
    silent_brokers: tuple[int, ...]
    partitions: int
    gone: tuple[TopicPartition, ...]
    under_replicated: int
    under_replicated_topics: tuple[str, ...]
    falls: int
    no_topics: str


class Observed:
    """Observations of one cluster in one term of leadership.

    Attributes:
        canary: The topic that probes append to.
        judgement: The judged health.
        gaps: Unavailable parts of the cluster.
        snapshot: The present evidence; None before the first probe.
        hanging_since: Since when appends hang because some of several brokers died; None if the last evidence means
            something else.
    """

    def __init__(self, cluster: Cluster, usual: Thresholds) -> None:
        """Starts from a cluster's history; `usual` are the thresholds unless the cluster declares its own."""
        self.canary = canary_topic(cluster.spec.topic_prefix)
        self.judgement = Judgement(cluster.health, cluster.health_reason, verdict=cluster.verdict)
        self.gaps = Gaps(self.canary, cluster.usual_brokers)
        self.snapshot: EvidenceSummary | None = None
        self._registered_ms = cluster.create_time_ms
        self._usual = usual
        self._latency = inherited(cluster.usual_append_seconds)
        self._was_slow = cluster.health_reason if cluster.verdict is HealthVerdict.SLOW else ""
        self._refused = 0
        self._alive_at = -math.inf  # the newest answer that hosts saw while the registry's looks failed
        self.hanging_since: float | None = None

    def is_of(self, cluster: Cluster) -> bool:
        """Whether these observations are of that cluster, not of a deleted one with the same name."""
        return cluster.exists and cluster.create_time_ms == self._registered_ms

    def thresholds(self, cluster: Cluster) -> Thresholds:
        """The thresholds that apply to the cluster now."""
        return thresholds_of(cluster.spec.health, self._usual)

    def patience(self, cluster: Cluster, now: float) -> float:
        """Seconds the next probe may take: at most until the present run of bad evidence, if any, is long enough.

        No broker answered since the run began, so a longer probe would only delay the verdict. If only a single host
        complains, probes succeed and have their full time.
        """
        thresholds = self.thresholds(cluster)
        if self.judgement.firm_since is None or self.judgement.health is Health.DOWN:
            return thresholds.look_timeout_seconds
        left = self.judgement.firm_since + thresholds.down_after_seconds - now
        if self.hanging_since is not None:
            left = self.hanging_since + max(thresholds.hanging_seconds(), self._handing_over) - now
            if left <= 0:  # traffic has left; whoever looks for a return has the full time
                return thresholds.look_timeout_seconds
        return min(thresholds.look_timeout_seconds, max(LAST_LOOK_SECONDS, left))

    def see_canary(self, survey: Survey, now: float) -> bool:
        """Takes a survey of the canary's topic; returns whether the topic exists."""
        self.gaps.see_brokers(survey.brokers, now)
        self.gaps.see_topics(survey.topics, now)
        return self.canary in survey.topics

    def see_topics(self, asked: Collection[str], survey: Survey, now: float) -> None:
        """Takes a survey of this mesh's topics."""
        self.gaps.keep_topics(asked)
        self.gaps.see_topics(survey.topics, now)
        self.gaps.miss_topics([topic for topic in asked if topic not in survey.topics], now)

    @property
    def answers(self) -> bool:
        """Whether the last probe succeeded, whatever the judgement."""
        return self.snapshot is not None and self.snapshot.look.failed is None

    def forget_topics(self) -> None:
        """Forgets which partitions lack a leader: the cluster answers nothing, and is asked again when it does."""
        self.gaps.keep_topics(())

    def channels_gone(self, cluster: Cluster, now: float) -> dict[str, str]:
        """Topics that have lost too many of their partitions, each with the reason, for people."""
        return self.gaps.channels_gone(now, self.thresholds(cluster))

    def append_time(self, cluster: Cluster) -> float:
        """The usual append time in seconds if it is worth recording; else 0."""
        told = self._latency.tells(cluster.usual_append_seconds, self.thresholds(cluster))
        return self._latency.usual if told else 0.0

    def partition(self, count: int, looks: int) -> TopicPartition:
        """The canary's partition for the next probe: the next one in turn that has a leader."""
        turns = [TopicPartition(self.canary, (looks + each) % count) for each in range(count)]
        return next((each for each in turns if self.gaps.has_leader(each)), turns[0])

    def see_look(
        self, cluster: Cluster, look: Look, partition: TopicPartition | None, heard: ClusterReports, now_ms: int
    ) -> Judgement:
        """Takes one more probe, which reached a partition of the canary, and returns the judgement."""
        thresholds = self.thresholds(cluster)
        heard = heard.by(thresholds.witness_hosts, thresholds.witness_share)
        # What comes after metadata asks one broker: that it refuses says nothing of those that answered.
        self._refused = self._refused + 1 if look.refused and look.failed is LookPart.METADATA else 0
        if look.failed is None:
            self._latency = self._latency.after(look.append_seconds)
        if partition is not None and look.failed is None:
            self.gaps.answers(partition)
        elif partition is not None and look.hangs:
            self.gaps.hangs(partition, look.since)
        evidence = weigh(
            look,
            *heard,
            bad_since=self.judgement.firm_since,
            refused_looks=self._refused,
            slow=self._latency.slow(thresholds) if self._latency.settled else self._was_slow,
            gaps=self.gaps.reason(look.until, thresholds.half_dead_after_seconds),
            too_much_gone=self.gaps.share(look.until, thresholds.half_dead_after_seconds) > thresholds.gone_share,
            no_topics=self.gaps.no_topics(thresholds.no_topics_after_seconds),
        )
        died = evidence.known and not evidence.good and self._some_brokers_died(look, thresholds)
        self._alive_at = max(self._alive_at, -math.inf if evidence.alive_at is None else evidence.alive_at)
        self.hanging_since = self._since_acknowledged() if died else None
        evidence = replace(evidence, hanging_since=self.hanging_since, hanging_seconds=self._handing_over)
        if self.gaps.hanging_since is None and look.failed is None:
            self.gaps.see_silent(())
        elif evidence.known and (silence := self.gaps.silence()):
            evidence = replace(evidence, reason=f"{silence}; {evidence.reason}")
        hold = hold_seconds(cluster.falls_ms, now_ms, thresholds)
        self.judgement = judge(self.judgement, evidence, thresholds, hold)
        self._picture(cluster, look, heard.everyone, now_ms)
        return self.judgement

    def _since_acknowledged(self) -> float | None:
        """Since when appends hang: never before the last acknowledgement that hosts saw, if that append would hang as
        well."""
        since = self.gaps.hanging_since
        if since is None or (self.gaps.some_died and not self.gaps.all_on_silent):
            return since
        return max(since, self._alive_at)

    @property
    def _handing_over(self) -> float:
        """The least seconds that appends hang before traffic leaves: longer while no broker is known to have died."""
        return 0.0 if self.gaps.some_died else HANDED_OVER_SECONDS

    @property
    def asked_brokers(self) -> Collection[int]:
        """Brokers to ask one by one: all of several, while the last probe failed."""
        several = len(self.gaps.usual_brokers) > 1
        return () if self.answers or self.snapshot is None or not several else self.gaps.usual_brokers

    def _some_brokers_died(self, look: Look, thresholds: Thresholds) -> bool:
        """Whether bad evidence means that some of several brokers died: others answer, and no leaders are missing.

        Kafka elects new leaders once it has noticed. Until then appends hang where the dead brokers had a copy.
        """
        others_answer = look.failed is not LookPart.METADATA and len(self.gaps.usual_brokers) > 1
        return others_answer and self.gaps.leaderless_share() <= thresholds.gone_share

    def channels_hanging(
        self, cluster: Cluster, now: float, ride_out_seconds: Mapping[str, float | None]
    ) -> dict[str, str]:
        """Topics whose appends have hung for longer than their streams ride out, each with the reason, for people.

        Args:
            cluster: The topics' cluster.
            now: The present time.
            ride_out_seconds: Limit by topic; None for what the cluster declares.
        """
        if self.hanging_since is None:
            return {}
        thresholds = self.thresholds(cluster)
        most = now - self.hanging_since
        hung = {topic: min(seconds, most) for topic, seconds in self.gaps.hanging_seconds(now).items()}
        least = self._handing_over
        bounds = {topic: max(least, thresholds.hanging_seconds(own)) for topic, own in ride_out_seconds.items()}
        return {
            topic: f"appends have hung for {hung[topic]:.1f} s on brokers that do not answer"
            for topic, bound in bounds.items()
            if hung.get(topic, 0.0) >= bound
        }

    def _picture(self, cluster: Cluster, look: Look, reports: ReportCounts, now_ms: int) -> None:
        self.snapshot = EvidenceSummary(
            now_ms,
            look,
            self._latency,
            reports,
            self.thresholds(cluster),
            self.gaps.brokers,
            self.gaps.missing_brokers,
            self.gaps.silent_brokers,
            self.gaps.partitions,
            tuple(self.gaps.gone(look.until, 0.0)),
            self.gaps.under_replicated,
            self.gaps.under_replicated_topics,
            sum(now_ms - at < FLAP_WINDOW_SECONDS * 1_000 for at in cluster.falls_ms),
            self.gaps.refusal,
        )
