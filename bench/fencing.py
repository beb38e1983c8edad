"""The cost of hard fencing: commits with a borrowed generation beside plain ones, and a bump. `python -m
bench.fencing`.

Both commit the same envelopes with Braid's committer on the same broker, one request of one partition after the other.
A bump is what the assigner does before it grants: the group's single member joins again under its own id, and syncs.
"""

import statistics
import sys
import time
from typing import Final

from bench.commit import GAPS, Contest
from bench.harness.arguments import Asked
from bench.harness.broker import cores, play_on_a_broker
from bench.harness.contest import Contestant, play
from bench.harness.fixed_mesh import TOPIC
from bench.harness.rounds import rows, verdict
from bench.harness.tables import Table, made_with
from braid.kafka.cluster import AioKafka
from braid.kernel.ports import Generation

PEER: Final = "plain commit"
AGAIN: Final = "plain commit again"
BORROWED: Final = "commit with a borrowed generation"
BUMPS: Final = 300
PERCENTILE: Final = 0.99
RATIO_AIM: Final = 1.2
BUMP_AIM_MS: Final = 10.0


class Fenced(Contest):
    """Plain and fenced commits of one partition."""

    def __init__(self, bootstrap: str, requests: int) -> None:
        super().__init__(bootstrap, 1, requests)
        self._lent: tuple[str, Generation] | None = None

    def contestants(self) -> dict[str, Contestant]:
        """By name."""
        return {PEER: self.envelopes, AGAIN: self.envelopes, BORROWED: self.borrowed}

    async def borrowed(self) -> int:
        """Commits as members of a fenced group do."""
        if self._lent is None:
            self._lent = await self.lend()
        return await self.committed(*self._lent)

    async def lend(self) -> tuple[str, Generation]:
        """A group with Braid's membership in it, and what it lends."""
        group, membership = self.new_group(), self.cluster().membership()
        lent = await membership.join(group, await membership.reserve(group))
        await membership.close()
        return group, lent

    async def bumps(self, count: int) -> list[float]:
        """Milliseconds that each of so many bumps takes, sorted."""
        group, lent = await self.lend()
        membership = self.cluster().membership()
        took: list[float] = []
        for _ in range(count):
            began = time.perf_counter()
            lent = await membership.join(group, lent.member_id)
            took.append((time.perf_counter() - began) * 1e3)
        await membership.close()
        return sorted(took)


async def contest(bootstrap: str, how: Asked) -> Table:
    """Plays the rounds, then bumps."""
    admin = AioKafka("bench").cluster(bootstrap, "").admin()
    await admin.create_topic(TOPIC, 1, 1, {})
    await admin.close()
    playing = Fenced(bootstrap, how.units)
    found = rows(await play(playing.contestants(), how.rounds), PEER, "wall")
    took = await playing.bumps(10 if how.quick else BUMPS)
    fenced = next(row for row in found if row.name == BORROWED)
    facts = {
        "work": f"{how.units} requests of 1 partition, one after the other; {cores()}",
        "fenced over plain": f"{1 / (fenced.ratio or 1):.2f}x at the median (aim <= {RATIO_AIM:g}x)",
        "bump": f"{statistics.median(took):.2f} ms p50, {took[int(PERCENTILE * (len(took) - 1))]:.2f} ms p99 "
        f"of {len(took)} (aim <= {BUMP_AIM_MS:g} ms p99)",
    }
    return Table("fencing", "commit", "wall", verdict(found, AGAIN), facts, found, made_with())


def main() -> int:
    """Runs the benchmark on a broker of its own; 1 when the table is void."""
    return play_on_a_broker(__doc__, contest, units=GAPS, quick_units=20)


if __name__ == "__main__":
    sys.exit(main())
