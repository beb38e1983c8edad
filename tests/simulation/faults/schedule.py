"""The schedule of a run's faults: which come when, by a seed or a script, and their healing.

Faults overlap; everything is healed at the end. Each kind is a method of a class beside this module; how often it comes
is in the plan.
"""

from collections.abc import Callable, Sequence

from testbed.checkers import facts
from tests.simulation.scripted import ScriptedDice, Step
from tests.simulation.world import World


class Schedule:
    """The schedule of faults of one run.

    Attributes:
        world: What the faults befall.
        dice: What the seed draws by; a script can load them.
    """

    def __init__(self, world: World, seed: str) -> None:
        self.world = world
        self.dice = ScriptedDice(seed)
        self._kinds: Sequence[object] = ()
        self._lasts_seconds = 0.0  # as the step of a script says
        self._healing: dict[int, Callable[[], None]] = {}
        self._count = 0

    def add(self, *kinds: object) -> None:
        """Adds objects whose methods are kinds of faults."""
        self._kinds = (*self._kinds, *kinds)

    async def run(self) -> None:
        """Makes faults for as long as the plan says, then heals everything."""
        world, plan = self.world, self.world.plan
        ends = world.host.clock.elapsed() + plan.fault_seconds
        await world.host.clock.sleep(2.0)
        await self._play(plan.script)
        if plan.script or not plan.faults:
            await world.host.clock.sleep(ends - world.host.clock.elapsed())
        while world.host.clock.elapsed() < ends:
            self.happen(self.dice.choice(plan.faults))
            await world.host.clock.sleep(self.dice.uniform(0.0, 2 * plan.fault_interval_seconds))
        while self._healing:  # some heal into another fault
            self._heal(next(iter(self._healing)))

    # --- the schedule

    async def _play(self, script: Sequence[Step]) -> None:
        clock = self.world.host.clock
        began = clock.elapsed()
        for step in script:
            await clock.sleep(began + step.at_seconds - clock.elapsed())
            self._lasts_seconds, self.dice.target = step.lasts_seconds, step.target
            self.happen(step.kind)
            self._lasts_seconds, self.dice.target = 0.0, ""

    def happen(self, kind: str) -> None:
        """Makes a fault of a kind, as `plan.FAULTS_ALL` names it. It is counted if the journal tells of it."""
        name, journal = kind.replace("-", "_"), self.world.journal
        (found,) = (each for each in self._kinds if hasattr(each, name))
        before = journal.length
        getattr(found, name)()
        if journal.length > before:
            journal.faults[kind] = journal.faults.get(kind, 0) + 1

    def begin(self, text: str, seconds: float, heal: Callable[[], None]) -> None:
        """Notes a fault that was made, and heals it after so many seconds, or those of the script's step."""
        self._count += 1
        number, seconds = self._count, self._lasts_seconds or seconds
        self.world.journal.say(f"FAULT {number} {text} for {seconds:.3f} s")
        if not self._healing:
            self.world.journal.note(facts.Troubled(True))
        self._healing[number] = heal
        self.world.host.tasks.spawn(self._heal_later(number, seconds), f"fault-{number}")

    async def _heal_later(self, number: int, seconds: float) -> None:
        await self.world.host.clock.sleep(seconds)
        self._heal(number)

    def _heal(self, number: int) -> None:
        heal = self._healing.pop(number, None)
        if heal is not None:
            self.world.journal.say(f"HEAL {number}")
            heal()
            if not self._healing:
                self.world.journal.note(facts.Troubled(False))

    def one(self, names: Sequence[str]) -> str:
        """One of the processes, preferably a leading one where there are such."""
        leaders = [self.world.leader(service) for service in ("registry", "assigner", "dlq")]
        leading = [name for name in names if name in leaders]
        return self.dice.choice(leading if leading and self.dice.random() < 0.6 else list(names))
