"""One drill from beginning to end: creates its stream, sends load, simulates the failure, judges, and always cleans
up."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from braid.drill.arguments import ProcessSpec
from braid.drill.control import Control, drained, misplaced, untrusted
from braid.drill.evidence import Evidence
from braid.drill.journal import Follower
from braid.drill.orders import Refuse
from braid.drill.plan import DrillKind, Plan
from braid.drill.processes import DrillProcess
from braid.drill.verdict import DrillInstants, DrillVerdict
from braid.host.tls.paths import Tls
from braid.kernel.errors import BraidError, DeadlineExceeded, FailoverBlocked, Unavailable
from braid.kernel.limits.registry.drill import (
    DRILL_ASK_SECONDS,
    DRILL_CLEAN_SECONDS,
    DRILL_DRAIN_SECONDS,
    DRILL_LEASES_SECONDS,
    DRILL_LOOK_SECONDS,
    DRILL_READY_SECONDS,
    DRILL_SETTLE_SECONDS,
    DRILL_TAKE_OVER_SECONDS,
)


class Rehearsal:
    """Runs one drill as it was planned.

    Args:
        control: Access to the mesh.
        plan: The planned drill.
        endpoint: The mesh's endpoint, for the drill's processes.
        directory: For the ledger, the sinks and logs; it outlives the drill.
        say: Receives progress messages.
        tls: The files of mutual TLS, for the drill's processes.
    """

    def __init__(
        self,
        control: Control,
        plan: Plan,
        endpoint: str,
        directory: Path,
        say: Callable[[str], None],
        tls: Tls | None = None,
    ) -> None:
        self._control = control
        self._plan = plan
        self._endpoint = endpoint
        self._tls = tls
        self._directory = directory
        self._say = say
        self._evidence = Evidence()
        self._measured = DrillInstants()
        self._producer: DrillProcess | None = None
        self._members: list[DrillProcess] = []
        self._files: dict[str, Follower] = {}
        self._left_behind = ""

    @property
    def left_behind(self) -> str:
        """Why the drill's stream or group could not be removed; ''."""
        return self._left_behind

    async def play(self) -> DrillVerdict:
        """Runs the drill and removes what it created, even if interrupted.

        Raises:
            BraidError: the drill could not begin.
        """
        verdict = DrillVerdict(self._plan, self._measured, self._evidence)
        passed, told = False, "it was interrupted"
        try:
            await self._prepare()
            try:
                await self._act()
            except BraidError as error:
                self._measured.failure = str(error)
            passed, told = verdict.passed, verdict.summary()
        except BraidError as error:
            told = f"it could not begin: {error}"
            raise
        finally:
            await _to_its_end(self._clean(passed, told))
        return verdict

    # --- before

    async def _prepare(self) -> None:
        plan = self._plan
        self._say(f"making stream {plan.name} on {plan.cluster}, like stream {plan.order.stream}")
        await self._ask_until(self._untrusted, DRILL_READY_SECONDS, "the drill cannot begin")
        await self._ask_until(self._uncreated, DRILL_READY_SECONDS, f"stream {plan.name} cannot be made")
        await self._ask_until(self._misplaced, DRILL_READY_SECONDS, f"stream {plan.name} is not like the one named")
        for number in range(plan.members):
            await self._start_member(f"{plan.name}-member-{number}")
        spec = self._spec(f"{plan.name}-producer", plan.lanes, plan.order.rate_per_s)
        self._producer = await DrillProcess.start("braid.drill.producer", spec, self._tls)
        await self._until(self._warm, DRILL_READY_SECONDS, "records flow")

    async def _untrusted(self) -> str:
        return untrusted(self._plan, await self._control.clusters())

    async def _uncreated(self) -> str:
        """Creates the stream; returns why the registry could not. A cluster may be suspected since it was asked."""
        try:
            await self._control.create(self._plan)
        except (FailoverBlocked, Unavailable) as error:
            return error.message
        return ""

    async def _misplaced(self) -> str:
        return misplaced(self._plan, await self._control.channels(self._plan.name))

    async def _start_member(self, name: str) -> None:
        self._members.append(await DrillProcess.start("braid.drill.member", self._spec(name), self._tls))

    def _spec(self, name: str, lanes: Sequence[str] = (), rate_per_s: int = 0) -> ProcessSpec:
        file = self._directory / f"{name}.lines"
        self._files[name] = Follower(file)
        return ProcessSpec(name, self._endpoint, self._plan.name, file, lanes, rate_per_s)

    def _warm(self) -> bool:
        """Whether records flow in every lane, and every member has leases."""
        lanes = {each.lane for each in self._evidence.acknowledged.values()}
        members = {each.member for each in self._evidence.handled}
        return lanes >= {*self._plan.lanes} and len(members) == len(self._members)

    # --- the drill

    async def _act(self) -> None:
        plan, measured, third = self._plan, self._measured, self._plan.order.seconds / 3
        measured.began_ns = time.monotonic_ns()
        draining = asyncio.ensure_future(self._watch_drain())
        try:
            await self._work_until(measured.began_ns + third * 1e9)
            await self._break()
            assert measured.broken_ns is not None, "it is broken"
            seconds = plan.leave_seconds if plan.leaves else DRILL_TAKE_OVER_SECONDS
            await self._look_until(self._recovered, seconds)
            await self._work_until(measured.broken_ns + third * 1e9)
            await self._heal()
            await self._work_until(measured.began_ns + 3 * third * 1e9)
            await self._settle()
        finally:
            draining.cancel()
            await asyncio.wait([draining])

    async def _break(self) -> None:
        plan, measured = self._plan, self._measured
        match plan.order.kind:
            case DrillKind.MOVE:
                self._say(f"moving stream {plan.name} off {plan.cluster}")
                measured.broken_ns = measured.healed_ns = time.monotonic_ns()
                await self._control.move(plan)
            case DrillKind.CLUSTER_LOSS | DrillKind.BROKER_LOSS:
                order = await self._refusal()
                self._say(f"refusing connections to {', '.join(sorted(order.addresses))}")
                measured.broken_ns = time.monotonic_ns()
                await self._order(order)
            case DrillKind.MEMBER_LOSS:
                await self._kill_a_member()

    async def _refusal(self) -> Refuse:
        plan = self._plan
        cluster = next(each for each in await self._control.clusters() if each.name == plan.cluster)
        brokers = await self._control.brokers(cluster)
        if plan.order.kind is DrillKind.BROKER_LOSS:
            if plan.order.broker not in brokers:
                raise Unavailable(f"broker {plan.order.broker} of cluster {plan.cluster} is away already")
            address = brokers[plan.order.broker]
            return Refuse([address], plan.cluster, address)
        bootstrap = [each.strip() for each in cluster.spec.bootstrap.split(",")]
        return Refuse({*brokers.values(), *bootstrap}, plan.cluster)

    async def _kill_a_member(self) -> None:
        """Kills the member that works on most leases."""
        measured, now_ns = self._measured, time.monotonic_ns()
        since_ns = now_ns - round(DRILL_LEASES_SECONDS * 1e9)
        leases = {each.spec.name: self._evidence.leases_of(each.spec.name, since_ns) for each in self._members}
        victim = max(self._members, key=lambda each: len(leases[each.spec.name]))
        self._say(f"killing {victim.spec.name}, which works on {len(leases[victim.spec.name])} partitions")
        measured.victim, measured.leases = victim.spec.name, leases[victim.spec.name]
        measured.broken_ns = measured.healed_ns = time.monotonic_ns()
        await victim.kill()

    async def _heal(self) -> None:
        if self._plan.loses_cluster:
            self._say(f"connections to {self._plan.cluster} are admitted again")
            self._measured.healed_ns = time.monotonic_ns()
            await self._order(Refuse(()))

    @property
    def _processes(self) -> Sequence[DrillProcess]:
        return [*self._members, *([self._producer] if self._producer else [])]

    async def _order(self, order: Refuse) -> None:
        await asyncio.gather(*(each.order(order) for each in self._processes))

    def _recovered(self) -> bool:
        verdict = DrillVerdict(self._plan, self._measured, self._evidence)
        return (verdict.first_ack_elsewhere_ms if self._plan.leaves else verdict.takeover_ms) is not None

    async def _settle(self) -> None:
        """Ends the load, and waits until all acknowledged records are handled and all old channels drained."""
        self._say("the load ends; what was acknowledged is handled")
        assert self._producer is not None, "it was started"
        self._measured.ended_ns = time.monotonic_ns()
        await self._producer.end()
        await self._look_until(lambda: not self._evidence.lost, DRILL_SETTLE_SECONDS)
        if self._plan.leaves and self._recovered():
            await self._look_until(lambda: self._measured.drained_ns is not None, DRILL_DRAIN_SECONDS)

    async def _watch_drain(self) -> None:
        while self._measured.drained_ns is None:
            await asyncio.sleep(DRILL_ASK_SECONDS)
            if self._measured.healed_ns is None or not self._plan.leaves:
                continue
            try:
                done = drained(self._plan, await self._control.channels(self._plan.name))
            except BraidError:
                continue  # asked again
            if done:
                self._measured.drained_ns = time.monotonic_ns()

    # --- after

    async def _clean(self, passed: bool, told: str) -> None:
        """Ends the processes, then removes the group and the stream; retries while members are leaving."""
        await self._order(Refuse(()))  # members that reach their cluster leave in order
        await asyncio.gather(*(each.end() for each in self._processes))
        deadline = time.monotonic() + DRILL_CLEAN_SECONDS
        while True:
            try:
                await self._control.remove(self._plan.name, passed, told)
            except BraidError as error:
                self._left_behind = str(error)
            else:
                self._left_behind = ""
                return
            if time.monotonic() > deadline:
                return
            await asyncio.sleep(DRILL_ASK_SECONDS)

    # --- waiting

    def _look(self) -> None:
        for name, file in self._files.items():
            if name.endswith("-producer"):
                self._evidence.take_ledger(file.lines())
            else:
                self._evidence.take_sink(name, file.lines())

    async def _look_until(self, done: Callable[[], bool], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while True:
            self._look()
            if done():
                return True
            if time.monotonic() >= deadline:
                return False
            await asyncio.sleep(DRILL_LOOK_SECONDS)

    async def _until(self, done: Callable[[], bool], seconds: float, what: str) -> None:
        if not await self._look_until(done, seconds):
            remedy = f"look into {self._directory}"
            raise DeadlineExceeded(f"after {seconds:g} s it is not so that {what}", remedy=remedy)

    async def _work_until(self, moment_ns: float) -> None:
        await self._look_until(lambda: time.monotonic_ns() >= moment_ns, self._plan.order.seconds)

    async def _ask_until(self, wrong: Callable[[], Awaitable[str]], seconds: float, otherwise: str) -> None:
        deadline = time.monotonic() + seconds
        while why := await wrong():
            if time.monotonic() >= deadline:
                raise DeadlineExceeded(f"{otherwise}: {why}", remedy="see what is wrong: braid doctor")
            await asyncio.sleep(DRILL_ASK_SECONDS)


async def _to_its_end(work: Awaitable[None]) -> None:
    """Finishes some work even if this task is cancelled meanwhile; then raises the cancellation."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.cancelled():
                raise
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled
