"""Placing partitions on members, beside the sticky assignors of Kafka's clients: `python -m bench.placement`.

From nothing to an assignment, ten partitions per member, in this process. Ours goes by load (weights are log-normal),
the peers' by number. Beside the table, as facts: the time of one death among 10,000 members with a million partitions,
and of the death of 1 % of 1,000 members with 100,000. Each is measured on its own many times, the latter beside a
general solver. Also the time of whole decisions of the leader, from the signal to the state after the events
(`bench.decisions`).
"""

import asyncio
import statistics
import sys
import time
from collections.abc import Iterable
from typing import Final

import numpy as np

from bench import decisions
from bench.harness.arguments import Asked, asked
from bench.harness.contest import Contestant, play
from bench.harness.rounds import rows, verdict
from bench.harness.tables import Table, made_with
from bench.peers.assignors import (
    SOLVER_SECONDS,
    Assign,
    Topics,
    aiokafka_sticky,
    installed,
    kafka_python_sticky,
    solved,
)
from services.assigner.policy.by_number import Measured, Movable, place

PEER: Final = "aiokafka sticky"
AGAIN: Final = "aiokafka sticky again"
OTHER: Final = "kafka-python sticky"
TOPICS: Final = 10
PER_MEMBER: Final = 10
REPEATS: Final = 50  # of ours in a round, which is too short to be timed once
DEATHS: Final = 300
SIGMA: Final = 0.5  # of the log-normal weights: the heaviest of a million costs some ten times the median


class Contest:
    """Assignors that place a number of partitions."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._members = partitions // PER_MEMBER
        topics, names = Topics(TOPICS, partitions), [f"m-{number:05d}" for number in range(self._members)]
        self._sticky = aiokafka_sticky(topics, names)
        self._other = kafka_python_sticky(topics, names)
        self._channels = np.repeat(np.arange(TOPICS), partitions // TOPICS)
        self._free = np.full(partitions, -1)
        self._measured = Measured(weights(partitions), np.ones(self._members), 0)

    def contestants(self) -> dict[str, Contestant]:
        """By name."""
        others = {OTHER: self._peer(self._other)} if self._other else {}
        return {PEER: self._peer(self._sticky), AGAIN: self._peer(self._sticky), **others, "braid": self.braid}

    def _peer(self, assign: Assign) -> Contestant:
        async def play() -> int:
            placed = assign()
            assert placed == self._partitions
            return placed

        return play

    async def braid(self) -> int:
        """Ours, by load."""
        for _ in range(REPEATS):
            target = place(self._channels, self._free, self._members, movable=Movable.ALL, measured=self._measured)
        assert (target >= 0).all()
        return self._partitions * REPEATS


def weights(partitions: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Busy seconds per second, the same in every run."""
    drawn: np.ndarray[tuple[int], np.dtype[np.float64]] = np.random.default_rng(5).lognormal(0.0, SIGMA, partitions)
    return drawn * 0.01


def deaths(members: int, partitions: int, dying: int, times: int) -> str:
    """Lets members die, `dying` at once, each time from a whole group; tells the CPU time of placing what they held.

    It is placed as a decision does, from the columns of who holds what. Tells how even it ends, too.
    """
    costs, all_live = weights(partitions), np.ones(members)
    free = np.full(partitions, -1)
    whole = place(free, free, members, movable=Movable.ALL, measured=Measured(costs, all_live, 0))
    chance, took, evenness = np.random.default_rng(11), [], []
    for _ in range(times):
        dead = chance.choice(members, dying, replace=False)
        holders, capacities = np.where(np.isin(whole, dead), -1, whole), all_live.copy()
        capacities[dead] = 0.0
        measured = Measured(costs, capacities, 0)
        began = time.thread_time()
        target = place(free, holders, members, movable=Movable.NONE, measured=measured)
        took.append(time.thread_time() - began)
        loads = np.delete(np.bincount(target, costs, members), dead)
        evenness.append(float(loads.max() / loads.mean()))
    return f"{_spread(took)}; max/mean {max(evenness):.3f} at worst"


def _spread(seconds: Iterable[float]) -> str:
    ordered = sorted(seconds)
    p50, p99 = statistics.median(ordered), ordered[int(len(ordered) * 0.99)]
    return f"{p50 * 1e3:.3f} ms p50, {p99 * 1e3:.3f} ms p99, {ordered[-1] * 1e3:.3f} ms max of {len(ordered)}"


async def contest(how: Asked) -> Table:
    """Plays the rounds."""
    played = await play(Contest(how.units).contestants(), how.rounds)
    found = rows(played, PEER, "cpu")
    small = 100 if how.quick else 1
    facts = {
        "work": f"{how.units:,} partitions on {how.units // PER_MEMBER:,} members from nothing, ours by load; one core",
        "peer": "by number; parses each member's metadata and builds its answer, as it must in a rebalance",
        "another peer": f"{installed('kafka-python')}, likewise",
        "one of 10,000 members dies, 1,000,000 partitions": deaths(
            10_000 // small, 1_000_000 // small, 1, DEATHS // small
        ),
        "10 of 1,000 members die, 100,000 partitions": deaths(1_000, 100_000, 10, max(1, DEATHS // 3 // small)),
        f"the same by rebalancer, stopped after {SOLVER_SECONDS} s": str(
            solved(weights(100_000 // small), 1_000 // small, 10 // small or 1) or installed("rebalancer")
        ),
        **{f"whole decision: {what}": took for what, took in decisions.rows(quick=how.quick).items()},
    }
    return Table("placement", "partition", "cpu", verdict(found, AGAIN), facts, found, made_with())


def main() -> int:
    """Runs the benchmark; 1 when the run is void."""
    how = asked(__doc__, units=10_000, quick_units=200)
    table = asyncio.run(contest(how))
    table.publish(how.directory)
    return int(bool(table.verdict) and not how.quick)


if __name__ == "__main__":
    sys.exit(main())
