"""The faults of a run: a seeded schedule of what befalls which process, cluster or link, and its healing.

Faults overlap; everything is healed at the end. What a fault does is in its method, how often it comes in the plan.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from braid.kernel.limits.store import SESSION_TTL_SECONDS
from braid.stores.memory import Fate
from testbed.checkers import facts
from tests.simulation.absence import kill_members, members_leave, move_and_reset, move_elsewhere, start_members
from tests.simulation.ailments import GASP_SECONDS, Ailment, Ailments
from tests.simulation.emptying import ClusterOperator
from tests.simulation.losing import Losing
from tests.simulation.observed import ObservedCluster
from tests.simulation.operations import Operation, Operator, carry_out
from tests.simulation.remembering import ArchiveBreaker
from tests.simulation.restored import StoreOperator
from tests.simulation.scripted import ScriptedDice, Step
from tests.simulation.splitting import splitting
from tests.simulation.world import DLQS, MEMBERS, PRODUCERS, SERVICES, Slowness, World

_PAUSES: Final = (0.5, 1.0, 3.0)  # of a session or lease
_HOUR_MS: Final = 3_600_000
_WEEK_AND_A_DAY_MS: Final = 8 * 24 * _HOUR_MS
_LATENCY: Final = (0.0002, 0.001)
APART_SECONDS: Final = 6.0  # everybody has written everywhere again by then


class Faults:
    """The schedule of faults of one run."""

    def __init__(self, world: World, seed: str) -> None:
        self._world = world
        self._dice = dice = ScriptedDice(seed)
        self._lasts_seconds = 0.0  # as the step of a script says
        self._healing: dict[int, Callable[[], None]] = {}
        self._count = 0
        self._deaths = 0
        self._operator = Operator(world, dice)
        self._cluster_operator = ClusterOperator(world, dice)
        self._ailments = Ailments(world, dice)
        self._losing = Losing(world, dice)
        self._store_operator = StoreOperator(world)
        self._archive_breaker = ArchiveBreaker(world, dice)
        self._shortened_at = -APART_SECONDS
        self._services = (*SERVICES, *DLQS) if world.plan.replays else SERVICES

    async def run(self) -> None:
        """Makes faults for as long as the plan says, then heals everything."""
        world, plan = self._world, self._world.plan
        ends = world.host.clock.elapsed() + plan.fault_seconds
        await world.host.clock.sleep(2.0)
        await self._play(plan.script)
        if plan.script or not plan.faults:
            await world.host.clock.sleep(ends - world.host.clock.elapsed())
        while world.host.clock.elapsed() < ends:
            self._happen(self._dice.choice(plan.faults))
            await world.host.clock.sleep(self._dice.uniform(0.0, 2 * plan.fault_interval_seconds))
        while self._healing:  # some heal into another fault
            self._heal(next(iter(self._healing)))

    # --- the schedule

    async def _play(self, script: Sequence[Step]) -> None:
        clock = self._world.host.clock
        began = clock.elapsed()
        for step in script:
            await clock.sleep(began + step.at_seconds - clock.elapsed())
            self._lasts_seconds, self._dice.target = step.lasts_seconds, step.target
            self._happen(step.kind)
            self._lasts_seconds, self._dice.target = 0.0, ""

    def _happen(self, kind: str) -> None:
        getattr(self, "_" + kind.replace("-", "_"))()

    def _begin(self, text: str, seconds: float, heal: Callable[[], None]) -> None:
        self._count += 1
        number, seconds = self._count, self._lasts_seconds or seconds
        self._world.journal.say(f"FAULT {number} {text} for {seconds:.3f} s")
        if not self._healing:
            self._world.journal.note(facts.Troubled(True))
        self._healing[number] = heal
        self._world.host.tasks.spawn(self._heal_later(number, seconds), f"fault-{number}")

    async def _heal_later(self, number: int, seconds: float) -> None:
        await self._world.host.clock.sleep(seconds)
        self._heal(number)

    def _heal(self, number: int) -> None:
        heal = self._healing.pop(number, None)
        if heal is not None:
            self._world.journal.say(f"HEAL {number}")
            heal()
            if not self._healing:
                self._world.journal.note(facts.Troubled(False))

    def _one(self, names: Sequence[str]) -> str:
        """One of the processes, preferably a leading one where there are such."""
        leaders = [self._world.leader(service) for service in ("registry", "assigner", "dlq")]
        leading = [name for name in names if name in leaders]
        return self._dice.choice(leading if leading and self._dice.random() < 0.6 else list(names))

    # --- processes

    def _kill(self, names: Sequence[str]) -> None:
        name = self._one(names)
        self._world.kill(name)
        self._begin(f"kill {name}", self._dice.uniform(0.05, 6.0), lambda: self._world.start_process(name))

    def _kill_service(self) -> None:
        self._kill(SERVICES)

    def _kill_dlq(self) -> None:
        self._kill(DLQS)

    def _kill_member(self) -> None:
        self._kill(MEMBERS)

    def _kill_producer(self) -> None:
        self._kill(PRODUCERS)

    def _pause(self, names: Sequence[str], unit_seconds: float) -> None:
        name = self._one(names)
        process = self._world.running[name].process
        if process.alive:
            process.pause()
            self._world.journal.note(facts.Paused(process.name))
            self._begin(f"pause {name}", unit_seconds * self._dice.choice(_PAUSES), process.resume)

    def _pause_service(self) -> None:
        self._pause(SERVICES, SESSION_TTL_SECONDS)

    def _pause_dlq(self) -> None:
        self._pause(DLQS, SESSION_TTL_SECONDS)

    def _pause_member(self) -> None:
        self._pause(MEMBERS, self._world.plan.lease_seconds)

    def _pause_producer(self) -> None:
        self._pause(PRODUCERS, SESSION_TTL_SECONDS)

    def _leave_group(self) -> None:
        name = self._dice.choice(MEMBERS)
        running = self._world.running[name]
        if running.process.alive and running.member is not None and not running.member.leaving:
            running.process.tasks.spawn(running.member.leave(), "leave")

            def restart() -> None:
                running.process.kill()
                self._world.journal.note(facts.Killed(running.process.name))
                self._world.start_process(name)

            self._begin(f"{name} leaves", self._dice.uniform(2.0, 12.0), restart)

    def _skew_clock(self) -> None:
        name = self._dice.choice((*SERVICES, *MEMBERS, *PRODUCERS))
        clock = self._world.running[name].process.clock
        clock.skew_ms += int(self._dice.uniform(-60_000, 60_000))
        self._world.journal.say(f"FAULT clock of {name} is {clock.skew_ms} ms off")

    def _step_clock(self) -> None:
        """A service's wall clock steps by an hour or by more than a week; it stays there."""
        name = self._one(SERVICES)
        clock = self._world.running[name].process.clock
        clock.skew_ms += self._dice.choice((-_WEEK_AND_A_DAY_MS, -_HOUR_MS, _HOUR_MS, _WEEK_AND_A_DAY_MS))
        self._world.journal.say(f"FAULT clock of {name} is {clock.skew_ms} ms off")

    def _sink_away(self) -> None:
        """Makes the handlers' storage fail for a while; records are not to blame then."""
        journal = self._world.journal
        if journal.away:
            return

        def back() -> None:
            journal.away = False

        journal.away = True
        self._begin("the sink is away", self._dice.uniform(0.5, 12.0), back)

    def _members_away(self) -> None:
        """Nobody consumes for a while, and meanwhile the stream moves."""
        kill_members(self._world)
        moving = move_elsewhere(self._world, self._dice, self._dice.uniform(1.0, 4.0))
        self._world.host.tasks.spawn(moving, "move")
        self._begin("no member is there", self._dice.uniform(8.0, 20.0), lambda: start_members(self._world))

    def _members_leave(self) -> None:
        """Makes all members leave for a while, as when an application is taken down."""
        members_leave(self._world)
        self._begin("all members leave", self._dice.uniform(8.0, 20.0), lambda: start_members(self._world))

    # --- operators

    def _reset_progress(self) -> None:
        """The stream moves, its group leaves for a while, and meanwhile its progress is reset."""
        self._world.host.tasks.spawn(move_and_reset(self._world, self._dice, self._members_leave), "reset")

    def _operate(self) -> None:
        """A rule of the group, taken back when it is healed."""
        operation, over = self._operator.next(), asyncio.Event()
        self._world.host.tasks.spawn(carry_out(self._world, self._world.assigner, operation, over), "operate")
        self._begin(operation.text, self._dice.uniform(3.0, 15.0), over.set)

    def _split_lease(self) -> None:
        """Somebody wants a lane's leases worked on at their head and behind it; that ends by itself."""
        operation, over = splitting(self._dice), asyncio.Event()
        self._world.host.tasks.spawn(carry_out(self._world, self._world.assigner, operation, over), "split")
        over.set()
        self._world.journal.say(f"FAULT {operation.text}")

    def _empty_cluster(self) -> None:
        """A cluster is decommissioned, taken back when it is healed."""
        self._ask(self._cluster_operator.emptying())

    def _evacuate_cluster(self) -> None:
        """The same, and what is drained is kept."""
        self._ask(self._cluster_operator.emptying(discards=False))

    def _share_stream(self) -> None:
        self._ask(self._cluster_operator.sharing())

    def _resize_lane(self) -> None:
        self._ask(self._cluster_operator.resizing())

    def _ask(self, order: Operation) -> None:
        over = asyncio.Event()
        self._world.host.tasks.spawn(carry_out(self._world, self._world.registry, order, over), "cluster operator")
        self._begin(order.text, self._dice.uniform(3.0, 25.0), over.set)

    # --- links

    def _cut(self, one: str, other: str, *, longest: float) -> None:
        network, one_way = self._world.network, self._dice.random() < 0.4
        network.cut(one, other, one_way=one_way)
        text = f"cut {one} {'>' if one_way else '<>'} {other}"
        self._begin(text, self._dice.uniform(0.2, longest), lambda: network.heal(one, other))

    def _cut_services(self) -> None:
        one = self._dice.choice(SERVICES)
        other = self._dice.choice([name for name in SERVICES if name != one])
        self._cut(one, other, longest=20.0)

    def _cut_member(self) -> None:
        ends = [self._one(SERVICES), self._dice.choice(MEMBERS)]
        self._dice.shuffle(ends)
        self._cut(*ends, longest=20.0)

    def _cut_producer(self) -> None:
        ends = [self._one(SERVICES), self._dice.choice(PRODUCERS)]
        self._dice.shuffle(ends)
        self._cut(*ends, longest=20.0)

    def _slow_link(self) -> None:
        one, other = self._one(SERVICES), self._dice.choice((*SERVICES, *MEMBERS, *PRODUCERS))
        low = self._dice.uniform(0.01, 0.5)
        network = self._world.network
        network.set_latency(one, other, low, low * 2)
        text = f"slow link {one} {other} {low:.3f}"
        self._begin(text, self._dice.uniform(1.0, 15.0), lambda: network.set_latency(one, other, *_LATENCY))

    def _fade_member(self) -> None:
        """A member's link to the leading assigner becomes slow, then loses what the member says."""
        network, member = self._world.network, self._dice.choice(MEMBERS)
        assigner = self._world.leader("assigner") or SERVICES[-1]
        low = self._world.plan.lease_seconds * self._dice.uniform(0.1, 0.4)
        network.set_latency(assigner, member, low, low * 1.2)

        def cut() -> None:
            network.cut(member, assigner, one_way=True)
            self._begin(f"cut {member} > {assigner}", 3 * self._world.plan.lease_seconds, heal)

        def heal() -> None:
            network.set_latency(assigner, member, *_LATENCY)
            network.heal(member, assigner)

        self._begin(f"fade {member} {low:.3f}", self._dice.uniform(1.0, 4.0), cut)

    def _cut_cluster(self) -> None:
        name = self._dice.choice((*SERVICES, *MEMBERS, *PRODUCERS))
        kafka, cluster = self._world.running[name].kafka, self._dice.choice(self._world.plan.clusters)
        kafka.cut(cluster)
        self._begin(f"cut {name} from {cluster}", self._dice.uniform(0.2, 10.0), lambda: kafka.mend(cluster))

    # --- the store

    def _cut_store(self) -> None:
        name = self._one(self._services)
        store = self._world.running[name].store
        assert store is not None, "services have stores"
        store.disconnect()
        self._begin(f"cut {name} from the store", self._dice.uniform(0.2, 8.0), store.reconnect)

    def _slow_store(self) -> None:
        self._slow_down("slow store", lambda operation: True, self._dice.uniform(0.02, 0.8))

    def _slow_appends(self) -> None:
        self._slow_down("slow appends", lambda operation: operation == "append", self._dice.uniform(0.2, 4.0))

    def _late_append(self) -> None:
        """A leader dies while what it appends is under way, and that arrives after its successor leads."""
        service = self._dice.choice(("registry", "assigner"))
        leader = self._world.leader(service)
        if not leader:
            return
        slow = SESSION_TTL_SECONDS * self._dice.uniform(1.1, 2.0)
        self._world.running[leader].slow.append(Slowness(lambda operation: operation == "append", slow))
        if service == "registry":
            self._move_stream()
        else:
            self._kill(MEMBERS)

        def kill() -> None:
            self._world.kill(leader)
            self._begin(f"kill {leader}", 2 * slow, lambda: self._world.start_process(leader))

        self._begin(f"late append of {leader} {slow:.3f}", self._dice.uniform(0.1, 1.0), kill)

    def _slow_down(self, text: str, concerned: Callable[[str], bool], slow: float) -> None:
        running = self._world.running[name := self._one(self._services)]
        slowness = Slowness(concerned, slow)
        running.slow.append(slowness)
        seconds = self._dice.uniform(1.0, 10.0)
        self._begin(f"{text} of {name} {slow:.3f}", seconds, lambda: running.slow.remove(slowness))

    def _lose_answers(self) -> None:
        name = self._one(self._services)
        store = self._world.running[name].store
        assert store is not None, "services have stores"
        chance, randomness = self._dice.uniform(0.1, 0.7), self._world.host.randomness

        def fate(operation: str) -> Fate:
            if operation != "append" or randomness.uniform(0.0, 1.0) > chance:
                return Fate.ANSWERED
            return Fate.ANSWER_LOST if randomness.uniform(0.0, 1.0) < 0.7 else Fate.REQUEST_LOST

        def heal() -> None:
            store.fate = lambda _: Fate.ANSWERED

        store.fate = fate
        self._begin(f"lose answers to {name} {chance:.2f}", self._dice.uniform(0.5, 6.0), heal)

    def _compact_store(self) -> None:
        self._world.journal.say("FAULT the store is compacted")
        self._world.server.compact()

    def _restore_store(self) -> None:
        """The store is backed up, and restored after a while: see `restored`."""
        operator = self._store_operator

        def stop() -> None:
            operator.stop_services()
            self._begin("services are stopped for a restore", self._dice.uniform(0.5, 10.0), operator.restore)

        if operator.back_up():
            self._begin("a backup is taken", self._dice.uniform(4.0, 16.0), stop)

    # --- archives

    def _fill_archive(self) -> None:
        """A replica's archive takes nothing, as on a full disk."""
        self._hinder_archive("full")

    def _cut_archive(self) -> None:
        """A replica's archive does not answer."""
        self._hinder_archive("away")

    def _hinder_archive(self, how: str) -> None:
        name, archive = self._archive_breaker.victim()
        setattr(archive, how, True)
        self._begin(
            f"the archive of {name} is {how}", self._dice.uniform(1.0, 15.0), lambda: setattr(archive, how, False)
        )

    def _lose_archive(self) -> None:
        self._world.journal.say(f"FAULT {self._archive_breaker.lose()}")

    def _alter_archive(self) -> None:
        self._world.journal.say(f"FAULT {self._archive_breaker.alter()}")

    # --- clusters

    def _kill_cluster(self) -> None:
        name = self._dice.choice(self._world.plan.clusters)
        cluster = self._world.kafka.named(name)
        if cluster.running and self._deaths < self._world.plan.cluster_deaths_max:
            self._deaths += 1
            cluster.kill()
            self._ail("dead", name, f"kill cluster {name}", self._dice.uniform(1.0, 25.0), cluster.start)

    def _lose_cluster(self) -> None:
        """A cluster dies, and returns without some of what it had acknowledged."""
        self._lose(self._losing.loss, 6.0, 25.0)

    def _shorten_logs(self) -> None:
        """The same so soon that nobody has left it, and its logs are written on.

        Not twice in a row: who wrote nothing in between but what the second took cannot tell that it is gone.
        """
        now = self._world.host.clock.elapsed()
        if now < self._shortened_at + APART_SECONDS:
            return
        self._shortened_at = now
        self._lose(self._losing.tails, 0.3, 1.2)

    def _lose(
        self, drawn: Callable[[ObservedCluster], tuple[str, Callable[[], None]]], least: float, most: float
    ) -> None:
        cluster = self._losing.victim()
        if cluster is not None and self._deaths < self._world.plan.cluster_deaths_max:
            self._deaths += 1
            cluster.kill()
            text, lose = drawn(cluster)

            def heal() -> None:
                lose()
                cluster.start()

            self._ail(
                "dead", cluster.name, f"kill cluster {cluster.name}; {text}", self._dice.uniform(least, most), heal
            )

    def _reassign_replicas(self) -> None:
        """An operator drops replicas, or elects preferred leaders: epochs grow, and nothing is lost."""
        cluster = self._losing.victim()
        if cluster is not None:
            self._world.journal.say(f"FAULT {self._losing.reassign(cluster)}")

    def _pause_cluster(self) -> None:
        name = self._dice.choice(self._world.plan.clusters)
        cluster = self._world.kafka.named(name)
        if cluster.running and not cluster.paused and self._deaths < self._world.plan.cluster_deaths_max:
            self._deaths += 1
            cluster.pause()
            self._ail("dead", name, f"pause cluster {name}", self._dice.uniform(0.3, 8.0), cluster.resume)

    def _ail(self, ailment: str, cluster: str, text: str, seconds: float, heal: Callable[[], None]) -> None:
        """A fault that a cluster's health may show."""
        self._begin(text, seconds, self._ailments.noted(ailment, cluster, heal))

    def _blink_cluster(self) -> None:
        """A pause as collectors of garbage make them: nothing may follow from it."""
        blink = self._ailments.blink()
        self._begin(blink.text, blink.seconds, blink.heal)

    def _gasp_cluster(self) -> None:
        """A longer one, which makes a suspect."""
        gasp = self._ailments.blink(GASP_SECONDS)
        self._begin(gasp.text, gasp.seconds, gasp.heal)

    def _stall_registry(self) -> None:
        """The leading registry is late, and no cluster is to blame."""
        stall = self._ailments.stall()
        self._begin(stall.text, stall.seconds, stall.heal)

    def _slow_cluster(self) -> None:
        self._ail_as(self._ailments.slow())

    def _stop_broker(self) -> None:
        self._ail_as(self._ailments.broker())

    def _cut_registries(self) -> None:
        self._ail_as(self._ailments.cut("registry", "registry"))

    def _cut_producers(self) -> None:
        self._ail_as(self._ailments.cut("producer", "producer"))

    def _cut_members(self) -> None:
        self._ail_as(self._ailments.cut("member", "member"))

    def _cut_applications(self) -> None:
        self._ail_as(self._ailments.cut("producer", "producer", "member"))

    def _deny_voices(self) -> None:
        self._ail_as(self._ailments.deny(PRODUCERS[0]))

    def _deny_applications(self) -> None:
        self._ail_as(self._ailments.deny("producer", "member"))

    def _deny_registries(self) -> None:
        self._ail_as(self._ailments.deny("registry"))

    def _fill_cluster(self) -> None:
        self._ail_as(self._ailments.full())

    def _cut_voices(self) -> None:
        self._ail_as(self._ailments.cut("producer", PRODUCERS[0]))

    def _ail_as(self, ailment: Ailment) -> None:
        self._ail(ailment.kind, ailment.cluster, ailment.text, ailment.seconds, ailment.heal)

    def _move_stream(self) -> None:
        cluster = self._dice.choice(self._world.plan.clusters)
        self._world.journal.say(f"FAULT planned move to {cluster}")
        self._world.host.tasks.spawn(self._world.move(cluster), "move")
