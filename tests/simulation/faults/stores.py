"""Faults of the event store and of replicas' archives."""

from collections.abc import Callable

from braid.kernel.limits.store import SESSION_TTL_SECONDS
from braid.stores.memory import Fate
from tests.simulation.faults.schedule import Schedule
from tests.simulation.remembering import ArchiveBreaker
from tests.simulation.restored import StoreOperator
from tests.simulation.world import DLQS, SERVICES, Slowness


class StoreFaults:
    """Faults of the store and archives; each method is a kind of fault."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule, self._world, self._dice = schedule, schedule.world, schedule.dice
        self._services = (*SERVICES, *DLQS) if self._world.plan.replays else SERVICES
        self._store_operator = StoreOperator(self._world)
        self._archive_breaker = ArchiveBreaker(self._world, self._dice)

    def cut_store(self) -> None:
        name = self._schedule.one(self._services)
        store = self._world.running[name].store
        assert store is not None, "services have stores"
        store.disconnect()
        self._schedule.begin(f"cut {name} from the store", self._dice.uniform(0.2, 8.0), store.reconnect)

    def slow_store(self) -> None:
        self._slow_down("slow store", lambda operation: True, self._dice.uniform(0.02, 0.8))

    def slow_appends(self) -> None:
        self._slow_down("slow appends", lambda operation: operation == "append", self._dice.uniform(0.2, 4.0))

    def late_append(self) -> None:
        """A leader dies while what it appends is under way, and that arrives after its successor leads."""
        service = self._dice.choice(("registry", "assigner"))
        leader = self._world.leader(service)
        if not leader:
            return
        slow = SESSION_TTL_SECONDS * self._dice.uniform(1.1, 2.0)
        self._world.running[leader].slow.append(Slowness(lambda operation: operation == "append", slow))
        if service == "registry":
            self._schedule.happen("move-stream")
        else:
            self._schedule.happen("kill-member")

        def kill() -> None:
            self._world.kill(leader)
            self._schedule.begin(f"kill {leader}", 2 * slow, lambda: self._world.start_process(leader))

        self._schedule.begin(f"late append of {leader} {slow:.3f}", self._dice.uniform(0.1, 1.0), kill)

    def _slow_down(self, text: str, concerned: Callable[[str], bool], slow: float) -> None:
        running = self._world.running[name := self._schedule.one(self._services)]
        slowness = Slowness(concerned, slow)
        running.slow.append(slowness)
        seconds = self._dice.uniform(1.0, 10.0)
        self._schedule.begin(f"{text} of {name} {slow:.3f}", seconds, lambda: running.slow.remove(slowness))

    def lose_answers(self) -> None:
        name = self._schedule.one(self._services)
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
        self._schedule.begin(f"lose answers to {name} {chance:.2f}", self._dice.uniform(0.5, 6.0), heal)

    def compact_store(self) -> None:
        self._world.journal.say("FAULT the store is compacted")
        self._world.server.compact()

    def restore_store(self) -> None:
        """The store is backed up, and restored after a while: see `restored`."""
        operator = self._store_operator

        def stop() -> None:
            operator.stop_services()
            self._schedule.begin("services are stopped for a restore", self._dice.uniform(0.5, 10.0), operator.restore)

        if operator.back_up():
            self._schedule.begin("a backup is taken", self._dice.uniform(4.0, 16.0), stop)

    # --- archives

    def fill_archive(self) -> None:
        """A replica's archive takes nothing, as on a full disk."""
        self._hinder_archive("full")

    def cut_archive(self) -> None:
        """A replica's archive does not answer."""
        self._hinder_archive("away")

    def _hinder_archive(self, how: str) -> None:
        name, archive = self._archive_breaker.victim()
        setattr(archive, how, True)
        self._schedule.begin(
            f"the archive of {name} is {how}", self._dice.uniform(1.0, 15.0), lambda: setattr(archive, how, False)
        )

    def lose_archive(self) -> None:
        self._world.journal.say(f"FAULT {self._archive_breaker.lose()}")

    def alter_archive(self) -> None:
        self._world.journal.say(f"FAULT {self._archive_breaker.alter()}")
