"""Brokers that are away for a while, when Kafka elected other leaders, and what `braid doctor` advises meanwhile."""

import asyncio
import json
import re
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final

from braid.kernel.errors import ClusterUnavailable
from devmesh.mesh import DevMesh
from testbed.patience import in_time, until
from tests.support.kafka_operator import KafkaOperator

ROOT: Final = Path(__file__).resolve().parents[3]
DOCTOR_SECONDS: Final = 60.0
ELECTION_SECONDS: Final = 60.0
_DOCTOR: Final = "from braid.cli import main; main()"
# Advice that lets records be acknowledged with fewer copies, or a leader be one that lacks some.
LOWERS: Final = re.compile(r"min\.insync\.replicas=[01]\b|smaller min\.insync|acks=[01]\b|unclean[\w.]*=true")


Outage = Callable[..., AbstractAsyncContextManager[None]]


@asynccontextmanager
async def frozen(local: DevMesh, *names: str) -> AsyncIterator[None]:
    """Freezes brokers, whose connections stay open, and lets them go on in the end."""
    await asyncio.gather(*(local.pause(name) for name in names))
    try:
        yield
    finally:
        await asyncio.gather(*(local.resume(name) for name in names))


@asynccontextmanager
async def away(local: DevMesh, *names: str) -> AsyncIterator[None]:
    """Kills brokers, and starts them again in the end."""
    await asyncio.gather(*(local.kill(name) for name in names))
    try:
        brokers = (await local.info()).clusters[names[0].partition("/")[0]].brokers
        assert all(brokers[name].pid is None for name in names), brokers
        yield
    finally:
        await asyncio.gather(*(local.start(name) for name in names))


async def election(operator: KafkaOperator, topic: str, *gone: int) -> float:
    """Waits until no partition is led by brokers that are gone, nor waits for copies there; when, monotonic seconds."""

    async def over() -> bool:
        try:
            found = (await operator.copies(topic)).values()
        except ClusterUnavailable:
            return False
        return all(each.leader >= 0 and each.leader not in gone and not each.in_sync & set(gone) for each in found)

    await until(over, f"{topic} does without {gone}", ELECTION_SECONDS, poll=0.02)
    return time.monotonic()


async def leaderless(operator: KafkaOperator, topic: str, partition: int) -> None:
    """Waits until a partition has no leader."""

    async def gone() -> bool:
        try:
            return (await operator.copies(topic))[partition].leader < 0
        except ClusterUnavailable:
            return False

    await until(gone, f"{topic}-{partition} has no leader", ELECTION_SECONDS, poll=0.1)


async def durable_advice(local: DevMesh) -> list[str]:
    """The faults that `braid doctor` reports; asserts that no advice lowers durability."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _DOCTOR, "doctor", "-o", "json", "--endpoint", local.ready.endpoint,
        cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    told, errors = await in_time(process.communicate(), "doctor answers", DOCTOR_SECONDS)
    findings = [each for each in json.loads(told)["findings"] if each["level"] != "ok"]
    assert findings, errors
    lowering = lowers_durability(json.dumps(findings))
    assert not lowering, lowering
    return [f"{each['name']}: {each}" for each in findings]


def lowers_durability(advice: str) -> list[str]:
    """The parts of an advice that let fewer copies do."""
    return LOWERS.findall(advice)
