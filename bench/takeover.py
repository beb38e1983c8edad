"""The cost of a fault for the members of a group: `python -m bench.takeover`.

Real Kafka, etcd, two assigners, members in processes of their own, a load in every partition. Wall time in
milliseconds: here waiting is the cost. Each fault is played many times; what counts is the median and the worst but one
in a hundred. The machine must have given its time while they were played, else the table is void.
"""

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from bench.harness.arguments import Asked, asked
from bench.harness.broker import broker
from bench.harness.rounds import Sample, rows
from bench.harness.tables import Table, made_with
from bench.harness.takeover_stages import stages
from bench.peers.classic_member import SESSION_MS
from bench.peers.classic_takeover import taken_over
from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2
from testbed.etcd_process import etcd_cluster
from testbed.members.assigner_pair import AssignerPair, Shape, now_ms
from testbed.members.telling_member import OWNERSHIPS, MemberEvent
from testbed.patience import Deadline, until

KILLS: Final = 30
CLASSIC: Final = "classic group of aiokafka, member killed"
CLASSIC_KILLS: Final = 2
SHARE_MIN: Final = 0.9  # of the machine's time
STREAM: Final = "bench"
LEASE_SECONDS: Final = 1.0
SHORT_LEASE_SECONDS: Final = 0.3
RECORD_SECONDS: Final = 0.002
AROUND_MS: Final = 500.0  # of a hand-over, in which the longest pause is looked for


class Figure(NamedTuple):
    """A fault to play, how often, and the aims in milliseconds at the median and at the 99th percentile."""

    play: Callable[[AssignerPair], Awaitable[float]]
    times: int
    p50: float
    p99: float


async def member_killed(pair: AssignerPair) -> float:
    """kill -9 of a member, until a survivor handles a record of its partitions."""
    victim = _busiest(pair)
    lost = {f"{pair.topic}/{lease.rpartition('/')[2]}" for lease in _held(pair, victim)}
    began = now_ms()
    pair.kill(victim)
    took = await _first(pair, lambda line: line.what == "began" and line.subject in lost, began)
    pair.start_member()
    await pair.settled()
    return took


async def member_stopped(pair: AssignerPair) -> float:
    """SIGSTOP of a member, until its leases are granted to others; what it took beyond the lease time."""
    victim = _busiest(pair)
    lost = _held(pair, victim)
    began = now_ms()
    pair.pause(victim)
    took = await _first(pair, lambda line: line.what == "granted" and line.subject in lost, began, victim)
    pair.resume(victim)
    await pair.settled(now_ms())
    return took - pair.shape.lease_seconds * 1000


async def leader_killed(pair: AssignerPair) -> float:
    """kill -9 of the leader, until every member had a heartbeat answered by the next; no lease may move."""
    leader, before = await pair.leader(), pair.holdings()
    began = now_ms()
    pair.kill(leader)
    await pair.leader(other_than=leader)
    led = now_ms()
    took = await pair.settled(led) + led - began
    await pair.start_assigner(leader)
    assert pair.holdings() == before, "a leader change moved leases"
    return took


async def lease_moved(pair: AssignerPair) -> float:
    """A lease is pinned to another member: the longest time in which no record of its partition was begun."""
    lease, (holder, _) = next(iter(sorted(pair.holdings()[pair.stream].items())))
    other = next(name for name in pair.members if name != holder)
    began = now_ms()
    pinned = api.PinLeaseRequest(group=pair.stream, lease=lease, member=other)
    await pair.mesh.service("assigner").unary("PinLease", pinned, group_pb2.Group)
    await until(
        lambda: pair.holdings()[pair.stream].get(lease, ("", 0))[0] == other, f"{other} holds {lease}", poll=0.01
    )
    await asyncio.sleep(2 * AROUND_MS / 1000)
    partition = f"{pair.topic}/{lease.rpartition('/')[2]}"
    recent = [line for name in pair.members for line in pair.since(name, began - AROUND_MS)]
    around = sorted(line for line in recent if line.subject == partition and line.ms <= began + AROUND_MS)
    offsets = sorted(line.offset for line in around)
    assert offsets == list(range(offsets[0], offsets[0] + len(offsets))), "records were lost or repeated"
    return max(later.ms - earlier.ms for earlier, later in pairwise(around))


# Leaders first: while a member that was killed is replaced, leases are on their way.
LONG: Final[Mapping[str, Figure]] = {
    "leader killed, the next answers": Figure(leader_killed, 7, 3_000, 3_000),
    "lease moved, longest pause under load": Figure(lease_moved, 3, 100, 100),
    "member stopped, beyond the lease of 1 s": Figure(member_stopped, 8, 100, 100),
    "member killed, a survivor handles its record": Figure(member_killed, KILLS, 50, 250),
}
SHORT: Final[Mapping[str, Figure]] = {
    "member stopped, beyond the lease of 300 ms": Figure(member_stopped, 8, 100, 100),
}


def _held(pair: AssignerPair, name: str) -> set[str]:
    return {lease for lease, (holder, _) in pair.holdings()[pair.stream].items() if holder == name}


def _busiest(pair: AssignerPair) -> str:
    return max(pair.members, key=lambda name: len(_held(pair, name)))


async def _first(pair: AssignerPair, wanted: Callable[[MemberEvent], bool], since_ms: float, but: str = "") -> float:
    """Milliseconds from then to the first such line of a live member."""
    found: list[float] = []

    def look() -> bool:
        recent = (pair.since(name, since_ms) for name in pair.members if name != but)
        found[:] = [line.ms for lines in recent for line in lines if wanted(line)]
        return bool(found)

    await until(look, "a survivor goes on", poll=0.1)
    return min(found) - since_ms


async def play(
    figures: Mapping[str, Figure], lease_seconds: float, bootstrap: str, how: Asked
) -> tuple[dict[str, list[float]], str]:
    """Plays each figure so often, the first time for nothing. Returns milliseconds by name, and stages of takeovers."""
    found: dict[str, list[float]] = {}
    stream = f"{STREAM}-{round(lease_seconds * 1000)}"
    shape = Shape(stream, OWNERSHIPS[:1], lease_seconds=lease_seconds, record_seconds=RECORD_SECONDS)
    with tempfile.TemporaryDirectory(prefix="braid-bench-") as directory:
        async with etcd_cluster(Path(directory)) as etcd, AsyncExitStack() as stack:
            store = f"etcd://{','.join(etcd.endpoints)}"
            pair = AssignerPair(shape, Path(directory), bootstrap, store, etcd.endpoints)
            await pair.start(stack)
            for name, figure in figures.items():
                times = 1 if how.quick else figure.times
                found[name] = [await figure.play(pair) for _ in range(times + 1)][1:]
                print(f"{name}: {[round(ms) for ms in found[name]]} ms", file=sys.stderr, flush=True)
            reached = await stages(pair)
    return found, reached


async def play_classic(bootstrap: str, how: Asked) -> dict[str, list[float]]:
    """The same kill in a classic Kafka group, beside nothing else. Returns milliseconds by name."""
    with tempfile.TemporaryDirectory(prefix="braid-bench-") as directory:
        times = 1 if how.quick else CLASSIC_KILLS
        found = [await taken_over(bootstrap, f"classic-{number}", Path(directory)) for number in range(times)]
    return {CLASSIC: found}


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that so large a share of them do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def table(found: Mapping[str, Sequence[float]], reached: str, share: float) -> Table:
    """The table of a run on a machine that gave so much of its time; `reached` tells the stages of takeovers."""
    samples = {name: [Sample(1, 0.0, max(ms, 0.1) / 1e3) for ms in taken] for name, taken in found.items()}
    made = rows(samples, next(iter(samples)), "wall", without_peer=samples)
    told = {
        name: f"p50 {percentile(taken, 0.5):.0f} ms (aim <= {figure.p50:g}), "
        f"p99 {percentile(taken, 0.99):.0f} ms (aim <= {figure.p99:g}) of {len(taken)}"
        for name, figure in {**LONG, **SHORT}.items()
        if (taken := found.get(name))
    }
    facts = {
        "work": "3 members, 8 partitions, etcd of one member, 2 assigners, 500 records a second; "
        f"the machine gave {share:.0%} of its time",
        "peer": f"classic group, 2 members, session.timeout.ms={SESSION_MS} (the least a broker allows by default): "
        f"p50 {percentile(found.get(CLASSIC, [0.0]), 0.5):.0f} ms",
        **told,
        "member killed, stage by stage": reached,
    }
    withheld = "" if share >= SHARE_MIN else f"void: the machine gave {share:.0%} of its time"
    return Table("takeover", "fault", "wall", withheld, facts, made, made_with())


def main() -> int:
    """Runs the benchmark on a broker of its own; 1 when the table is void."""
    how = asked(__doc__, units=1, quick_units=1)
    deadline = Deadline(1.0)
    with broker(apart=False) as serving:
        found, reached = asyncio.run(play(LONG, LEASE_SECONDS, serving.bootstrap, how))
        found |= asyncio.run(play(SHORT, SHORT_LEASE_SECONDS, serving.bootstrap, how))[0]
        found |= asyncio.run(play_classic(serving.bootstrap, how))
    made = table(found, reached, deadline.share)
    made.publish(how.directory)
    return int(bool(made.verdict) and not how.quick)


if __name__ == "__main__":
    sys.exit(main())
