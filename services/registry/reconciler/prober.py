"""Probes every cluster regularly while leading, and records the health that the evidence leads to.

A probe (`canary_looks.py`) uses the canary's partitions in turn (those that have a leader), and has a time-out. Each
cluster has its own task, so that one that hangs delays no other. Separate tasks ask for the leaders of this mesh's
topics, which change seldom and fill large answers, and for the controller, which may answer late while brokers serve.
Time in which this process was late does not count (`own_lateness.py`).
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial

from braid.kernel.errors import AlreadyExists, BraidError, ClusterAccessDenied, ClusterUnavailable
from braid.kernel.limits.registry.health import (
    CONTROLLER_LOOK_SECONDS,
    LATE_LOOK_SECONDS,
    LATENESS_PULSE_SECONDS,
    TOPICS_LOOK_MAX,
    TOPICS_LOOK_SECONDS,
)
from braid.kernel.limits.registry.resources import IDENTITY_CHECK_SECONDS, RECONCILE_SECONDS
from braid.kernel.limits.runtime import ROUNDING_SECONDS
from braid.kernel.ports import Survey, TopicPartition
from braid.runtime.replica import Replica
from services.registry.health.evidence import Look
from services.registry.health.observed import Observed
from services.registry.histories import CLUSTERS, STREAMS
from services.registry.kafka.canary_looks import CanaryLook
from services.registry.kafka.clients import Access
from services.registry.liveness.own_lateness import Lateness
from services.registry.liveness.witnesses import SILENCE, ClusterReports, Users, Witnesses
from services.registry.model.channels import CONSUMABLE, ChannelState
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.commands import (
    ClusterCommand,
    LearnAppendTime,
    ObserveBrokers,
    ObserveIdentity,
    SetHealth,
)
from services.registry.model.clusters.health import Health
from services.registry.model.clusters.thresholds import Thresholds
from services.registry.model.topics import CANARY_CONFIG, default_copies, tried_topic
from services.registry.term_tasks import KeyedTasks

_PATIENCE = 4  # times the time-out: clients' own timers, which count our lateness too, come after it
_LOOKED_AT = (*CONSUMABLE, ChannelState.STANDBY)


class Prober:
    """Probes all clusters for one term.

    Attributes:
        broken: Why a channel cannot continue although its cluster works, by cluster and topic.
    """

    def __init__(
        self,
        replica: Replica,
        access: Access,
        witnesses: Witnesses,
        lateness: Lateness,
        usual: Thresholds,
        *,
        interval_seconds: float,
        ask: Callable[[str], Users],
        on_broken: Callable[[], None],
    ) -> None:
        """Prepares a term. `ask` asks a cluster's users and returns on how many hosts; `on_broken` is called when
        `broken` changed."""
        self.broken: Mapping[tuple[str, str], str] = {}
        self._replica = replica
        self._access = access
        self._witnesses = witnesses
        self._lateness = lateness
        self._usual = usual
        self._interval = interval_seconds
        self._ask = ask
        self._on_broken = on_broken
        self._observed: dict[str, Observed] = {}
        self._denials: dict[str, str] = {}  # by cluster, why it refuses the registry
        self._users: dict[str, Users] = {}
        self._running = KeyedTasks(replica.host)

    def observed(self, name: str) -> Observed | None:
        """The observations of a cluster in this term."""
        return self._observed.get(name)

    def answering(self) -> Collection[str]:
        """Clusters whose last probe succeeded."""
        return {name for name, each in self._observed.items() if each.judgement.good_since is not None}

    async def run(self) -> None:
        """Probes until cancelled."""
        self._running.start("lateness", self._pulse)
        try:
            while True:
                for cluster in self._replica.aggregates.states(CLUSTERS).values():
                    if cluster.exists and not self._is_watched(cluster):
                        self._begin(cluster)
                await self._replica.host.clock.sleep(RECONCILE_SECONDS)
        finally:
            await self._running.stop()

    def _begin(self, cluster: Cluster) -> None:
        """Watches a cluster from its registration. The watch of an earlier cluster of that name ends at its next
        look."""
        name, since = cluster.name, cluster.create_time_ms
        observed = self._observed[name] = Observed(cluster, self._usual)
        self._running.start(f"look {name} {since}", partial(self._watch, name, observed))
        self._running.start(f"topics {name} {since}", partial(self._watch_topics, name, observed))
        self._running.start(f"controller {name} {since}", partial(self._watch_controller, name, observed))
        self._running.start(f"witnesses {name} {since}", partial(self._watch_witnesses, name, observed))

    def _is_watched(self, cluster: Cluster) -> bool:
        observed = self._observed.get(cluster.name)
        return observed is not None and observed.is_of(cluster)

    def _watched(self, name: str, observed: Observed) -> Cluster | None:
        """The watched cluster; None once it was deleted, even if another was registered under its name since."""
        cluster = self._replica.aggregates.state(CLUSTERS, name)
        return cluster if observed.is_of(cluster) else None

    async def _pulse(self) -> None:
        while True:
            await self._replica.host.clock.sleep(LATENESS_PULSE_SECONDS)
            self._lateness.tick(self._replica.host.clock.elapsed())

    def _now(self) -> float:
        return self._lateness.attentive(self._replica.host.clock.elapsed())

    # --- looks

    async def _watch(self, name: str, observed: Observed) -> None:
        """Probes one cluster until it is deleted."""
        clock = self._replica.host.clock
        looks, identified = 0, -IDENTITY_CHECK_SECONDS
        while cluster := self._watched(name, observed):
            was_bad = observed.judgement.bad_since is not None
            look, partition = await self._look(cluster, observed, looks)
            looks += 1
            if self._watched(name, observed) is None:
                return
            if look is not None:
                well = look.failed is None
                if well and (was_bad or clock.elapsed() - identified >= IDENTITY_CHECK_SECONDS):
                    identified = clock.elapsed()
                    await self._identify(cluster)
                hung = observed.hanging_since
                judged = observed.see_look(cluster, look, partition, self._heard(name, look), clock.now_ms())
                if observed.asked_brokers:
                    self._running.start(f"brokers {name}", partial(self._ask_each_broker, cluster, observed))
                if hung is not None or observed.hanging_since is not None:
                    self._tell_broken(name, self._broken_here(cluster, observed))
                if (judged.health, judged.verdict) != (cluster.health, cluster.verdict):
                    await self._record(name, SetHealth(judged.health, judged.reason, judged.verdict), "probe")
                if usual := observed.append_time(cluster):
                    await self._record(name, LearnAppendTime(usual), "probe")
                if (brokers := observed.gaps.usual_brokers) and brokers != cluster.usual_brokers:
                    await self._record(name, ObserveBrokers(brokers), "probe")
            await clock.sleep(self._interval)

    async def _look(
        self, cluster: Cluster, observed: Observed, looks: int
    ) -> tuple[Look | None, TopicPartition | None]:
        """Runs one probe and returns how far it got; None if this process was too late for it to mean anything."""
        glance = CanaryLook(self._access.admin(cluster, "probe"), cluster, observed, self._now, looks)
        since, began = self._now(), self._replica.host.clock.elapsed()
        seconds = observed.patience(cluster, since)
        reason, refused, denied, timed_out = "", False, False, False
        try:
            await self._within(seconds, glance.take(_PATIENCE * seconds))
        except TimeoutError:
            reason, timed_out = f"no answer within {seconds:g} s", True
        except BraidError as error:
            reason, refused, denied = error.message, "refused" in error.metadata, isinstance(error, ClusterAccessDenied)
        until = self._now()
        late = (self._replica.host.clock.elapsed() - began) - (until - since)
        if reason and not refused and not denied and late > LATE_LOOK_SECONDS:
            return None, None
        failed = glance.part if reason else None
        self._log_denial(cluster.name, reason if denied else "")
        cut_short = failed is not None and seconds < observed.thresholds(cluster).look_timeout_seconds
        look = Look(since, until, failed, reason, refused, glance.append_seconds, timed_out and cut_short, denied)
        return look, glance.partition

    def _log_denial(self, name: str, reason: str) -> None:
        """Logs that a cluster denies the registry access, and that it no longer does; once each."""
        before = self._denials.pop(name, "")
        if reason:
            self._denials[name] = reason
        if reason and reason != before:
            self._replica.log.error("the registry may not use a cluster: it is not judged", cluster=name, reason=reason)
        elif before and not reason:
            self._replica.log.info("the registry may use a cluster again", cluster=name)

    async def _within(self, seconds: float, work: Coroutine[object, object, object]) -> None:
        """Waits for some work, for a time that excludes this process's own lateness. Raises `TimeoutError`."""
        ends = self._now() + seconds
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                left = ends - self._now()
                if left < ROUNDING_SECONDS:
                    raise TimeoutError
                await asyncio.wait((task,), timeout=left)
            task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))
                _ = task.cancelled() or task.exception()

    async def _ask_each_broker(self, cluster: Cluster, observed: Observed) -> None:
        """Asks each broker whether it answers: a failed probe names only the one it reached."""
        admin = self._access.admin(cluster, "brokers")
        silent = set[int]()

        async def call(broker: int) -> None:
            try:
                await self._within(observed.thresholds(cluster).look_timeout_seconds, admin.describe_broker(broker))
            except ClusterAccessDenied:  # it answers
                return
            except (ClusterUnavailable, TimeoutError):
                silent.add(broker)
            except BraidError:
                return

        await asyncio.gather(*(call(broker) for broker in observed.asked_brokers))
        if not observed.answers:
            observed.gaps.see_silent(silent)

    # --- witnesses

    def _heard(self, name: str, look: Look) -> ClusterReports:
        """Reports of hosts; empty while nobody complains."""
        if name not in self._users:
            return SILENCE
        return self._witnesses.heard(name, self._users[name], look.until)

    async def _watch_witnesses(self, name: str, observed: Observed) -> None:
        """Asks a cluster's users while it is suspected, so that their answers are there when a probe fails."""
        while self._watched(name, observed):
            judged = observed.judgement
            doubted = judged.bad_since is not None and judged.health is not Health.DOWN
            if doubted or self._witnesses.complained(name, self._now()):
                self._users[name] = self._ask(name)
            else:
                self._users.pop(name, None)
            await self._replica.host.clock.sleep(self._interval)

    # --- leaders of our topics

    async def _watch_topics(self, name: str, observed: Observed) -> None:
        """Reads the leaders of a cluster's channels until it is deleted."""
        while cluster := self._watched(name, observed):
            if cluster.reachable or observed.answers:
                await self._look_at_topics(cluster, observed)
            else:
                observed.forget_topics()
            self._tell_broken(name, self._broken_here(cluster, observed))
            await self._replica.host.clock.sleep(TOPICS_LOOK_SECONDS)
        if self._observed.get(name) is observed:
            self._tell_broken(name, {})

    def _broken_here(self, cluster: Cluster, observed: Observed) -> Mapping[str, str]:
        if not cluster.reachable:
            return {}
        gone = observed.channels_gone(cluster, self._now())
        return {**observed.channels_hanging(cluster, self._now(), self._ride_outs(cluster.name)), **gone}

    def _ride_outs(self, cluster: str) -> Mapping[str, float | None]:
        """How long each topic's stream rides out dead brokers; None for what the cluster declares."""
        streams = self._replica.aggregates.states(STREAMS).values()
        return {
            each.topic: stream.spec.ride_out_seconds
            for stream in streams
            for each in stream.channels
            if each.cluster == cluster and each.state is ChannelState.ACTIVE
        }

    async def _look_at_topics(self, cluster: Cluster, observed: Observed) -> None:
        admin = self._access.admin(cluster, "probe")
        topics = self._topics(cluster.name)
        found = Survey(-1, (), {})
        try:
            for start in range(0, len(topics), TOPICS_LOOK_MAX):
                part = await admin.survey(topics[start : start + TOPICS_LOOK_MAX])
                found = Survey(part.controller, part.brokers, {**found.topics, **part.topics})
        except BraidError:
            return  # looks at the canary tell what is wrong
        observed.see_topics(topics, found, self._now())

    def _topics(self, cluster: str) -> Sequence[str]:
        streams = self._replica.aggregates.states(STREAMS).values()
        channels = [each for stream in streams for each in stream.channels if each.cluster == cluster]
        return [each.topic for each in channels if each.state in _LOOKED_AT]

    def _tell_broken(self, name: str, gone: Mapping[str, str]) -> None:
        others = {key: why for key, why in self.broken.items() if key[0] != name}
        broken = {**others, **{(name, topic): why for topic, why in gone.items()}}
        if broken != self.broken:
            self.broken = broken
            self._on_broken()

    # --- the controller

    async def _watch_controller(self, name: str, observed: Observed) -> None:
        """Asks a cluster that is well whether it would create a topic, until it is deleted."""
        while cluster := self._watched(name, observed):
            began, refusal = self._now(), ""
            if cluster.reachable and observed.judgement.bad_since is None:
                refusal = await self._refusal(cluster, len(observed.gaps.usual_brokers))
            if observed.judgement.bad_since is not None:
                refusal = ""  # that has other causes, and is judged by other evidence
            observed.gaps.see_controller(refusal, began, self._now())
            await self._replica.host.clock.sleep(CONTROLLER_LOOK_SECONDS)

    async def _refusal(self, cluster: Cluster, brokers: int) -> str:
        """Why it would create no topic; ''. Uses its own client: a broker answers nothing else meanwhile."""
        topic, copies = tried_topic(cluster.spec.topic_prefix), default_copies(brokers)
        try:
            await self._access.admin(cluster, "controller").try_create_topic(topic, 1, copies, CANARY_CONFIG)
        except AlreadyExists:  # somebody made it: so one can be made
            return ""
        except BraidError as error:
            return error.message
        return ""

    # --- records

    async def _identify(self, cluster: Cluster) -> None:
        """Asks for the cluster's id; without an answer the next probe asks again."""
        try:
            found = await self._access.admin(cluster).describe_cluster()
        except BraidError:
            return
        if found.cluster_id != cluster.kafka_cluster_id:
            self._replica.log.error(
                "another Kafka cluster answers: what was on this one is gone",
                cluster=cluster.name,
                was=cluster.kafka_cluster_id,
                found=found.cluster_id,
            )
            await self._record(cluster.name, ObserveIdentity(found.cluster_id), "probe")

    async def _record(self, name: str, command: ClusterCommand, cause: str) -> None:
        """Executes a command; if it is refused or cannot be stored, the next probe leads to it again."""
        try:
            outcome = await self._replica.aggregates.execute(
                CLUSTERS, name, command, actor=self._replica.instance, cause=cause
            )
        except BraidError as error:
            self._replica.log.warning("not recorded", cluster=name, error=str(error))
            return
        for record in outcome.events:
            self._replica.log.info("cluster", cluster=name, change=repr(record.event))
