"""Faults of processes: they are killed, paused, their clocks lie, and members leave their group."""

from collections.abc import Sequence
from typing import Final

from braid.kernel.limits.store import SESSION_TTL_SECONDS
from testbed.checkers import facts
from tests.simulation.absence import kill_members, members_leave, move_elsewhere, start_members
from tests.simulation.faults.schedule import Schedule
from tests.simulation.world import DLQS, MEMBERS, PRODUCERS, SERVICES

_PAUSES: Final = (0.5, 1.0, 3.0)  # of a session or lease
_HOUR_MS: Final = 3_600_000
_WEEK_AND_A_DAY_MS: Final = 8 * 24 * _HOUR_MS


class ProcessFaults:
    """Faults of services, members and producers; each method is a kind of fault."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule, self._world, self._dice = schedule, schedule.world, schedule.dice

    def _kill(self, names: Sequence[str]) -> None:
        name = self._schedule.one(names)
        self._world.kill(name)
        self._schedule.begin(f"kill {name}", self._dice.uniform(0.05, 6.0), lambda: self._world.start_process(name))

    def kill_service(self) -> None:
        self._kill(SERVICES)

    def kill_dlq(self) -> None:
        self._kill(DLQS)

    def kill_member(self) -> None:
        self._kill(MEMBERS)

    def kill_producer(self) -> None:
        self._kill(PRODUCERS)

    def _pause(self, names: Sequence[str], unit_seconds: float) -> None:
        name = self._schedule.one(names)
        process = self._world.running[name].process
        if process.alive:
            process.pause()
            self._world.journal.note(facts.Paused(process.name))
            self._schedule.begin(f"pause {name}", unit_seconds * self._dice.choice(_PAUSES), process.resume)

    def pause_service(self) -> None:
        self._pause(SERVICES, SESSION_TTL_SECONDS)

    def pause_dlq(self) -> None:
        self._pause(DLQS, SESSION_TTL_SECONDS)

    def pause_member(self) -> None:
        self._pause(MEMBERS, self._world.plan.lease_seconds)

    def pause_producer(self) -> None:
        self._pause(PRODUCERS, SESSION_TTL_SECONDS)

    def leave_group(self) -> None:
        name = self._dice.choice(MEMBERS)
        running = self._world.running[name]
        if running.process.alive and running.member is not None and not running.member.leaving:
            running.process.tasks.spawn(running.member.leave(), "leave")

            def restart() -> None:
                running.process.kill()
                self._world.journal.note(facts.Killed(running.process.name))
                self._world.start_process(name)

            self._schedule.begin(f"{name} leaves", self._dice.uniform(2.0, 12.0), restart)

    def skew_clock(self) -> None:
        name = self._dice.choice((*SERVICES, *MEMBERS, *PRODUCERS))
        clock = self._world.running[name].process.clock
        clock.skew_ms += int(self._dice.uniform(-60_000, 60_000))
        self._world.journal.say(f"FAULT clock of {name} is {clock.skew_ms} ms off")

    def step_clock(self) -> None:
        """A service's wall clock steps by an hour or by more than a week; it stays there."""
        name = self._schedule.one(SERVICES)
        clock = self._world.running[name].process.clock
        clock.skew_ms += self._dice.choice((-_WEEK_AND_A_DAY_MS, -_HOUR_MS, _HOUR_MS, _WEEK_AND_A_DAY_MS))
        self._world.journal.say(f"FAULT clock of {name} is {clock.skew_ms} ms off")

    def sink_away(self) -> None:
        """Takes away the sink of the handlers: their records are not to blame."""
        journal = self._world.journal
        if journal.away:
            return

        def back() -> None:
            journal.away = False

        journal.away = True
        self._schedule.begin("the sink is away", self._dice.uniform(0.5, 12.0), back)

    def members_away(self) -> None:
        """Nobody consumes for a while, and meanwhile the stream moves."""
        kill_members(self._world)
        moving = move_elsewhere(self._world, self._dice, self._dice.uniform(1.0, 4.0))
        self._world.host.tasks.spawn(moving, "move")
        self._schedule.begin("no member is there", self._dice.uniform(8.0, 20.0), lambda: start_members(self._world))

    def members_leave(self) -> None:
        """Makes all members leave for a while, as when an application is taken down."""
        members_leave(self._world)
        self._schedule.begin("all members leave", self._dice.uniform(8.0, 20.0), lambda: start_members(self._world))
