"""Offsets retention of clusters: the shortest of their brokers, read now and then, told once."""

from types import SimpleNamespace
from typing import cast

import pytest

from braid.kernel.errors import ClusterUnavailable
from braid.kernel.limits.registry.traffic import OFFSETS_RETENTION_LOOK_SECONDS
from braid.kernel.ports import BrokerDescription, KafkaAdmin
from braid.runtime.replica import Replica
from braid.runtime.telemetry import logger
from services.registry.reconciler.offsets_retention import OffsetsRetention

DAY: float = 86_400.0


class Brokers:
    """Brokers with a setting each, or without an answer; counts what it is asked."""

    def __init__(self, **minutes: str | None) -> None:
        self.minutes = dict(enumerate(minutes.values()))
        self.now = 0.0
        self.asked = 0
        clock = SimpleNamespace(elapsed=lambda: self.now)
        replica = SimpleNamespace(host=SimpleNamespace(clock=clock), log=logger("registry", "registry-0"))
        self.retention = OffsetsRetention(cast("Replica", replica))

    async def describe_broker(self, broker: int) -> BrokerDescription:
        """Tells the broker's setting."""
        self.asked += 1
        minutes = self.minutes[broker]
        if minutes is None:
            raise ClusterUnavailable("away")
        return BrokerDescription({"offsets.retention.minutes": minutes} if minutes else {})

    async def look(self) -> float | None:
        """One look; what is known after it."""
        await self.retention.look("east", cast("KafkaAdmin", self), sorted(self.minutes))
        return self.retention.seconds.get("east")


async def test_the_shortest_of_the_brokers_counts() -> None:
    assert await Brokers(one="20160", other="").look() == 7 * DAY, "a broker without the setting has Kafka's default"
    assert await Brokers(one="60", other="10080").look() == 3_600


async def test_it_is_read_again_only_when_due() -> None:
    brokers = Brokers(one="10080")
    await brokers.look()
    brokers.minutes[0] = "60"
    brokers.now = OFFSETS_RETENTION_LOOK_SECONDS - 1
    assert await brokers.look() == 7 * DAY and brokers.asked == 1
    brokers.now += 1
    assert await brokers.look() == 3_600


@pytest.mark.parametrize("answer", [None, "?"])
async def test_an_unusable_answer_leaves_what_was_known(answer: str | None) -> None:
    brokers = Brokers(one="20160")
    await brokers.look()
    brokers.now, brokers.minutes[0] = OFFSETS_RETENTION_LOOK_SECONDS, answer
    assert await brokers.look() == 14 * DAY
    assert await brokers.look() == 14 * DAY and brokers.asked == 3, "it asks again at the next look"


async def test_a_short_retention_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    brokers = Brokers(one="60")
    for _ in range(3):
        await brokers.look()
        brokers.now += OFFSETS_RETENTION_LOOK_SECONDS
    assert len(caplog.records) == 1 and "forget the progress" in str(caplog.records[0].msg)


async def test_a_deleted_cluster_is_forgotten() -> None:
    brokers = Brokers()
    assert await brokers.look() is None, "a cluster without brokers has no retention"
    brokers.minutes = {0: "60"}
    await brokers.look()
    brokers.retention.forget("east")
    assert not brokers.retention.seconds
