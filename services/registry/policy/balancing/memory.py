"""The leader's memory of loads: rates of streams, readings of disks, overloads, and moves under way. Pure.

It is lost with the term. A new leader measures for half a minute before it moves anything, and forecasts disks by a
line until it has seen a day.
"""

from collections import deque
from dataclasses import dataclass, field
from statistics import median

from braid.kernel.limits.registry.balancing import BALANCE_HOLD_SECONDS, BALANCE_RATES, DISK_LEVEL
from braid.kernel.timing.forecasts import FillSeries, Forecast
from services.registry.model.channels import ChannelState
from services.registry.policy.balancing.placement import COPIES
from services.registry.policy.world import World

_SAMPLES_MIN = BALANCE_RATES // 2 + 1

UnitName = tuple[str, str]  # stream and cluster


@dataclass(frozen=True, slots=True)
class Intent:
    """A move under way: where to, and until when it may take."""

    to_cluster: str
    until: float


@dataclass(slots=True)
class BalanceMemory:
    """The memory of one term.

    Attributes:
        intents: Moves under way, by stream.
        resting: Streams whose move could not be made, and until when they are left alone.
        calm_since: By cluster, since when it is not overloaded.
    """

    intents: dict[str, Intent] = field(default_factory=dict)
    resting: dict[str, float] = field(default_factory=dict)
    calm_since: dict[str, float] = field(default_factory=dict)
    _rates: dict[tuple[str, str], deque[float]] = field(default_factory=dict)
    _kept: dict[tuple[str, str], float] = field(default_factory=dict)
    _disks: dict[str, FillSeries] = field(default_factory=dict)
    _measured: dict[str, int] = field(default_factory=dict)
    _over_since: dict[str, float] = field(default_factory=dict)
    _places: dict[tuple[str, str], str] = field(default_factory=dict)

    def sample(self, world: World, now: float) -> None:
        """Takes one look at all loads; call it once a measurement."""
        totals: dict[tuple[str, str], tuple[float, float]] = {}
        places: dict[tuple[str, str], str] = {}
        foreign = {
            name: {topic: each.bytes_per_s for topic, each in load.topics.items()} for name, load in world.loads.items()
        }
        for stream in world.streams.values():
            if not stream.exists:
                continue
            for channel in stream.channels:
                lane = stream.name, channel.ref.lane
                load = world.load(channel.cluster)
                topic = load.topics.get(channel.topic) if load is not None else None
                rate, kept = totals.get(lane, (0.0, 0.0))
                if topic is not None:
                    rate, kept = rate + topic.bytes_per_s, kept + topic.bytes
                    foreign[channel.cluster].pop(channel.topic, None)
                totals[lane] = rate, kept
                if channel.state is ChannelState.ACTIVE:
                    places[lane] = channel.cluster
        totals |= {("", name): (sum(rates.values()), 0.0) for name, rates in foreign.items()}
        self._rates = {lane: self._rates.get(lane, deque(maxlen=BALANCE_RATES)) for lane in totals}
        for lane, (rate, kept) in totals.items():
            self._rates[lane].append(rate)
            self._kept[lane] = kept
        self._kept = {lane: self._kept[lane] for lane in totals}
        self._follow(world, places, now)

    def _follow(self, world: World, places: dict[tuple[str, str], str], now: float) -> None:
        """Adds readings of disks; lanes that came or left are reckoned into the past of both."""
        self._disks = {name: each for name, each in self._disks.items() if name in world.clusters}
        for lane, place in places.items():
            before = self._places.get(lane)
            if before is None or before == place:
                continue
            for name, sign in ((before, -1.0), (place, 1.0)):
                load, disk = world.load(name), self._disks.get(name)
                if load is not None and disk is not None:
                    copies = min(COPIES, load.brokers)
                    disk.shift(now, sign * self.rate(lane) * copies / load.brokers)
        self._places = places
        for name, load in world.loads.items():
            if self._measured.get(name) != load.measured_ms:
                self._measured[name] = load.measured_ms
                self._disks.setdefault(name, FillSeries()).add(now, float(load.total_bytes - load.free_bytes))

    def rate(self, lane: tuple[str, str]) -> float:
        """The lane's bytes a second: the median of its last looks; 0 before three of them."""
        rates = self._rates.get(lane, ())
        return median(rates) if len(rates) >= _SAMPLES_MIN else 0.0

    def foreign_rate(self, cluster: str) -> float:
        """Bytes a second that topics of no stream take on a cluster."""
        return self.rate(("", cluster))

    def kept(self, lane: tuple[str, str]) -> float:
        """Bytes of the lane's logs, on all clusters."""
        return self._kept.get(lane, 0.0)

    def forecast(self, world: World, cluster: str) -> Forecast | None:
        """When a cluster's fullest disk is at its level; None if it does not grow."""
        load, disk = world.load(cluster), self._disks.get(cluster)
        return disk.forecast(DISK_LEVEL * load.total_bytes) if load is not None and disk is not None else None

    def overloaded(self, cluster: str, now: float, *, over: bool) -> bool:
        """Notes whether a cluster is overloaded now, and returns whether it has been for long enough."""
        if not over:
            self._over_since.pop(cluster, None)
            self.calm_since.setdefault(cluster, now)
            return False
        self.calm_since.pop(cluster, None)
        return now - self._over_since.setdefault(cluster, now) >= BALANCE_HOLD_SECONDS
