"""What of a cluster is gone while the rest goes on: brokers, partitions without a leader or that hang, its controller.

Pure. A partition without a leader is gone for its records; a broker whose partitions others lead is only named. What is
gone for a moment is an election.
"""

import math
from collections.abc import Collection, Mapping, Sequence

from braid.kernel.limits.health import BROKER_FORGOTTEN_SECONDS, GONE_NAMED_MAX, HALF_DEAD_AFTER_SECONDS
from braid.kernel.ports import TopicDescription, TopicPartition
from services.registry.model.thresholds import Thresholds


class Gaps:
    """What is gone of one cluster, and since when, on the clock of whoever observes."""

    def __init__(self, canary: str, usual_brokers: Collection[int] = ()) -> None:
        """`canary` is the topic that has a partition for each broker; `usual_brokers` are known from before."""
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
        """The cluster listed these as its own."""
        if self._listed_at == -math.inf:  # those known from before have been away for as long as anybody knows
            self._brokers = dict.fromkeys(self._known, math.nextafter(now, -math.inf))
        self._listed_at = now
        self._brokers.update(dict.fromkeys(brokers, now))
        held = frozenset[int]().union(*self._holders.values())
        self._brokers = {
            each: at for each, at in self._brokers.items() if now - at < BROKER_FORGOTTEN_SECONDS or each in held
        }

    def see_topics(self, found: Mapping[str, TopicDescription], now: float) -> None:
        """The cluster described topics."""
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
        """Topics that should be there and were not: no ailment of their cluster, but the end of what they carried."""
        for name in names:
            self._missing.setdefault(name, now)

    def keep_topics(self, names: Collection[str]) -> None:
        """Forgets all topics but the canary's and these."""
        self._missing = {name: since for name, since in self._missing.items() if name in names}
        for name in [name for name in self._sizes if name != self._canary and name not in names]:
            del self._sizes[name], self._thin[name], self._holders[name]
        for gone in [each for each in self._leaderless if each.topic not in self._sizes]:
            del self._leaderless[gone]

    def see_controller(self, refusal: str, since: float, until: float) -> None:
        """It was asked whether it would make a topic: why not; '' where it would, or other things ail it."""
        self._refusal = refusal
        self._refused = (self._refused[0] if self._refused else since, until) if refusal else None

    def see_silent(self, brokers: Collection[int]) -> None:
        """Each broker was asked by itself: these did not answer."""
        self._silent = frozenset(brokers)

    def hangs(self, partition: TopicPartition, now: float) -> None:
        """A partition that has a leader took nothing, or gave nothing back."""
        self._hanging.setdefault(partition, now)
        self._answered.discard(partition.partition)

    def answers(self, partition: TopicPartition) -> None:
        """It does both."""
        self._hanging.pop(partition, None)
        self._answered = {*self._answered, partition.partition} if self._hanging else set()

    # --- telling

    def has_leader(self, partition: TopicPartition) -> bool:
        """Whether a partition had a leader when it was last looked at."""
        return partition not in self._leaderless

    @property
    def refusal(self) -> str:
        """Why it would make no topic, as it was asked last; ''."""
        return self._refusal

    def no_topics(self, seconds: float) -> str:
        """Why it has made no topics for so long, for people; '' when it has, or may have."""
        if self._refused is None or self._refused[1] - self._refused[0] < seconds:
            return ""
        return f"it makes no topics: {self._refusal}"

    @property
    def brokers(self) -> int:
        """How many brokers are listed."""
        return sum(at == self._listed_at for at in self._brokers.values())

    @property
    def usual_brokers(self) -> tuple[int, ...]:
        """Brokers that are listed, or were and keep copies or left lately, sorted; empty before the first look."""
        return tuple(sorted(self._brokers))

    @property
    def missing_brokers(self) -> tuple[int, ...]:
        """Brokers that were listed before and are not now, sorted."""
        return tuple(sorted(each for each, at in self._brokers.items() if at < self._listed_at))

    @property
    def silent_brokers(self) -> tuple[int, ...]:
        """Brokers that did not answer when each was asked by itself, sorted."""
        return tuple(sorted(self._silent))

    @property
    def some_died(self) -> bool:
        """Whether a broker is silent that its cluster still lists: Kafka has not noticed its death yet."""
        return any(self._brokers.get(each) == self._listed_at for each in self._silent)

    @property
    def all_on_silent(self) -> bool:
        """Whether all topics looked at keep a copy on a silent broker: an acknowledgement anywhere shows it alive."""
        return all(held & self._silent for held in self._holders.values())

    def silence(self) -> str:
        """Which brokers do not answer, and what that means, for people; '' when all do."""
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
        """How many partitions are looked at."""
        return sum(self._sizes.values())

    @property
    def under_replicated(self) -> int:
        """How many of them have fewer copies in step than they should."""
        return sum(self._thin.values())

    def gone(self, now: float, seconds: float = HALF_DEAD_AFTER_SECONDS) -> list[TopicPartition]:
        """Partitions that have been gone for so long, sorted."""
        if not self._leaderless and not self._hanging:
            return []
        since = {**self._hanging, **self._leaderless}
        return sorted(each for each, at in since.items() if now - at >= seconds)

    def share(self, now: float, seconds: float = HALF_DEAD_AFTER_SECONDS) -> float:
        """Which part is gone: of our partitions, or of the canary's, one a broker, whichever is more."""
        gone = self.gone(now, seconds)
        if not gone:
            return 0.0
        heads, all_heads = sum(each.topic == self._canary for each in gone), self._sizes.get(self._canary, 0)
        ours = self.partitions - all_heads
        return max((len(gone) - heads) / max(1, ours), heads / max(1, all_heads))

    def leaderless_share(self) -> float:
        """Which part of the partitions looked at has no leader."""
        return len(self._leaderless) / max(1, self.partitions)

    @property
    def hanging_since(self) -> float | None:
        """Since when a partition that has a leader takes nothing, or gives nothing back; None where none does."""
        return min(self._hanging.values(), default=None)

    def hanging_seconds(self, now: float) -> dict[str, float]:
        """For how long appends to topics have hung, going by the canary's partitions; topics that go on are left out.

        Every broker that keeps a copy of what hangs, and of nothing that answers, may be the one that died. A topic
        hangs that keeps a copy on one of these.
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
        """What is gone, for people; '' when nothing is."""
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

        That is many of its partitions, or a single one for longer: keyed records of that one wait in their producers,
        until those can hold no more, of any key.
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
        """Why a topic has lost too much whose leaderless partitions are so old; '' when it has not."""
        after, size = thresholds.channel_gone_after_seconds, self._sizes[topic]
        count = sum(age >= after for age in ages)
        if count > thresholds.channel_gone_share * size:
            return f"{count} of its {size} partitions have had no leader for {after:g} s"
        after = thresholds.partition_gone_after_seconds
        if count := sum(age >= after for age in ages):
            return f"{count} of its {size} partitions {'has' if count == 1 else 'have'} had no leader for {after:g} s"
        return ""
