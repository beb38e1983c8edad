"""Faults of clusters in a run, one for each verdict; and whether each of the registry's verdicts has a cause.

The registry may call a cluster down only if it is dead or takes no records, or too much of it is gone. It also may if
none of its users gets an answer and somebody was cut off, or if all its readers were cut off. It may call it slow only
when it is, and half-dead only when a broker is gone. Pauses of a fifth of a second, and a registry that is late itself,
cause nothing. A cluster that takes no records for long must be called down, even if consumers can read it.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from braid.kernel.limits.registry.health import SLOW_AFTER_SECONDS, SOLE_WITNESS_SECONDS
from testbed.checkers.checking import Instant
from testbed.checkers.facts import Acknowledged, Ailing, Fact, Folded
from tests.simulation.world import MEMBERS, PRODUCERS, SERVICES, World

BLINK_SECONDS: Final = 0.2
GASP_SECONDS: Final = 1.2  # a look fails meanwhile, and producers may complain
SLOW_SECONDS: Final = (0.12, 0.2)  # a request; a look takes three
LATELY_SECONDS: Final = 4.0  # what ended so long ago explains nothing any more
SILENT_SECONDS: Final = 1.4  # without an acknowledgement, before anybody may conclude a death: a little less than DOWN
FULL_SECONDS: Final = 5.0  # a cluster that took no records for so long is down
DEAD_SECONDS: Final = 0.6  # the least death that is seen at once: two refusals, and producers that say so


@dataclass(frozen=True, slots=True)
class Ailment:
    """One fault of a cluster."""

    kind: str
    cluster: str
    text: str
    seconds: float
    heal: Callable[[], None]


class Ailments:
    """Makes clusters ill, at random."""

    def __init__(self, world: World, dice: random.Random) -> None:
        self._world = world
        self._dice = dice
        self._fillings: Counter[str] = Counter()  # of each cluster, so many at present

    def noted(self, kind: str, cluster: str, heal: Callable[[], None]) -> Callable[[], None]:
        """Tells the checkers that something ails a cluster; returns what ends it, and tells them that too."""
        self._world.journal.note(Ailing(cluster, kind, begins=True))

        def end() -> None:
            heal()
            self._world.journal.note(Ailing(cluster, kind, begins=False))

        return end

    def blink(self, longest: float = BLINK_SECONDS) -> Ailment:
        """A cluster stops for a moment."""
        name = self._dice.choice(self._world.plan.clusters)
        cluster, seconds = self._world.kafka.named(name), self._dice.uniform(longest / 2, longest)
        resume = cluster.resume if cluster.running and not cluster.paused else lambda: None
        if cluster.running:
            cluster.pause()
        return Ailment("", name, f"blink cluster {name}", seconds, resume)

    def stall(self) -> Ailment:
        """A registry stops, too short for its leadership to end."""
        name = self._world.leader("registry") or SERVICES[0]
        process = self._world.running[name].process
        process.pause()
        seconds = self._dice.choice((BLINK_SECONDS, 0.8, 1.2, 1.7))
        return Ailment("", "", f"stall {name}", seconds, process.resume)

    def slow(self) -> Ailment:
        """A cluster takes many times longer for everything, and still answers in time."""
        name = self._dice.choice(self._world.plan.clusters)
        cluster = self._world.kafka.named(name)
        cluster.slow_seconds = self._dice.uniform(*SLOW_SECONDS)

        def heal() -> None:
            cluster.slow_seconds = 0.0

        return Ailment("slow", name, f"slow cluster {name}", self._dice.uniform(5.0, 25.0), heal)

    def broker(self) -> Ailment:
        """One of a cluster's brokers is gone."""
        name, broker = self._dice.choice(self._world.plan.clusters), self._dice.randint(1, self._world.plan.brokers)
        cluster = self._world.kafka.named(name)
        cluster.stop_broker(broker)
        text = f"stop broker {broker} of {name}"
        return Ailment("broker", name, text, self._dice.uniform(2.0, 15.0), lambda: cluster.start_broker(broker))

    def full(self) -> Ailment:
        """A cluster serves what it has, and takes no records."""
        name = self._dice.choice(self._world.plan.clusters)
        cluster = self._world.kafka.named(name)
        self._fillings[name] += 1
        cluster.full = True

        def heal() -> None:
            self._fillings[name] -= 1
            cluster.full = self._fillings[name] > 0

        return Ailment("full", name, f"fill cluster {name}", self._dice.uniform(1.0, 15.0), heal)

    def cut(self, kind: str, *names: str) -> Ailment:
        """All processes whose names begin so are cut off from a cluster."""
        cluster = self._dice.choice(self._world.plan.clusters)
        cut = [name for name in (*SERVICES, *PRODUCERS, *MEMBERS) if name.startswith(names)]
        views = [self._world.running[name].kafka for name in cut]
        for view in views:
            view.cut(cluster)

        def heal() -> None:
            for view in views:
                view.mend(cluster)

        text = f"cut {', '.join(f'{name}*' for name in names)} from {cluster}"
        return Ailment(kind, cluster, text, self._dice.uniform(3.0, 15.0), heal)

    def deny(self, *names: str) -> Ailment:
        """A cluster refuses all processes whose names begin so: somebody gave them a wrong password."""
        cluster = self._dice.choice(self._world.plan.clusters)
        refused = [name for name in (*SERVICES, *PRODUCERS, *MEMBERS) if name.startswith(names)]
        views = [self._world.running[name].kafka for name in refused]
        for view in views:
            view.deny(cluster)

        def heal() -> None:
            for view in views:
                view.allow(cluster)

        text = f"{cluster} refuses {', '.join(f'{name}*' for name in names)}"
        return Ailment("", cluster, text, self._dice.uniform(3.0, 15.0), heal)


@dataclass(slots=True)
class _Spell:
    """One ailment of one cluster, from when to when; `until` is None while it lasts."""

    kind: str
    since: float
    until: float | None = None

    def seconds(self, now: float) -> float:
        """How long it has lasted."""
        return (now if self.until is None else self.until) - self.since

    def recent(self, now: float) -> bool:
        """Whether it may still be felt."""
        return self.until is None or now - self.until <= LATELY_SECONDS


class HonestHealth(Instant):
    """Checks that every health the registry records has a cause in the world.

    It reads states as they are folded, and knows nothing of the service's rules but what they promise.
    """

    invariant = "health has its cause"
    heeds: Sequence[type] = (Folded, Ailing, Acknowledged)

    def __init__(self, now: Callable[[], float], *, one_host: bool = False) -> None:
        """`now` is the time of the run; `one_host` says that all who use clusters run on one."""
        self._now = now
        self._alone_seconds = SOLE_WITNESS_SECONDS if one_host else 0.0
        self._spells: dict[str, list[_Spell]] = {}
        self._acknowledged: dict[str, float] = {}
        self._states: dict[str, tuple[int, str]] = {}

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        if isinstance(fact, Acknowledged):
            self._acknowledged[fact.place.cluster] = self._now()
        elif isinstance(fact, Ailing):
            self._note(fact)
            yield from self._overlooked(fact)
        elif isinstance(fact, Folded) and (fact.history.service, fact.history.kind) == ("registry", "cluster"):
            yield from self._judge(fact)

    def _note(self, fact: Ailing) -> None:
        spells = self._spells.setdefault(fact.cluster, [])
        if fact.begins:
            spells.append(_Spell(fact.ailment, self._now()))
        else:
            next(each for each in spells if each.kind == fact.ailment and each.until is None).until = self._now()

    def _overlooked(self, fact: Ailing) -> Iterator[str]:
        """Faults that ended without having been noticed."""
        if fact.ailment != "full" or fact.begins:
            return
        seconds = next(each for each in reversed(self._spells[fact.cluster]) if each.kind == "full").seconds(
            self._now()
        )
        _, health = self._states.get(fact.cluster, (0, "HEALTHY"))
        if seconds >= FULL_SECONDS and health not in ("DOWN", "HALF_DEAD"):  # of several brokers others may go on
            yield f"{fact.cluster} has taken no records for {seconds:.1f} s, and is called {health}"

    def _judge(self, fact: Folded) -> Iterator[str]:
        name = fact.history.id
        sequence, before = self._states.get(name, (0, "HEALTHY"))
        if fact.sequence <= sequence:
            return
        health = str(json.loads(fact.state)["health"])
        self._states[name] = fact.sequence, health
        if health != before and not self._explained(name, health):
            now = self._now()
            spells = [f"{each.kind} for {each.seconds(now):.1f} s" for each in self._spells.get(name, ())[-4:]]
            silent = now - self._acknowledged.get(name, 0.0)
            told = ", ".join(spells) or "nothing ailed it"
            yield f"{name} is called {health}: {told}; it acknowledged something {silent:.2f} s ago"

    def _explained(self, cluster: str, health: str) -> bool:
        now = self._now()
        spells = [each for each in self._spells.get(cluster, ()) if each.recent(now)]
        match health:
            case "DOWN":
                dead = any(each.kind in ("dead", "full") and each.seconds(now) >= DEAD_SECONDS for each in spells)
                unread = any(each.kind == "member" and each.seconds(now) >= SILENT_SECONDS for each in spells)
                if dead or unread:
                    return True
                cut = any(each.kind == "producer" and each.seconds(now) >= self._alone_seconds for each in spells)
                silent = now - self._acknowledged.get(cluster, 0.0) >= SILENT_SECONDS
                return silent and (cut or any(each.kind in ("registry", "broker") for each in spells))
            case "SLOW":
                return any(each.kind == "slow" and each.seconds(now) >= SLOW_AFTER_SECONDS - 1 for each in spells)
            case "HALF_DEAD":
                return any(each.kind in ("broker", "full") for each in spells)
            case _:
                return True
