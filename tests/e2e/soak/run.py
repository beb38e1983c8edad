"""A soak: a mesh of every service under a steady load for hours, looked at from outside once a second.

Two producers send and two members consume all the time. A third member comes and goes, so that whatever a join, a
hand-over or a closed connection leaves behind adds up.
"""

import asyncio
import dataclasses
import itertools
import json
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
from prometheus_client.parser import text_string_to_metric_families

import braid
from braid.api.registry.v1.registry_service_pb2 import CreateStreamRequest
from braid.api.registry.v1.stream_pb2 import LaneSpec, Stream, StreamSpec
from devmesh.mesh import DevMesh
from testbed.checkers import Violation
from testbed.ground.field import Field, now_ms
from testbed.ground.fleet import Fleet
from testbed.ground.journals import Journals
from testbed.ground.load import PARTITIONS, STREAM
from testbed.patience import Deadline
from testbed.trusting import never_held
from tests.e2e.soak.judging import STALL_SECONDS, Sample, Seen, judge
from tests.e2e.soak.probe import SUFFIX

STEADY: Final = ("member-0", "member-1", "producer-0", "producer-1")
VISITOR: Final = "member-2"
BETWEEN_SECONDS: Final = 5.0  # after a visitor has gone, and before the end
LOOK_SECONDS: Final = 1.0
START_SECONDS: Final = 60.0
CLUSTERS: Final = ("east", "west")
EVERY: Final = float("inf")
Say = Callable[[str], None]


@dataclass
class Soak:
    """The result of a soak.

    Attributes:
        seen: Of every process that ran from the beginning to the end.
        violations: Of I17.
        share: How much of its time the machine gave.
        waited_seconds: The longest time for which an application waited for a core within one look.
        counts: Lines of the applications by kind.
    """

    seen: Seen
    violations: list[Violation]
    share: float
    waited_seconds: float
    counts: Mapping[str, int]

    def summary(self) -> str:
        """A line for each process: its first and last sample."""
        rows = (f"{name:12} {series[0]} -> {series[-1]}" for name, series in self.seen.samples.items())
        late = (f"late {kind}: {dict(counts)}" for kind, counts in self.seen.late.items())
        machine = f"the machine gave {self.share:.0%} of its time, a core after {self.waited_seconds:.3f} s"
        return "\n".join([*rows, *late, machine, str(dict(self.counts))])


async def play(directory: Path, seconds: float, say: Say = print) -> Soak:
    """Starts everything, lets it work for so long, ends it and judges."""
    logs = directory / "logs"
    logs.mkdir(parents=True)
    mesh = DevMesh(directory / "mesh", clusters=CLUSTERS, registries=1, assigners=1, lagmons=1, dlqs=1)
    async with mesh:
        fleet = Fleet(logs, mesh.ready.endpoint, room="tests.e2e.soak", tls=mesh.tls)
        try:
            async with braid.connect(mesh.ready.endpoint, client_id="soak", tls=mesh.tls) as client:
                field = Field(mesh, fleet, Journals(logs), client)
                await _begin(field)
                say(f"soaking for {seconds:.0f} s")
                given = Deadline(0)
                looks = _Looks(field)
                await asyncio.gather(looks.take(seconds), _visits(field, seconds))
                await field.progress()
        finally:
            fleet.close()
    seen = looks.seen()
    return Soak(seen, judge(seen), given.share, looks.waited_seconds, dict(field.journals.counts))


async def _begin(field: Field) -> None:
    registry = field.client.service("registry")
    await never_held(registry)
    lanes = {lane: LaneSpec(partitions=count) for lane, count in PARTITIONS.items()}
    request = CreateStreamRequest(name=STREAM, spec=StreamSpec(lanes=lanes))
    await registry.unary("CreateStream", request, Stream, timeout_seconds=START_SECONDS)
    for name in STEADY:
        field.fleet.start(name)
    await field.progress()
    await field.owned(START_SECONDS)


async def _visits(field: Field, seconds: float) -> None:
    """Lets the visitor come, work and go until the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() + 2 * BETWEEN_SECONDS < end:
        begun = now_ms()
        field.fleet.start(VISITOR)
        await field.first("processed", begun, lambda line: line.process == VISITOR, f"{VISITOR} works")
        await field.fleet.end(VISITOR)
        await asyncio.sleep(BETWEEN_SECONDS)


@dataclass
class _Looks:
    """Takes samples of services and applications."""

    field: Field
    samples: dict[str, list[Sample]] = dataclasses.field(default_factory=dict)
    waited_seconds: float = 0.0
    _late: dict[str, dict[float, float]] = dataclasses.field(default_factory=dict)

    async def take(self, seconds: float) -> None:
        """One look a second, for so long."""
        begun = time.monotonic()
        before = await asyncio.to_thread(self._services_late)
        for number in itertools.count(1):
            self.field.journals.poll()
            await asyncio.to_thread(self._look, time.monotonic())
            if time.monotonic() - begun > seconds:
                break
            await asyncio.sleep(max(0.0, begun + number * LOOK_SECONDS - time.monotonic()))
        after = await asyncio.to_thread(self._services_late)
        self._late["services"] = {bound: after[bound] - before[bound] for bound in after}
        self._late["applications"] = self._applications_late(begun)

    def seen(self) -> Seen:
        """The observations so far; call it after `take`."""
        return Seen(self.samples, self._late)

    def _look(self, now: float) -> None:
        for name, service in self.field.mesh.ready.services.items():
            assert service.pid is not None
            self._sample(name, service.pid, now, _metrics(service.metrics)["braid_tasks"])
        for name in STEADY:
            self._sample(name, self.field.fleet.pid(name), now, _last(self._loop_log(name))["tasks"])

    def _sample(self, name: str, pid: int, now: float, tasks: float) -> None:
        process = psutil.Process(pid)
        sample = Sample(now, process.memory_info().rss, process.num_fds(), tasks)
        self.samples.setdefault(name, []).append(sample)

    def _loop_log(self, name: str) -> Path:
        return self.field.fleet.directory / f"{name}.1{SUFFIX}"

    def _services_late(self) -> dict[float, float]:
        counts: dict[float, float] = {STALL_SECONDS: 0.0, EVERY: 0.0}
        for service in self.field.mesh.ready.services.values():
            read = _metrics(service.metrics)
            counts[STALL_SECONDS] += read[f"late/{STALL_SECONDS}"]
            counts[EVERY] += read["late/+Inf"]
        return counts

    def _applications_late(self, since: float) -> dict[float, float]:
        looks = [json.loads(line) for name in STEADY for line in self._loop_log(name).read_text().splitlines()]
        looks = [look for look in looks if look["at"] >= since]
        self.waited_seconds = max(look["waited"] for look in looks)
        late = [look["late"] - look["waited"] for look in looks]
        return {STALL_SECONDS: sum(each <= STALL_SECONDS for each in late), EVERY: len(late)}


def _metrics(address: str) -> dict[str, float]:
    """Tasks of a service, and how often its event loop was late by no more than each bound."""
    with urllib.request.urlopen(address, timeout=10) as answer:
        text = answer.read().decode()
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == "braid_tasks":
                found[sample.name] = sample.value
            elif sample.name == "braid_loop_lag_seconds_bucket":
                found[f"late/{sample.labels['le']}"] = sample.value
    return found


def _last(path: Path) -> dict[str, float]:
    """The last whole line of a probe's log."""
    lines = path.read_text().rpartition("\n")[0].splitlines()
    last: dict[str, float] = json.loads(lines[-1])
    return last
