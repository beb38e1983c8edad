"""Plays contestants' rounds and takes the time, in this process."""

import asyncio
import gc
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from bench.harness.rounds import Sample, order

REST_SECONDS: Final = 0.05  # between contestants: what one left to do is not charged to the next

Contestant = Callable[[], Awaitable[int]]
Clock = Callable[[], float]


async def play(
    contestants: Mapping[str, Contestant], rounds: int, cpu_clock: Clock = time.process_time
) -> dict[str, list[Sample]]:
    """Runs every contestant once a round; the first round is discarded.

    Args:
        contestants: By name; each returns how many units it did.
        rounds: That count.
        cpu_clock: CPU seconds used so far by whatever a contestant runs in.
    """
    samples: dict[str, list[Sample]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name in order(list(contestants), number):
            gc.collect()
            cpu, wall = cpu_clock(), time.perf_counter()
            units = await contestants[name]()
            sample = Sample(units, cpu_clock() - cpu, time.perf_counter() - wall)
            if number:
                samples[name].append(sample)
            await asyncio.sleep(REST_SECONDS)
        tell_round(number, rounds)
    return samples


def tell_round(number: int, rounds: int) -> None:
    """One line a round on standard error: a long run shows that it goes on."""
    told = f"round {number} of {rounds} is played" if number else f"warmed up; {rounds} rounds follow"
    print(told, file=sys.stderr, flush=True)
