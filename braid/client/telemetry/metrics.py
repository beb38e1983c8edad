"""The SDK's metrics by OpenTelemetry's API: the catalogue, and one set of instruments for each meter provider.

Where no provider is set up, `instruments` is None and nothing is measured. Names that begin with `messaging.` are
those of OpenTelemetry's semantic conventions for messaging (1.45).
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from opentelemetry import metrics

from braid.kernel.metrics import MetricDeclaration
from braid.telemetry.conventions import SYSTEM, messaging_attributes

Attributes = Mapping[str, str]

# As the semantic conventions for messaging ask for; without them a handler's 5 ms and 4 s are in one bucket.
SECONDS_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)

_SYSTEM: Final = (SYSTEM, "messaging.operation.name", "messaging.operation.type")
_PLACE: Final = ("messaging.destination.name", "messaging.consumer.group.name", "braid.cluster")


OPERATION: Final = MetricDeclaration(
    "messaging.client.operation.duration", "histogram", "s", (*_SYSTEM, *_PLACE, "error.type"),
    "Time of a `send` (until its acknowledgement), a `poll` that brought something, a `commit`",
)  # fmt: skip
SENT: Final = MetricDeclaration(
    "messaging.client.sent.messages", "counter", "{message}", (*_SYSTEM, *_PLACE, "error.type"),
    "Records whose fate a producer knows",
)  # fmt: skip
CONSUMED: Final = MetricDeclaration(
    "messaging.client.consumed.messages", "counter", "{message}", (*_SYSTEM, *_PLACE), "Records fetched"
)
PROCESS: Final = MetricDeclaration(
    "messaging.process.duration", "histogram", "s", (*_SYSTEM, *_PLACE, "error.type"), "Time a handler took"
)
PARKED: Final = MetricDeclaration(
    "braid.consumer.parked", "up-down counter", "{message}", ("messaging.consumer.group.name",),
    "Records that wait for another attempt",
)  # fmt: skip
PARKED_BOUND: Final = MetricDeclaration(
    "braid.consumer.parked_bound", "up-down counter", "{message}", ("messaging.consumer.group.name",),
    "Bound on a lane's records that wait for another attempt; at the bound its fetching pauses",
)  # fmt: skip
OVERDUE: Final = MetricDeclaration(
    "braid.consumer.handlers_overdue", "up-down counter", "{handler}", ("messaging.consumer.group.name",),
    "Handlers that still run after their time-out: each keeps its slot",
)  # fmt: skip
STOPPED: Final = MetricDeclaration(
    "braid.consumer.lanes_stopped", "up-down counter", "{lane}", ("messaging.consumer.group.name",),
    "Lanes that consumers have stopped, by the dead-letter limit or the circuit breaker",
)  # fmt: skip
HELD_BACK: Final = MetricDeclaration(
    "braid.consumer.lanes_held_back", "up-down counter", "{lane}", ("messaging.consumer.group.name",),
    "Lanes of which nothing more is fetched: too many records wait for another attempt or to be copied, or they fill "
    "their memory",
)  # fmt: skip
COPYING: Final = MetricDeclaration(
    "braid.consumer.copying", "up-down counter", "{message}", ("messaging.consumer.group.name",),
    "Records that wait to be copied to the dlq lane; a growing number means it cannot be written",
)  # fmt: skip
TRUNCATED: Final = MetricDeclaration(
    "braid.consumer.commits_truncated", "counter", "{commit}", ("messaging.consumer.group.name",),
    "Commits that claim less than is done: the rest neither fitted nor could be written beside them",
)  # fmt: skip
UNSTATED: Final = MetricDeclaration(
    "braid.consumer.rejected_unstated", "up-down counter", "{message}", ("messaging.consumer.group.name",),
    "Rejected or expired offsets that the newest commits had no room for: the next holder gets them again",
)  # fmt: skip
PATHWAYS_DROPPED: Final = MetricDeclaration(
    "braid.client.pathways_dropped", "counter", "{message}", ("braid.reason",),
    "What pathways leave out: headers that cannot be read (`garbage`), records beyond the bounds of one process "
    "(`left out`), and reports that did not reach lagmon (`lost report`)",
)  # fmt: skip
CATALOGUE: Final = (
    OPERATION, SENT, CONSUMED, PROCESS, PARKED, PARKED_BOUND, OVERDUE, STOPPED, HELD_BACK, COPYING, TRUNCATED, UNSTATED,
    PATHWAYS_DROPPED,
)  # fmt: skip


class Instruments:
    """The SDK's instruments of one meter provider."""

    def __init__(self, meter: metrics.Meter) -> None:
        """Makes the instruments."""
        self.operation = _histogram(meter, OPERATION)
        self.truncated = _counter(meter, TRUNCATED)
        self.unstated = _up_down(meter, UNSTATED)
        self.process = _histogram(meter, PROCESS)
        self.sent = _counter(meter, SENT)
        self.consumed = _counter(meter, CONSUMED)
        self.parked = _up_down(meter, PARKED)
        self.parked_bound = _up_down(meter, PARKED_BOUND)
        self.overdue = _up_down(meter, OVERDUE)
        self.stopped = _up_down(meter, STOPPED)
        self.held_back = _up_down(meter, HELD_BACK)
        self.copying = _up_down(meter, COPYING)
        self.pathways_dropped = _counter(meter, PATHWAYS_DROPPED)


class Level:
    """One consumer's part of an up-down counter; without a provider it does nothing."""

    def __init__(self, counter: metrics.UpDownCounter | None, attributes: Attributes) -> None:
        self._counter = counter
        self._attributes = dict(attributes)
        self._value = 0

    def set(self, value: int) -> None:
        """Sets this consumer's part."""
        if self._counter is not None and value != self._value:
            self._counter.add(value - self._value, self._attributes)
            self._value = value


class Levels:
    """One consumer's parts of its group's up-down counters."""

    def __init__(self, group: str) -> None:
        found, attributes = instruments(), {"messaging.consumer.group.name": group}
        self.parked = Level(found.parked if found else None, attributes)
        self.parked_bound = Level(found.parked_bound if found else None, attributes)
        self.overdue = Level(found.overdue if found else None, attributes)
        self.stopped = Level(found.stopped if found else None, attributes)
        self.held_back = Level(found.held_back if found else None, attributes)
        self.copying = Level(found.copying if found else None, attributes)

    def clear(self) -> None:
        """Sets all parts to 0, because the consumer is gone."""
        for level in (self.parked, self.parked_bound, self.overdue, self.stopped, self.held_back, self.copying):
            level.set(0)


def instruments() -> Instruments | None:
    """The instruments of this process, None where no provider is set up. Asked once, when something is opened."""
    provider = metrics.get_meter_provider()
    # Until somebody sets one up there is a proxy, whose class the API keeps to itself.
    if isinstance(provider, metrics.NoOpMeterProvider) or type(provider).__name__ == "_ProxyMeterProvider":
        return None
    return _instruments_of(provider)


def operation(name: str, kind: str, topic: str, cluster: str, group: str = "", error: str = "") -> dict[str, str]:
    """Returns the attributes of an operation on a topic, without empty ones."""
    named = {
        SYSTEM: "kafka",
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
        "messaging.destination.name": topic,
        "messaging.consumer.group.name": group,
        "braid.cluster": cluster,
        "error.type": error,
    }
    return messaging_attributes({key: value for key, value in named.items() if value})


@lru_cache(maxsize=8)  # a process has one; tests have some
def _instruments_of(provider: metrics.MeterProvider) -> Instruments:
    return Instruments(provider.get_meter("braid"))


def _histogram(meter: metrics.Meter, declared: MetricDeclaration) -> metrics.Histogram:
    return meter.create_histogram(
        declared.name, declared.unit, declared.meaning, explicit_bucket_boundaries_advisory=SECONDS_BUCKETS
    )


def _counter(meter: metrics.Meter, declared: MetricDeclaration) -> metrics.Counter:
    return meter.create_counter(declared.name, declared.unit, declared.meaning)


def _up_down(meter: metrics.Meter, declared: MetricDeclaration) -> metrics.UpDownCounter:
    return meter.create_up_down_counter(declared.name, declared.unit, declared.meaning)
