"""Tracks which parts of a cluster are unavailable while the rest works: brokers, partitions, its controller.

Pure. Records of a partition without a leader are unavailable; a broker whose partitions have other leaders is only
listed. An absence of a moment is an election.
"""

import math
from collections.abc import Collection, Mapping, Sequence

from braid.kernel.limits.registry.health import BROKER_FORGOTTEN_SECONDS, GONE_NAMED_MAX, HALF_DEAD_AFTER_SECONDS
from braid.kernel.ports import TopicDescription, TopicPartition
from services.registry.model.clusters.thresholds import Thresholds


class Gaps:
    """The unavailable parts of one cluster, each with its beginning on the observer's clock."""

    def __init__(self, canary: str, usual_brokers: Collection[int] = ()) -> None:
        """Starts with no gaps. `canary` is the topic with one partition per broker; `usual_brokers` are known from
        before."""
        self._canary = canary
        self._known = frozenset(usual_brokers)
        self._listed_at = -math.inf
        self._holders: dict[str, frozenset[int]] = {}
        self._heads: Sequence[Sequence[int]] = ()  # brokers with copies of the canary's partitions
        self._brokers: dict[int, float] = {}  # when each was last listed
        self._sizes: dict[str, int] = {}
        self._thin: dict[str, int] = {}
        self._leaderless: dict[TopicPartition, float] = {}
        self._hanging: dict[TopicPartition, float] = {}
        self._answered: set[int] = set()  # the canary's partitions, while others hang
        self._missing: dict[str, float] = {}
        self._silent = frozenset[int]()
        self._refusal = ""
        self._refused: tuple[float, float] | None = None  # from when to when it made no topics

    # --- observing

    def see_brokers(self, brokers: Collection[int], now: float) -> None:
        """Takes the list of brokers that the cluster reports."""
        if self._listed_at == -math.inf:  # those known from before have been away for as long as anybody knows
            self._brokers = dict.fromkeys(self._known, math.nextafter(now, -math.inf))
        self._listed_at = now
        self._brokers.update(dict.fromkeys(brokers, now))
        held = frozenset[int]().union(*self._holders.values())
        self._brokers = {
            each: at for each, at in self._brokers.items() if now - at < BROKER_FORGOTTEN_SECONDS or each in held
        }

    def see_topics(self, found: Mapping[str, TopicDescription], now: float) -> None:
        """Takes the cluster's description of topics."""
        for name, told in found.items():
            self._missing.pop(name, None)
            self._sizes[name] = told.partitions
            self._thin[name] = len(told.under_replicated)
            self._holders[name] = told.holders
            if name == self._canary:
                self._heads = told.replicas
            for number, leader in enumerate(told.leaders):
                partition = TopicPartition(name, number)
                if leader < 0:
                    self._leaderless.setdefault(partition, now)
                else:
                    self._leaderless.pop(partition, None)

    def miss_topics(self, names: Collection[str], now: float) -> None:
        """Takes topics that should exist but do not. The cluster is not ill for that, but their channels cannot
        continue."""
        for name in names:
            self._missing.setdefault(name, now)

    def keep_topics(self, names: Collection[str]) -> None:
        """Forgets all topics except the canary's and these."""
        self._missing = {name: since for name, since in self._missing.items() if name in names}
        for name in [name for name in self._sizes if name != self._canary and name not in names]:
            del self._sizes[name], self._thin[name], self._holders[name]
        for gone in [each for each in self._leaderless if each.topic not in self._sizes]:
            del self._leaderless[gone]

    def see_controller(self, refusal: str, since: float, until: float) -> None:
        """Takes the controller's answer to whether it would create a topic; '' if it would, or if other faults explain
        the refusal."""
        self._refusal = refusal
        self._refused = (self._refused[0] if self._refused else since, until) if refusal else None

    def see_silent(self, brokers: Collection[int]) -> None:
        """Takes the brokers that did not answer when each was asked by itself."""
        self._silent = frozenset(brokers)

    def hangs(self, partition: TopicPartition, now: float) -> None:
        """Notes that a partition with a leader accepted or returned nothing."""
        self._hanging.setdefault(partition, now)
        self._answered.discard(partition.partition)

    def answers(self, partition: TopicPartition) -> None:
        """Notes that a partition accepts and returns records."""
        self._hanging.pop(partition, None)
        self._answered = {*self._answered, partition.partition} if self._hanging else set()

    # --- telling

    def has_leader(self, partition: TopicPartition) -> bool:
        """Whether a partition had a leader at the last look."""
        return partition not in self._leaderless

    @property
    def refusal(self) -> str:
        """Why the cluster would create no topic, according to its last answer; ''."""
        return self._refusal

    def no_topics(self, seconds: float) -> str:
        """Why it has created no topics for too long, for people; '' if it has, or may have."""
        if self._refused is None or self._refused[1] - self._refused[0] < seconds:
            return ""
        return f"it makes no topics: {self._refusal}"

    @property
    def brokers(self) -> int:
        """The number of brokers that the cluster lists."""
        return sum(at == self._listed_at for at in self._brokers.values())

    @property
    def usual_brokers(self) -> tuple[int, ...]:
        """Brokers that are listed, keep copies or left lately, sorted; empty before the first look."""
        return tuple(sorted(self._brokers))

    @property
    def missing_brokers(self) -> tuple[int, ...]:
        """Brokers that were listed before but are not now, sorted."""
        return tuple(sorted(each for each, at in self._brokers.items() if at < self._listed_at))

    @property
    def silent_brokers(self) -> tuple[int, ...]:
        """Brokers that did not answer when each was asked by itself, sorted."""
        return tuple(sorted(self._silent))

    @property
    def some_died(self) -> bool:
        """Whether a silent broker is still listed by its cluster: Kafka has not noticed its death yet."""
        return any(self._brokers.get(each) == self._listed_at for each in self._silent)

    @property
    def all_on_silent(self) -> bool:
        """Whether every observed topic has a copy on a silent broker. Then any acknowledgement shows that it lives."""
        return all(held & self._silent for held in self._holders.values())

    def silence(self) -> str:
        """Which brokers do not answer, and what follows from it, for people; '' if all answer."""
        silent, usual = self.silent_brokers, len({*self._brokers, *self._silent})
        if not silent:
            return ""
        who, verb = ("broker", "does") if len(silent) == 1 else ("brokers", "do")
        told = f"{who} {', '.join(map(str, silent))} of {usual} {verb} not answer"
        if 2 * len(silent) <= usual:
            return told
        return f"{told}: if they are its controllers too, there is no quorum, and no leader is elected"

    @property
    def partitions(self) -> int:
        """The number of observed partitions."""
        return sum(self._sizes.values())

    @property
    def under_replicated(self) -> int:
        """The number of observed partitions with too few copies in sync."""
        return sum(self._thin.values())

    @property
    def under_replicated_topics(self) -> tuple[str, ...]:
        """Observed topics of channels with too few copies in sync, sorted."""
        return tuple(sorted(name for name, thin in self._thin.items() if thin and name != self._canary))

    def gone(self, now: float, seconds: float = HALF_DEAD_AFTER_SECONDS) -> list[TopicPartition]:
        """Partitions that have been unavailable for this long, sorted."""
        if not self._leaderless and not self._hanging:
            return []
        since = {**self._hanging, **self._leaderless}
        return sorted(each for each, at in since.items() if now - at >= seconds)

    def share(self, now: float, seconds: float = HALF_DEAD_AFTER_SECONDS) -> float:
        """The unavailable share of our partitions or of the canary's (one per broker), whichever is larger."""
        gone = self.gone(now, seconds)
        if not gone:
            return 0.0
        heads, all_heads = sum(each.topic == self._canary for each in gone), self._sizes.get(self._canary, 0)
        ours = self.partitions - all_heads
        return max((len(gone) - heads) / max(1, ours), heads / max(1, all_heads))

    def leaderless_share(self) -> float:
        """The share of observed partitions without a leader."""
        return len(self._leaderless) / max(1, self.partitions)

    @property
    def hanging_since(self) -> float | None:
        """Since when a partition with a leader accepts or returns nothing; None if there is none."""
        return min(self._hanging.values(), default=None)

    def hanging_seconds(self, now: float) -> dict[str, float]:
        """How long appends to each topic have hung, inferred from the canary's partitions; topics that work are left
        out.

        Any broker may be the dead one if it keeps a copy of a hanging partition and of none that answers. A topic hangs
        if it has a copy on such a broker.
        """
        if not self._hanging:
            return {}
        since = min(self._hanging.values())
        hung = {each.partition for each in self._hanging if each.topic == self._canary}
        kept = {number: frozenset(replicas) for number, replicas in enumerate(self._heads)}
        suspects = frozenset[int]().union(*(kept.get(each, ()) for each in hung))
        well = frozenset[int]().union(*(brokers for number, brokers in kept.items() if number in self._answered))
        dead = suspects - well or suspects
        return {name: now - since for name, held in self._holders.items() if not dead or held & dead}

    def reason(self, now: float, seconds: float = HALF_DEAD_AFTER_SECONDS) -> str:
        """Which parts are unavailable, for people; '' if none are."""
        gone = [f"{each.topic}/{each.partition}" for each in self.gone(now, seconds)]
        if not gone:
            return ""
        more = f" and {len(gone) - GONE_NAMED_MAX} more" if len(gone) > GONE_NAMED_MAX else ""
        brokers = f"; brokers missing: {', '.join(map(str, self.missing_brokers))}" if self.missing_brokers else ""
        return (
            f"{len(gone)} of {self.partitions} partitions are gone: {', '.join(gone[:GONE_NAMED_MAX])}{more}{brokers}"
        )

    def channels_gone(self, now: float, thresholds: Thresholds) -> dict[str, str]:
        """Topics that have lost too much for too long, each with the reason, for people.

        Either many of a topic's partitions, or one for longer: that one's keyed records fill the producers' buffers,
        which then block records of every key.
        """
        ages: dict[str, list[float]] = {}
        for each, since in self._leaderless.items():
            if each.topic != self._canary:
                ages.setdefault(each.topic, []).append(now - since)
        after = thresholds.channel_gone_after_seconds
        missing = [topic for topic, since in self._missing.items() if now - since >= after]
        found = {topic: self._why_gone(topic, gone, thresholds) for topic, gone in ages.items()}
        return dict.fromkeys(missing, "its topic is gone") | {topic: why for topic, why in found.items() if why}

    def _why_gone(self, topic: str, ages: Sequence[float], thresholds: Thresholds) -> str:
        """Why a topic's leaderless partitions are too many or too old; '' if they are not."""
        after, size = thresholds.channel_gone_after_seconds, self._sizes[topic]
        count = sum(age >= after for age in ages)
        if count > thresholds.channel_gone_share * size:
            return f"{count} of its {size} partitions have had no leader for {after:g} s"
        after = thresholds.partition_gone_after_seconds
        if count := sum(age >= after for age in ages):
            return f"{count} of its {size} partitions {'has' if count == 1 else 'have'} had no leader for {after:g} s"
        return ""
