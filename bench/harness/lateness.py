"""How late records are that are sent at a steady pace: from the call of `send` to the call of their handler."""

import asyncio
import random
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

import braid
from bench.harness.rounds import Sample

PACE_PER_S: Final = 100
WARM_UP_RECORDS: Final = 200  # that nobody counts: connections are made, and code is seen for the first time

Contestants = Mapping[str, Callable[[], Awaitable[float]]]


class Where(NamedTuple):
    """The place of a record in its topic."""

    partition: int
    offset: int


async def send_steadily(producer: braid.Producer, records: int, key: bytes | None = None) -> dict[Where, float]:
    """Sends so many after those that warm up, one at a time; returns when `send` was called for each, in seconds."""
    sent: dict[Where, float] = {}
    for number in range(WARM_UP_RECORDS + records):
        began = time.perf_counter()
        receipt = await producer.send(b"live", key=key)
        if number >= WARM_UP_RECORDS:
            sent[Where(receipt.partition, receipt.offset)] = began
        await asyncio.sleep(max(0.0, began + 1 / PACE_PER_S - time.perf_counter()))
    return sent


def slowest_of_100(sent: Mapping[Where, float], handled: Mapping[Where, float]) -> float:
    """Seconds within which 99 of 100 were handled; all of them were."""
    took = sorted(handled[where] - began for where, began in sent.items())
    return took[len(took) * 99 // 100 - 1]


async def play(contestants: Contestants, rounds: int) -> dict[str, list[Sample]]:
    """Plays all of them once a round, in any order; each returns seconds. The first round is discarded.

    What a table then says of CPU is that of a whole run, of this process.
    """
    samples: dict[str, list[Sample]] = {name: [] for name in contestants}
    dice = random.Random(1)
    for number in range(rounds + 1):
        for name in dice.sample(sorted(contestants), len(contestants)):
            cpu = time.process_time()
            took = await contestants[name]()
            cpu = time.process_time() - cpu
            print(f"round {number}: {name}: {took * 1e3:.1f} ms", file=sys.stderr, flush=True)
            if number:
                samples[name].append(Sample(1, cpu, took))
    return samples
