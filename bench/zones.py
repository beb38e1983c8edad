"""Bytes across zones, and a zone that is lost: `python -m bench.zones` (`--units` seconds of measured load).

Three zones, each with a cluster, replicas of the services and applications. Two streams carry the same load in the
same seconds: a plain one, and one with `spread: zones` and `keys_by_zone` whose group prefers zones. First the bytes
that cross zones are counted. Then the zone that carries the plain stream is killed at once: its broker, its replicas
and its applications. It comes back, and everything that was acknowledged has to be handled.

Beside it, one cluster over three zones, with a broker and a copy of everything in each: members that say in which zone
they are, and members that do not, read the same records in turns. The kernel counts which broker sends them.
"""

import asyncio
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import braid
from bench.harness.arguments import asked
from bench.harness.group_names import new_group
from bench.harness.rounds import Sample, rows
from bench.harness.tables import Table, made_with
from bench.takeover import SHARE_MIN
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1 import stream_pb2
from devmesh.mesh import DevMesh
from testbed.checkers.zone_ledgers import crossed_part, missing, pauses, slowest
from testbed.members.zone_member import ACKNOWLEDGED, RECORD_BYTES, SEND_SECONDS, Line
from testbed.members.zoned_applications import CLUSTERS, ZONES, ZonedApplications
from testbed.patience import Deadline, until
from testbed.received_bytes import received

SECONDS: Final = 30
QUICK_SECONDS: Final = 5
CUT_AIM: Final = 0.6
PAUSE_AIM_SECONDS: Final = 5.0
WARM_SECONDS: Final = 3.0
LOST_SECONDS: Final = 15.0  # that others are watched for after the kill; those who wait for longer have failed
NEAR_SECONDS: Final = 180.0
READ_SECONDS: Final = 60.0
PARTITIONS: Final = 6
WIDE: Final = "wide"
WIDE_RECORDS: Final = 600
WIDE_RECORD_BYTES: Final = 10_000
PLAIN, ZONED = "plain", "zoned"
LANES: Final = {
    PLAIN: stream_pb2.LaneSpec(partitions=PARTITIONS),
    ZONED: stream_pb2.LaneSpec(partitions=PARTITIONS, spread=stream_pb2.LANE_SPREAD_ZONES, keys_by_zone=True),
}


class Loss(NamedTuple):
    """The pauses and losses of one stream while a zone was lost.

    Attributes:
        pause_seconds: The longest time without an acknowledgement of any producer in another zone.
        record_seconds: The longest time from an acknowledgement by another zone's cluster to the record's handling.
        acknowledged: Records, in the whole run.
        lost: Acknowledged records that were not handled by the end.
    """

    pause_seconds: float
    record_seconds: float
    acknowledged: int
    lost: int


class Found(NamedTuple):
    """The figures of a run.

    Attributes:
        crossed: The part of bytes that crossed zones, by stream.
        losses: By stream.
        wide: The part of bytes that came from a broker in another zone: members without a zone, and with theirs.
    """

    crossed: Mapping[str, float]
    losses: Mapping[str, Loss]
    wide: Mapping[str, float]


def cut(parts: Mapping[str, float]) -> float:
    """Returns how many of the bytes that cross plainly do not cross with zones."""
    return 1 - parts[ZONED] / parts[PLAIN] if parts[PLAIN] else 0.0


async def play(directory: Path, seconds: float) -> tuple[Mapping[str, float], Mapping[str, Loss]]:
    """Plays both streams on a mesh of its own.

    Returns:
        The part of bytes that crossed zones by stream, and what became of each stream when the zone was lost.
    """
    mesh_of = DevMesh(directory / "mesh", clusters=CLUSTERS, registries=3, assigners=3, lagmons=3, dlqs=3, secure=False)
    async with mesh_of as local, braid.connect(local.ready.endpoint, client_id="operator") as mesh:
        both = {name: ZonedApplications(mesh, local.ready.endpoint, name, directory) for name in LANES}
        async with (
            both[PLAIN].running(LANES[PLAIN], prefer=False),
            both[ZONED].running(LANES[ZONED], prefer=True),
        ):
            await until(both[ZONED].near, "leases are in their zones", NEAR_SECONDS)
            await asyncio.sleep(WARM_SECONDS)
            began = time.monotonic()
            await asyncio.sleep(seconds)
            ended = time.monotonic()
            crossed = {
                name: crossed_part([each.lines(zone) for zone in ZONES], began, ended) for name, each in both.items()
            }
            return crossed, await outlive(local, both)


async def outlive(local: DevMesh, both: Mapping[str, ZonedApplications]) -> Mapping[str, Loss]:
    """Kills the zone that carries the plain stream, and brings it back; returns what became of each stream."""
    lost = both[PLAIN].carrier()
    zone = ZONES[CLUSTERS.index(lost)]
    replicas = [name for name in local.ready.services if name.endswith(f"-{ZONES.index(zone)}")]
    began = time.monotonic()
    for each in both.values():
        each.kill(zone)
    await asyncio.gather(*(local.kill(name) for name in (lost, *replicas)))
    await asyncio.sleep(LOST_SECONDS)
    ended = time.monotonic()
    for name in (lost, *replicas):
        await local.start(name)
    left = [each for each in ZONES if each != zone]
    for each in both.values():
        each.silence()
    seen = {name: each.lines(*left) for name, each in both.items()}
    for each in both.values():
        await each.drain()
    return {name: loss(seen[name], each.lines(), lost, began, ended) for name, each in both.items()}


def loss(left: Sequence[Line], everybody: Sequence[Line], lost: str, began: float, ended: float) -> Loss:
    """Returns what became of a stream.

    Args:
        left: What processes in the other zones wrote until the zone came back.
        everybody: What all processes wrote until the end.
        lost: Name of the cluster that was killed.
        began: When it was killed.
        ended: Until when the others are judged.
    """
    waits = pauses(left, began, ended)
    if len(waits) != 2 * (len(ZONES) - 1):
        raise AssertionError(f"these producers have sent something: {sorted(waits)}")
    late = slowest(left, began, ended - PAUSE_AIM_SECONDS, lost)
    acknowledged = sum(line.kind == ACKNOWLEDGED for line in everybody)
    return Loss(max(waits.values()), late, acknowledged, len(missing(everybody)))


async def play_wide(directory: Path) -> Mapping[str, float]:
    """Reads from one cluster over three zones; returns the part of bytes that came from another zone's broker."""
    async with DevMesh(directory / WIDE, clusters=[WIDE], brokers=len(ZONES), secure=False) as local:
        brokers = local.ready.clusters[WIDE].brokers.values()
        racks = {int(each.address.rpartition(":")[2]): each.rack for each in brokers}
        if sorted(racks.values()) != sorted(ZONES):
            raise AssertionError(f"brokers are in {racks}")
        await fill(local.ready.endpoint)
        crossed: dict[str, Counter[bool]] = {PLAIN: Counter(), ZONED: Counter()}
        for zone in ZONES:
            for name, said in ((PLAIN, ""), (ZONED, zone)):
                for rack, size in (await read(local.ready.endpoint, said, racks)).items():
                    crossed[name][rack != zone] += size
    return {name: sizes[True] / sizes.total() for name, sizes in crossed.items()}


async def fill(endpoint: str) -> None:
    """Creates a stream whose partitions have a copy in each zone, and sends records that no codec makes small."""
    spec = stream_pb2.StreamSpec(lanes={"live": LANES[PLAIN]}, replication_factor=len(ZONES))
    request = api.CreateStreamRequest(name=WIDE, spec=spec)
    async with braid.connect(endpoint, client_id="writer") as mesh:
        await mesh.service("registry").unary("CreateStream", request, stream_pb2.Stream, timeout_seconds=60)
        async with mesh.producer(WIDE) as producer:
            for number in range(WIDE_RECORDS):
                await producer.send(os.urandom(WIDE_RECORD_BYTES), key=b"%d" % number)


async def read(endpoint: str, zone: str, racks: Mapping[int, str]) -> Counter[str]:
    """Reads all records as a member of a new group in a zone; returns the bytes that brokers sent, by their zone."""
    handled: set[str] = set()

    async def handle(record: braid.Record) -> None:
        handled.add(record.id)

    async with braid.connect(endpoint, client_id="reader", zone=zone) as mesh:
        async with mesh.consumer([WIDE], group=new_group()) as consumer:
            reading = asyncio.create_task(consumer.run(handle))
            await until(lambda: len(handled) == WIDE_RECORDS, lambda: f"{len(handled)} are read", READ_SECONDS)
            found = received(racks)
        await reading
    return found


async def measure(seconds: float) -> Found:
    """Plays everything, on two meshes one after the other."""
    with tempfile.TemporaryDirectory(prefix="braid-zones-") as directory:
        crossed, losses = await play(Path(directory), seconds)
        wide = await play_wide(Path(directory))
    return Found(crossed, losses, wide)


def table(found: Found, seconds: float, share: float) -> Table:
    """Makes the table of a run. `share` is the part of its time that the machine gave."""
    told: dict[str, Sequence[float]] = {}
    for name in (PLAIN, ZONED):
        told[f"zone lost, {name}: longest pause"] = [found.losses[name].pause_seconds]
        told[f"zone lost, {name}: slowest record"] = [found.losses[name].record_seconds]
    samples = {name: [Sample(1, 0.0, max(each, 1e-4)) for each in taken] for name, taken in told.items()}
    sent = sum(each.acknowledged for each in found.losses.values())
    lost = sum(each.lost for each in found.losses.values())
    facts = {
        "work": f"{len(ZONES)} zones; in each zone and stream a producer with keys and one without, at most "
        f"{1 / SEND_SECONDS:g} records of {RECORD_BYTES:,} B a second each, both streams in the same {seconds:g} s; "
        f"the machine gave {share:.0%} of its time",
        "peer": "the plain stream: one channel on one cluster, and members that take any lease",
        "aim": f"-{CUT_AIM:.0%} bytes across zones; others pause for {PAUSE_AIM_SECONDS:g} s at most; 0 lost",
        "bytes across zones": _cut_text(found.crossed),
        "bytes of a cluster over three zones that are fetched from another zone": _cut_text(found.wide),
        "fate": f"of {sent:,} acknowledged records {lost} lost",
    }
    void = "" if share >= SHARE_MIN else f"void: the machine gave {share:.0%} of its time"
    void = void if seconds >= SECONDS else f"not to be quoted: {seconds:g} s, fewer than {SECONDS}"
    zoned = found.losses[ZONED]
    if max(zoned.pause_seconds, zoned.record_seconds) > PAUSE_AIM_SECONDS:
        void = f"void: a lost zone held others up for more than {PAUSE_AIM_SECONDS:g} s"
    if lost or min(cut(found.crossed), cut(found.wide)) < CUT_AIM:
        void = f"void: {facts['fate']}; {facts['bytes across zones']}; {_cut_text(found.wide)}"
    peer = f"zone lost, {PLAIN}: longest pause"
    slow = [name for name in samples if name.endswith("slowest record")]
    return Table("zones", "zone", "wall", void, facts, rows(samples, peer, "wall", slow), made_with())


def _cut_text(parts: Mapping[str, float]) -> str:
    return f"{parts[PLAIN]:.1%} of all {PLAIN}, {parts[ZONED]:.1%} {ZONED}: {-cut(parts):.0%}"


def main() -> int:
    """Runs the benchmark on meshes of its own; 1 when the table is void."""
    how = asked(__doc__, units=SECONDS, quick_units=QUICK_SECONDS)
    deadline = Deadline(1.0)
    made = table(asyncio.run(measure(how.units)), how.units, deadline.share)
    made.publish(how.directory)
    return int(bool(made.verdict) and not how.quick)


if __name__ == "__main__":
    sys.exit(main())
