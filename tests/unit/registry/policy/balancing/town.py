"""Clusters and streams under a load that changes with time, balanced by the registry's own rules, without a store."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from braid.kernel.limits.registry.traffic import LOAD_LOOK_SECONDS
from services.registry.model.channels import ChannelState, DrainStep
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.commands import BlockBalance
from services.registry.model.clusters.loads import MeasuredLoad, TopicLoad
from services.registry.model.rebalances import BalanceMode, BalanceRules
from services.registry.model.stream_commands import (
    ProposeRebalance,
    RecordProducersLeft,
    RecordProvisioned,
    WithdrawRebalance,
)
from services.registry.model.stream_events import StreamRebalanced
from services.registry.model.streams import FailoverMode, StreamSpec
from services.registry.policy.balancing.advance import advance
from services.registry.policy.balancing.memory import BalanceMemory
from services.registry.policy.balancing.steps import Block, Propose, StartMove, Withdraw, decide
from services.registry.policy.world import World
from tests.unit.registry.histories import START_MS, StreamHistory, cluster, created

MIB = float(1 << 20)
GIB = float(1 << 30)
RULES = BalanceRules(BalanceMode.AUTOMATIC)
Rate = Callable[[float], float]


@dataclass
class Town:
    """A mesh at a glance: loads follow functions of time, and moves are carried out at once.

    Attributes:
        made: Each move: when, which stream, from where, to where.
        told: What was recorded besides moves, by cluster or stream.
        noise: Part by which each measured rate is off, at random.
    """

    rates: Mapping[str, Rate]
    homes: Mapping[str, str]
    clusters: dict[str, Cluster] = field(default_factory=dict)
    rules: BalanceRules = RULES
    noise: float = 0.0
    disk_bytes: float = 1_000_000 * GIB
    seed: int = 0
    now: float = 1_000.0
    made: list[tuple[float, str, str, str]] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    memory: BalanceMemory = field(default_factory=BalanceMemory)
    streams: dict[str, StreamHistory] = field(default_factory=dict)
    kept: dict[str, float] = field(default_factory=dict)  # by topic
    filled: dict[str, float] = field(default_factory=dict)  # bytes of others, by cluster
    unmeasured: set[str] = field(default_factory=set)
    failover: FailoverMode = FailoverMode.AUTOMATIC

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)
        for name in {*self.homes.values(), "east", "north", "west"} if not self.clusters else ():
            self.clusters[name] = cluster(name)
        for name, home in self.homes.items():
            history = created(StreamSpec({"live": 4}, clusters=(home,)), name)
            spec = replace(history.state.spec, clusters=(), failover=self.failover)
            history.state = replace(history.state, spec=spec)
            self.streams[name] = history

    @property
    def world(self) -> World:
        """The world as a leader sees it now."""
        now_ms = START_MS + int(self.now * 1_000)
        states = {name: each.state for name, each in self.streams.items()}
        loads = {name: self.measure(name) for name in self.clusters if name not in self.unmeasured}
        return World(now_ms, self.clusters, states, loads=loads)

    def rate(self, cluster: str) -> float:
        """Bytes a second of all streams on a cluster now, as they really are."""
        return sum(self.rates[name](self.now) for name, place in self.places.items() if place == cluster)

    @property
    def places(self) -> dict[str, str]:
        """Where each stream's traffic is."""
        return {name: each.state.active("live")[0].cluster for name, each in self.streams.items()}

    def run(self, seconds: float) -> "Town":
        """Lets time pass, a look every ten seconds."""
        end = self.now + seconds
        while self.now < end:
            self.now += LOAD_LOOK_SECONDS
            for name, history in self.streams.items():
                topic = history.state.active("live")[0].topic
                self.kept[topic] = self.kept.get(topic, 0.0) + self.rates[name](self.now) * LOAD_LOOK_SECONDS
            self.look()
        return self

    def look(self) -> None:
        """One look at loads, and what follows from it."""
        world = self.world
        self.memory.sample(world, self.now)
        for action in decide(world, self.memory, self.rules, self.now):
            match action:
                case StartMove():
                    self._move(action)
                case Propose():
                    made = action.rebalance
                    self._tell(action.stream, ProposeRebalance(made.from_cluster, made.to_cluster, made.reason))
                case Withdraw():
                    self._tell(action.stream, WithdrawRebalance(action.reason))
                case Block():
                    self._block(action)

    def _tell(self, stream: str, command: ProposeRebalance | WithdrawRebalance) -> None:
        history = self.streams[stream]
        history.now_ms = START_MS + int(self.now * 1_000)
        self.told += [f"{stream}: {type(event).__name__}" for event in history.run(command)]

    def _block(self, action: Block) -> None:
        before = self.clusters[action.cluster]
        self.clusters[action.cluster] = replace(before, balance_blocked=BlockBalance(action.reason).reason)
        self.told.append(f"{action.cluster}: {action.reason or 'unblocked'}")

    def _move(self, move: StartMove) -> None:
        history = self.streams[move.stream]
        history.now_ms = START_MS + int(self.now * 1_000)
        while commands := advance(self.world, history.state, move):
            for event in history.run(*commands):
                if isinstance(event, StreamRebalanced):
                    self.made.append((self.now, move.stream, event.from_cluster, event.to_cluster))
            for channel in history.state.channels:
                if channel.state is ChannelState.PROVISIONING:
                    kafka_id = self.clusters[channel.cluster].kafka_cluster_id
                    history.run(RecordProvisioned(channel.ref, b"id", kafka_id))
        for channel in history.state.channels:
            if channel.drain_step is DrainStep.PRODUCERS:
                history.run(RecordProducersLeft(channel.ref, history.state.route_revision))

    def measure(self, name: str) -> MeasuredLoad:
        """The load of a cluster, as its brokers report it."""
        topics: dict[str, TopicLoad] = {}
        for stream, history in self.streams.items():
            for channel in history.state.channels:
                if channel.cluster == name and channel.topic:
                    active = channel.state is ChannelState.ACTIVE
                    off = 1.0 + self._dice.uniform(-self.noise, self.noise)
                    rate = self.rates[stream](self.now) * off if active else 0.0
                    topics[channel.topic] = TopicLoad(int(self.kept.get(channel.topic, 0.0)), rate)
        used = sum(each.bytes for each in topics.values()) + self.filled.get(name, 0.0)
        free = max(0, int(self.disk_bytes - used))
        return MeasuredLoad(int(self.now * 1_000), 1, free, int(self.disk_bytes), 0.0, (), topics, 1)


def town(rates: Mapping[str, Rate | float], homes: Mapping[str, str], **more: object) -> Town:
    """A town of three clusters; a rate is a number of MiB a second, or a function of time."""

    def as_function(rate: Rate | float) -> Rate:
        if callable(rate):
            return lambda now: rate(now) * MIB
        return lambda now: rate * MIB

    return Town({name: as_function(rate) for name, rate in rates.items()}, homes, **more)  # type: ignore[arg-type]


def undone_within(made: list[tuple[float, str, str, str]], seconds: float) -> list[str]:
    """Streams that went back to where they had been within so many seconds."""
    return [
        stream
        for number, (at, stream, source, target) in enumerate(made)
        for later, other, back, to in made[number + 1 :]
        if other == stream and (back, to) == (target, source) and later - at < seconds
    ]
