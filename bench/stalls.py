"""Whether short stalls cost leases that last 300 ms: `python -m bench.stalls` (ten minutes; `--units` seconds).

Members and assigners, one at a time, are stopped for 50 to 150 ms, at random, and go on. Nobody may be taken for dead:
the leader's own stalls must not count against members, nor a member's against itself as long as its lease lasts.
"""

import asyncio
import random
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from bench.harness.arguments import Asked, asked
from bench.harness.broker import broker
from bench.harness.rounds import Sample, rows
from bench.harness.tables import Table, made_with
from bench.takeover import SHARE_MIN, SHORT_LEASE_SECONDS
from testbed.etcd_process import etcd_cluster
from testbed.members.assigner_pair import ASSIGNERS, AssignerPair, Shape
from testbed.members.telling_member import OWNERSHIPS
from testbed.patience import Deadline

SECONDS: Final = 600
QUICK_SECONDS: Final = 5
STALL_SECONDS: Final = (0.05, 0.15)
BETWEEN_SECONDS: Final = (0.02, 0.3)
STALLED: Final = "stall"


async def stalled(pair: AssignerPair, seconds: float, dice: random.Random) -> list[float]:
    """Stops one process after the other for so long. Returns how long each was stopped, by the wall."""
    took: list[float] = []
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        name = dice.choice([*pair.members, *ASSIGNERS])
        began = time.monotonic()
        pair.pause(name)
        await asyncio.sleep(dice.uniform(*STALL_SECONDS))
        pair.resume(name)
        took.append(time.monotonic() - began)
        await asyncio.sleep(dice.uniform(*BETWEEN_SECONDS))
    return took


async def play(bootstrap: str, how: Asked) -> Table:
    """Stalls processes of one group, then counts what its history says of them."""
    shape = Shape("stalls", OWNERSHIPS[:1], lease_seconds=SHORT_LEASE_SECONDS)
    with tempfile.TemporaryDirectory(prefix="braid-bench-") as directory:
        async with etcd_cluster(Path(directory)) as etcd, AsyncExitStack() as stack:
            store = f"etcd://{','.join(etcd.endpoints)}"
            pair = AssignerPair(shape, Path(directory), bootstrap, store, etcd.endpoints)
            await pair.start(stack)
            before, deadline = len(await pair.lost_members()), Deadline(1.0)
            took = await stalled(pair, how.units, random.Random(1))
            await asyncio.sleep(2 * SHORT_LEASE_SECONDS)
            lost, share = len(await pair.lost_members()) - before, deadline.share
    longer = sum(seconds > SHORT_LEASE_SECONDS for seconds in took)
    facts = {
        "work": f"{len(took)} stalls in {how.units} s of 3 members and 2 assigners, lease 300 ms; "
        f"the machine gave {share:.0%} of its time and made {longer} of them longer than the lease",
        "members taken for dead": f"{lost} (aim 0)",
    }
    void = "" if share >= SHARE_MIN and not longer else "void: the machine itself stalled"
    found = rows({STALLED: [Sample(1, 0.0, seconds) for seconds in took]}, STALLED, "wall", without_peer=[STALLED])
    return Table("stalls", "stall", "wall", void, facts, found, made_with())


def main() -> int:
    """Runs the benchmark on a broker of its own; 1 when it is void."""
    how = asked(__doc__, units=SECONDS, quick_units=QUICK_SECONDS)
    with broker(apart=False) as serving:
        table = asyncio.run(play(serving.bootstrap, how))
    table.publish(how.directory)
    return int(bool(table.verdict) and not how.quick)


if __name__ == "__main__":
    sys.exit(main())
