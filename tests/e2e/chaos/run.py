"""One chaos run from end to end: a mesh, applications under load, faults, healing, quiet, and the judgement.

Nothing it started outlives it, whatever happens.
"""

import json
import random
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import braid
from braid.api.registry.v1.registry_service_pb2 import CreateStreamRequest
from braid.api.registry.v1.stream_pb2 import ChannelState, LaneSpec, Stream, StreamSpec
from braid.host.system import system_host
from braid.kernel.errors import BraidError
from braid.kernel.ports import EventStore, HistoryId
from braid.runtime.histories.fold import Fold
from braid.runtime.opening import open_store
from devmesh.mesh import DevMesh
from testbed.checkers import Violation, facts
from testbed.checkers.past import INVARIANT as PAST
from testbed.ground.clusters import group_facts, topic_facts
from testbed.ground.field import Field, Mark, NotPlayedError, StuckError, now_ms
from testbed.ground.fleet import Fleet
from testbed.ground.histories import KINDS
from testbed.ground.journals import Journals, Line
from testbed.ground.load import CLUSTERS, GROUP, LARGE, MEMBERS, PARTITIONS, PRODUCERS, STREAM, TOPIC_PREFIX, fate_of
from testbed.patience import Deadline
from testbed.trusting import never_held
from tests.e2e.chaos import judging
from tests.e2e.chaos.catalogue import FAULTS
from tests.e2e.chaos.faults import go_on
from tests.e2e.chaos.full_disks import small_disks
from tests.e2e.chaos.liveness import Act, gaps, late, stalls
from tests.e2e.chaos.plan import PLAIN, Ground
from tests.e2e.chaos.seals import Seals
from tests.e2e.chaos.series import Route, lag, routes, span
from tests.e2e.chaos.store_faults import store_url_of

START_SECONDS = 60.0
OWNED_SECONDS = 4.0
LAG_SECONDS = 30.0
DRAIN_SECONDS = 90.0
PROMISED = {"owned_after_healing_seconds": OWNED_SECONDS, "lag_zero_after_healing_seconds": LAG_SECONDS}
PATIENCE = 4.0  # waited for longer than promised, so that a report says how long it took
DECK = "deck"  # whose acts they are on the timeline
Say = Callable[[str], None]


@dataclass
class Report:
    """The result of a chaos run.

    Attributes:
        seed: It stands for.
        faults: Played, in order.
        not_played: Faults that this machine or mesh does not allow, and why.
        kills: SIGKILL and SIGSTOP.
        counts: Facts by kind.
        repeats: Records processed again.
        violations: Of invariants, liveness included.
        figures: Measurements, each in the unit its name ends in.
        given: By figure that is promised, how much of the machine's time there was for it: 1 all of it.
        found: The facts, in order.
        lines: The applications' logs.
        marks: The timeline.
        acts: The faults on it, one after the other.
        routes: Which cluster carried which lane when.
        lag: By slice of time, how many records were acknowledged and not settled.
        given_up: Records that no member settled, and a person gave up by name.
        seconds: Wall time.
    """

    seed: int
    faults: list[str] = field(default_factory=list)
    not_played: dict[str, str] = field(default_factory=dict)
    kills: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    repeats: int = 0
    violations: list[Violation] = field(default_factory=list)
    figures: dict[str, list[float]] = field(default_factory=dict)
    given: dict[str, float] = field(default_factory=dict)
    found: list[facts.Fact] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)
    routes: list[Route] = field(default_factory=list)
    lag: list[int] = field(default_factory=list)
    given_up: int = 0
    seconds: float = 0.0

    def to_json(self) -> str:
        """All but facts and lines."""
        large = ("found", "lines", "marks", "acts", "routes", "lag", "violations")
        small = {name: value for name, value in vars(self).items() if name not in large}
        return json.dumps({**small, "violations": [str(each) for each in self.violations]}, indent=1) + "\n"


async def play(
    directory: Path, seed: int, decks: Iterator[Sequence[str]], say: Say = print, *, ground: Ground = PLAIN
) -> Report:
    """Plays decks of faults, one after the other, then heals, quiets and judges.

    Args:
        directory: Made anew; everything of the run lies there.
        seed: Of the choices faults make.
        decks: Faults by name; the run ends with the last one.
        say: Gets a line for each step.
        ground: The mesh to play on.
    """
    begun = time.monotonic()
    shutil.rmtree(directory, ignore_errors=True)
    logs = directory / "logs"
    logs.mkdir(parents=True)
    report = Report(seed)
    async with AsyncExitStack() as stack:
        no_disks = "not asked for"
        if ground.small_disks:
            disks = small_disks(directory / "mesh", ground.brokers, store_too=not ground.store_members)
            no_disks = stack.enter_context(disks)
        mesh = await stack.enter_async_context(mesh_of(directory / "mesh", ground))
        ready = time.monotonic() - begun
        report.figures["dev_ready_seconds"] = [ready]
        report.figures["dev_memory_mb"] = [(await mesh.status()).memory_bytes / 1e6]
        say(f"ready after {ready:.1f} s, seed {seed}, in {directory}")
        endpoint = ",".join(service.address for service in mesh.ready.services.values())
        fleet = Fleet(logs, endpoint, room="tests.e2e.chaos", tls=mesh.tls)
        try:
            async with braid.connect(endpoint, client_id="chaos", tls=mesh.tls) as client:
                field = Field(mesh, fleet, Journals(logs), client, no_small_disks=no_disks)
                await _Play(field, report, say).run(decks)
        finally:
            fleet.close()
    _judge(report, say)
    report.seconds = time.monotonic() - begun
    return report


def mesh_of(directory: Path, ground: Ground) -> DevMesh:
    """The mesh that a ground stands for, not started."""
    clusters = [f"{name}:{ground.brokers if name in LARGE else 1}" for name in CLUSTERS]
    store = "etcd" if ground.store_members else "sqlite"
    return DevMesh(directory, clusters=clusters, store=store, store_members=ground.store_members, secure=ground.secure)


class _Play:
    """The acts of one run."""

    def __init__(self, field: Field, report: Report, say: Say) -> None:
        self._field = field
        self._report = report
        self._say = say
        self._histories = field.histories
        self._seals = Seals(field)
        self._timed: list[judging.Timed] = []

    async def run(self, decks: Iterator[Sequence[str]]) -> None:
        """From the stream's creation to everything read back."""
        try:
            async with self._seals.watched():
                await self._begin()
                await self._break(decks)
                await self._heal()
            await self._read(self._cluster)
            await self._field.drained(DRAIN_SECONDS)  # a registry leads again: none did while nothing was deleted
            await self._try_sealed()
        except (StuckError, BraidError) as error:
            during = self._report.acts[-1].what if self._report.acts else "start"
            self._violated("I13 liveness", f"{during}: {error}")
            await self._field.fleet.ask()
            for name in PRODUCERS:  # what is acknowledged after a disk was read would be missing there
                self._field.fleet.kill(name)
            await self._read(self._disk)
        finally:
            report, run = self._report, self._field
            run.journals.poll()
            report.lines, report.marks, report.kills = run.journals.lines, run.marks, run.kills
            report.figures |= run.figures
            report.routes = routes(self._histories.of("registry", STREAM), span(report.lines)[1])
            report.lag = lag(report.lines, run.gave_up_ms)
            settled = {line.value for line in report.lines if line.kind in ("processed", "rejected")}
            acked = (line for line in report.lines if line.kind == "acked" and line.value not in settled)
            report.given_up = sum(run.gave_up_ms(line) is not None for line in acked)
            for stall in stalls(report.acts, gaps(report.lines, report.marks, run.gave_up_ms)):
                self._violated("I13 liveness", stall)
            report.found = judging.in_order([*judging.line_facts(report.lines), *self._timed])

    async def _begin(self) -> None:
        await never_held(self._field.client.service("registry"))
        lanes = {lane: LaneSpec(partitions=count) for lane, count in PARTITIONS.items()}
        request = CreateStreamRequest(name=STREAM, spec=StreamSpec(lanes=lanes))
        await self._field.client.service("registry").unary("CreateStream", request, Stream, timeout_seconds=120.0)
        for name in (*MEMBERS, *PRODUCERS):
            self._field.fleet.start(name)
        await self._field.progress()
        await self._field.healthy()  # a machine that starts all of this at once may find clusters slow
        await self._field.owned(START_SECONDS)
        await self._read_histories()

    async def _break(self, decks: Iterator[Sequence[str]]) -> None:
        chance = random.Random(f"choices/{self._report.seed}")
        for deck in decks:
            for name in deck:
                await self._act(name, chance)
                await self._read_histories()

    async def _act(self, name: str, chance: random.Random) -> None:
        act, given = Act(DECK, name, now_ms(), hit=False), Deadline(0.0)
        self._report.acts.append(act)
        try:
            await FAULTS[name].play(self._field, chance)
        except NotPlayedError as reason:
            self._report.acts.remove(act)
            self._report.not_played[name] = str(reason)
            self._say(f"NOT PLAYED {name}: {reason}")
            return
        finally:
            act.given = given.share
        self._report.faults.append(name)
        act.end_ms = now_ms()
        counts = self._field.journals.counts
        self._say(
            f"{self._field.kills:3} kills  {name:44} {(act.end_ms - act.begin_ms) / 1_000:5.1f} s   "
            f"{counts['acked']} acknowledged, {counts['processed']} processed"
        )

    async def _heal(self) -> None:
        run = self._field
        begun = time.monotonic()
        await self._within("owned_after_healing_seconds", run.owned(PATIENCE * OWNED_SECONDS), begun)
        await run.fleet.end("producer")
        begun = time.monotonic()
        settled = run.until(self._settled, "everything acknowledged is settled", PATIENCE * LAG_SECONDS)
        await self._within("lag_zero_after_healing_seconds", settled, begun)
        begun = time.monotonic()
        await run.drained(DRAIN_SECONDS)
        run.measured("drained_after_quiet_seconds", time.monotonic() - begun)
        await run.fleet.end("member")

    async def _within(self, name: str, waiting: Awaitable[None], begun: float) -> None:
        there = Deadline(PROMISED[name])
        await waiting
        seconds = time.monotonic() - begun
        self._field.measured(name, seconds)
        self._report.given[name] = there.share
        self._say(f"{name}: {seconds:.1f} (promised {PROMISED[name]:g}; the machine gave {there.share:.0%})")

    def _settled(self) -> bool:
        lines = self._field.journals.lines
        settled = {line.value for line in lines if line.kind in ("processed", "rejected")}
        acked = (line for line in lines if line.kind == "acked")
        return all(
            line.value in settled or fate_of(line.value) == "poison" or self._field.gave_up_ms(line) is not None
            for line in acked
        )

    async def _read_histories(self) -> None:
        for service in ("registry", "assigner"):
            try:
                await self._histories.read(service, self._field.client.service(service))
            except BraidError as error:
                self._say(f"histories of {service} not read this time: {error}")

    async def _read(self, cluster: Callable[[str], Awaitable[list[judging.Timed]]]) -> None:
        """Everything that tells what really happened; of a cluster by a way that goes however it is."""
        await self._read_histories()
        self._timed = self._histories.facts(self._seals.refuses)
        for topic, at in self._histories.sealed_ms(STREAM).items():
            if topic in self._seals.tried_ms:
                self._field.measured("seal_recorded_to_tried_ms", self._seals.tried_ms[topic] - at)
        for change in self._histories.changed:
            self._violated("I8 histories", change)
        for service, absent in self._histories.absent.items():
            if absent:
                self._violated(PAST, f"{len(absent)} events of {service}, the first: {absent[0]}")
        async with self._nothing_deleted():
            for name in self._field.mesh.ready.clusters:
                self._timed += [*await cluster(name), *self._field.disk(name).topic_changes()]
        self._timed += self._field.kept
        await self._read_folds()

    @asynccontextmanager
    async def _nothing_deleted(self) -> AsyncIterator[None]:
        """No registry deletes a topic that is being read: an unused spare is retired after a minute."""
        mesh = self._field.mesh
        found = (await mesh.status()).processes
        frozen = [each.name for each in found if each.name.startswith("registry") and each.state == "running"]
        for name in frozen:
            await mesh.pause(name)
        try:
            yield
        finally:
            for name in frozen:
                await go_on(mesh, name)

    async def _cluster(self, name: str) -> list[judging.Timed]:
        """The facts that a running cluster tells."""
        bootstrap = self._field.mesh.ready.clusters[name].bootstrap
        topics = (await topic_facts(name, bootstrap, TOPIC_PREFIX)).items()
        told = [
            each for topic, found in topics if facts.Topic(name, topic) not in self._field.archived for each in found
        ]
        return told + await group_facts(name, bootstrap, GROUP)

    async def _disk(self, name: str) -> list[judging.Timed]:
        """The facts on a cluster's disk; the cluster may be dead or frozen."""
        return self._field.disk(name).told(self._field.archived)

    async def _read_folds(self) -> None:
        """Each history as a replica that starts now would fold it: the store's snapshot and the tail after it."""
        store = open_store(store_url_of(self._field), system_host())
        try:
            for service in ("registry", "assigner"):
                histories, _ = await store.histories(service)
                for history in histories:
                    await self._read_fold(store, history)
        finally:
            await store.close()

    async def _read_fold(self, store: EventStore, history: HistoryId) -> None:
        kind = KINDS[history.service, history.kind].erased()
        loaded = await store.load(history)
        fold = Fold(history, kind)
        fold.restore(loaded)
        state = kind.codec.encode_state(fold.state)
        read = self._histories.records.get(str(history), {})
        if max(read, default=0) == fold.sequence:
            self._timed.append((now_ms(), facts.Folded("reloaded", history, fold.sequence, state)))

    async def _try_sealed(self) -> None:
        """A topic that was sealed refuses a record to the end, where there still is one."""
        for channel in await self._field.channels():
            if channel.state != ChannelState.CHANNEL_STATE_DRAINED:
                continue
            if (taking := await self._seals.try_again(channel)) is None:
                continue
            for number in taking:
                self._violated("I11 drains", f"{channel.name} is drained; partition {number} takes records")
            self._field.measured("sealed_topics_tried", channel.generation)

    def _violated(self, invariant: str, message: str) -> None:
        self._report.violations.append(Violation(invariant, message, 0))


def _judge(report: Report, say: Say) -> None:
    report.violations += judging.judge(report.found)
    report.violations += [Violation("I13 liveness", each, 0) for each in late(PROMISED, report.figures, report.given)]
    report.counts = dict(Counter(type(fact).__name__ for fact in report.found))
    report.repeats = judging.repeats(report.found)
    for violation in report.violations:
        say(f"VIOLATION {violation}")
