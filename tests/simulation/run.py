"""One run from seed to verdict."""

import asyncio
import logging
import random
import time
import traceback
from collections.abc import Callable, Coroutine, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from braid.kernel.ports import Task
from testbed.checkers.approvals import TwoPersons
from testbed.checkers.checking import Checker, Violation
from testbed.checkers.commits import ReadableEnvelopes, TruthfulCommits
from testbed.checkers.delivery import HonestReceipts, NoPhantom, ZeroLoss
from testbed.checkers.drains import SafeDrains
from testbed.checkers.epochs import OneLeaderAtATime, RisingEpochs
from testbed.checkers.evidence import RefusedReports
from testbed.checkers.fencing import FencedCommits
from testbed.checkers.folding import OneFold
from testbed.checkers.holders import ExclusiveHolders
from testbed.checkers.identities import ProvedCallers
from testbed.checkers.lanes import FairLanes, PoisonStandsAside
from testbed.checkers.leases import Restful
from testbed.checkers.letters import LettersFirst, WholeReplays
from testbed.checkers.losses import ExactLosses
from testbed.checkers.past import KeptAnswers
from testbed.checkers.quotas import OwnQuotas
from testbed.checkers.resets import KeptResets
from testbed.checkers.retention import KeptTopics
from testbed.checkers.stores import GapFreeWatches, HonestAppends
from testbed.checkers.tenants import WithinQuota
from tests.simulation.ailments import HonestHealth
from tests.simulation.applications import GROUP
from tests.simulation.approving import Colleagues
from tests.simulation.bounding import Bounding, own_quotas
from tests.simulation.crowding import GROUPS_MAX, TENANT, Crowd
from tests.simulation.emptying import HonestlyEmpty
from tests.simulation.faults.clusters import APART_SECONDS
from tests.simulation.faults.every import every_fault
from tests.simulation.histories import KINDS
from tests.simulation.journal import InvariantViolated, Journal
from tests.simulation.leaving import AnsweredTrouble
from tests.simulation.operations import KeptRules
from tests.simulation.ordering import KeptOrder
from tests.simulation.plan import Plan
from tests.simulation.remembering import Historian, short_histories
from tests.simulation.replaying import Replaying
from tests.simulation.splitting import early
from tests.simulation.two_meshes import OtherMesh, OwnTopics
from tests.simulation.world import ENDPOINTS, World
from tests.support.virtual_time import VirtualDeadlock, VirtualFailure, VirtualTimeLoop

OWNED_SECONDS = 20.0  # after healing: leases run out, leaders settle, then every partition has its member
STOP_SECONDS = 40.0  # for producers to hear of the last record's fate


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one run.

    Attributes:
        invariant: The first invariant violated, '' when the run is green.
        message: What was wrong.
        found: All that was violated in that instant.
        trace: The journal, or its last lines.
        simulated_seconds: How long it was on the virtual clock.
        cpu_seconds: How long this process computed for it.
        counts: Kinds of facts, how many of each.
        faults: Kinds of faults that were made, how many of each.
        checkers: What judged it, as the run left them.
    """

    seed: int
    invariant: str
    message: str
    trace: Sequence[str]
    simulated_seconds: float
    cpu_seconds: float
    counts: dict[str, int]
    faults: dict[str, int]
    found: Sequence[Violation]
    checkers: Sequence[Checker]

    @property
    def green(self) -> bool:
        """Whether nothing was violated."""
        return not self.invariant


def run(plan: Plan, lines: int = 0, until_seconds: float | None = None) -> Result:
    """Plays a plan and keeps the last lines of its trace (0: all).

    The result depends on the plan alone (under one `PYTHONHASHSEED`), but for `cpu_seconds`. A run `until` so many
    simulated seconds ends there: it is green when nothing was violated by then.
    """
    began = time.process_time()
    loop = VirtualTimeLoop()
    loss, replays = ZeroLoss([GROUP, *plan.latecomers]), WholeReplays(GROUP)
    losses = ExactLosses(producers_die="kill-producer" in plan.faults)
    kept = KeptAnswers(KINDS) if plan.remembers else None
    quotas = own_quotas() if plan.quotas else None
    besides = [each for each in (replays if plan.replays else None, kept, quotas) if each is not None]
    checkers = [*_checkers(plan, loop.time), losses, *besides]
    journal = Journal(loop, [loss, *checkers])
    world = World(loop, plan, journal)
    logging.disable(logging.CRITICAL)
    invariant, message = "", ""
    try:
        with early(), short_histories() if plan.remembers else nullcontext():
            playing = _play(world, journal, loss, losses, replays, kept, quotas)
            loop.run_until_complete(_until(playing, until_seconds))
    except (InvariantViolated, VirtualFailure, VirtualDeadlock) as failure:
        invariant, message = _reason(journal, failure)
    finally:
        simulated = loop.time()
        _end(loop, world)
        logging.disable(logging.NOTSET)
    trace, cpu = journal.trace(lines), time.process_time() - began
    seen = journal.counts, journal.faults, journal.violations
    return Result(plan.seed, invariant, message, trace, simulated, cpu, *seen, checkers)


def _checkers(plan: Plan, now: Callable[[], float]) -> list[Checker]:
    checkers: list[Checker] = [
        HonestReceipts(),
        NoPhantom(),
        TruthfulCommits(),
        LettersFirst(),
        ReadableEnvelopes(),
        RisingEpochs(),
        Restful(),
        OneLeaderAtATime(),
        HonestAppends(),
        GapFreeWatches(),
        OneFold(KINDS),
        SafeDrains(),
        FencedCommits(),
        KeptRules(),
        HonestlyEmpty(),
        KeptResets(now),
    ]
    checkers += [HonestHealth(now, one_host=plan.one_host), AnsweredTrouble(now)] if plan.ailing else []
    checkers += [KeptOrder()] if plan.ordered else []
    checkers += [OwnTopics(now)] if plan.second_mesh else []
    checkers += [KeptTopics(now)] if "step-clock" in plan.faults else []
    checkers += [FairLanes(now, "live", plan.handling_seconds)] if plan.flood else []
    checkers += [PoisonStandsAside(now)] if plan.roomy else []
    checkers += [ProvedCallers(), RefusedReports()] if plan.hostile else []
    checkers += [TwoPersons()] if plan.approvals else []
    checkers += [WithinQuota(TENANT, GROUPS_MAX)] if plan.tenants else []
    return [*checkers, ExclusiveHolders(GROUP)] if plan.exclusive else checkers


async def _until(playing: Coroutine[object, object, None], seconds: float | None) -> None:
    """Plays to the end, or for so many simulated seconds."""
    try:
        async with asyncio.timeout(seconds) as limit:
            await playing
    except TimeoutError:
        if not limit.expired():
            raise


async def _play(
    world: World,
    journal: Journal,
    loss: ZeroLoss,
    losses: ExactLosses,
    replays: WholeReplays,
    kept: KeptAnswers | None,
    quotas: OwnQuotas | None,
) -> None:
    """Faults, healing, and then everything must come right."""
    await world.start()
    deleting = await _deleting(world, journal) if world.plan.approvals else None
    crowd = await _crowding(world, journal) if world.plan.tenants else None
    replaying = _replaying(world, journal, replays) if world.plan.replays else None
    bounding = Bounding(world, quotas) if quotas else None
    historian = Historian(world, kept, random.Random(f"past/{world.plan.seed}")) if kept else None
    for beside in (
        world.flood if world.plan.flood else None,
        replaying.run if replaying else None,
        historian.run if historian else None,
    ):
        if beside is not None:
            world.host.tasks.spawn(beside(), "beside the faults")
    if world.plan.latecomers:
        world.host.tasks.spawn(_come_late(world), "latecomers")
    other = _other_mesh(world) if world.plan.second_mesh else None
    await every_fault(world, f"faults/{world.plan.seed}").run()
    if other is not None:
        other.cancel()
    journal.say("HEALED")
    for name in world.plan.latecomers:
        world.start_process(name)
    settle = world.plan.settle_seconds
    await _callers_end(world, deleting, crowd)
    slow = {"lose-cluster", "shorten-logs", "restore-store"} & {*world.plan.faults}
    owned = settle if slow else OWNED_SECONDS  # losses show for a while until believed; clusters are compared first
    await _expect(world, "I13 liveness: leases", world.unowned, owned)
    if "shorten-logs" in world.plan.faults:
        await world.host.clock.sleep(APART_SECONDS)  # a cut shows where somebody writes on, or leaves (ADR 24)
    world.quiet = True
    await _expect(world, "I13 liveness: sends", world.unsettled_sends, STOP_SECONDS)
    await _expect(world, "I1 zero loss", lambda: list(loss.finish()), settle)
    if replaying is not None:
        await _expect(world, "I12 replays", replaying.left, settle)
    await _expect(world, "I11 losses", lambda: list(losses.untold()), settle)
    await _expect(world, "I13 liveness: drains", lambda: world.histories.in_state("draining"), settle)
    if bounding is not None:
        await bounding.ended()
        await _expect(world, "I20 quotas at Kafka", bounding.left, settle)
    await _finish(world, journal, historian)


async def _finish(world: World, journal: Journal, historian: Historian | None) -> None:
    """Asks for what only the end of a run can show."""
    if historian is not None:
        await historian.judge()
    journal.finish()
    if journal.violations:
        await world.host.clock.sleep(1.0)  # the run ends in this instant
    journal.say("QUIET")


async def _deleting(world: World, journal: Journal) -> Task:
    """The work of two people, whose stream and policy are there; it ends by itself after the faults."""
    people = Colleagues(world.host, world.network, journal, ENDPOINTS)
    await people.prepare(tuple(world.plan.clusters))
    return world.host.tasks.spawn(people.run(world.plan.fault_seconds), "colleagues")


async def _crowding(world: World, journal: Journal) -> Crowd:
    """Callers of a tenant, at work during faults; they go on until they are let in again."""
    crowd = Crowd(world.host, world.network, journal, ENDPOINTS)
    await crowd.prepare(tuple(world.plan.clusters))
    world.host.tasks.spawn(crowd.run(world.plan.fault_seconds), "crowd")
    return crowd


async def _callers_end(world: World, deleting: Task | None, crowd: Crowd | None) -> None:
    """The two people come to an end, and the tenant of the crowd is let in again."""
    if deleting is not None:
        await deleting.ended()
    if crowd is not None:
        await _expect(world, "I19 tenants", crowd.refused, world.plan.settle_seconds)


def _replaying(world: World, journal: Journal, replays: WholeReplays) -> Replaying:
    return Replaying(world.host, world.dlq, journal, replays, world.plan.letters)


def _other_mesh(world: World) -> Task:
    """Starts the operator of a second mesh, who acts during faults; its registry lives to the end."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop), "runs are virtual"
    dice = random.Random(f"other/{world.plan.seed}")
    return world.host.tasks.spawn(OtherMesh(loop, world).run(dice), "operator of another mesh")


async def _come_late(world: World) -> None:
    """One group after the other begins at the earliest record; the last only once everything is healed."""
    for name in world.plan.latecomers[:-1]:
        await world.host.clock.sleep(world.plan.fault_seconds / len(world.plan.latecomers))
        world.start_process(name)


async def _expect(world: World, invariant: str, left: Callable[[], Sequence[object]], seconds: float) -> None:
    """Fails the run unless nothing is left within so many simulated seconds."""
    began = world.host.clock.elapsed()
    if await world.until(lambda: not left(), seconds):
        world.journal.say(f"RIGHT {invariant} after {world.host.clock.elapsed() - began:.1f} s")
        return
    world.journal.fail(invariant, f"not within {seconds:g} s: {left()}")
    await world.host.clock.sleep(1.0)  # the run ends in this instant


def _reason(journal: Journal, failure: BaseException) -> tuple[str, str]:
    if journal.violations:
        first = journal.violations[0]
        return first.invariant, first.message
    for line in traceback.format_exception(failure):
        journal.say(line.rstrip())
    return "no crash", str(failure)


def _end(loop: VirtualTimeLoop, world: World) -> None:
    """Ends all processes and what they left on the loop; what dies now is of no interest."""

    async def kill_all() -> None:
        for running in world.running.values():
            running.process.kill()

    loop.fail = lambda error: None  # type: ignore[method-assign]
    try:
        loop.run_until_complete(kill_all())
        loop.cancel_all()
    finally:
        loop.close()
