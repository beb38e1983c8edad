"""A group whose members really work, on a made-up clock: speeds, loads and lies are what a test says."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from services.assigner.model.commands import Balance, JoinMember
from services.assigner.model.events import Event, RevokesStarted
from services.assigner.model.group import Group
from services.assigner.model.lag.response_events import (
    ResponseTaken,
    ResponseUndone,
    SetResponses,
    TakeResponse,
    UndoResponse,
)
from services.assigner.model.lag.responses import ResponseKind, ResponseMode, ResponsePolicy
from services.assigner.policy.measured_loads import GroupLoads, Sample
from services.assigner.policy.member_work import ToldWork
from services.assigner.policy.responses.answering import ResponseMemory, Take
from services.assigner.policy.responses.facts import ResponseFacts
from services.assigner.policy.responses.group_facts import answers_slowness, member_facts
from services.assigner.policy.responses.leave_slow import LeaveSlowMembers
from tests.unit.assigner.groups import SPEC, hello, member, registered, seen

BEAT: Final = 0.5
RECORD_SECONDS: Final = 0.05  # that a record takes
HANDLERS: Final = 4
POLICY: Final = ResponsePolicy(
    ResponseKind.LEAVE_SLOW_MEMBERS,
    mode=ResponseMode.AUTOMATIC,
    reach=0.1,
    cooldown_seconds=5.0,
    undo_after_seconds=10.0,
)


@dataclass
class Worker:
    """How a member works, and what it tells.

    Attributes:
        slower: How many times longer a record takes at it.
        taken: The part of its processors that other processes have; it is told of members that tell their `work`.
        tells: Turns a true sample into what it tells.
        work: What it says that it may use; None for nothing.
    """

    slower: float = 1.0
    taken: float = 0.0
    tells: Callable[[Sample], Sample] = lambda sample: sample
    work: ToldWork | None = None


@dataclass
class Fleet:
    """Members with numbers from 1, and leases with a backlog each."""

    members: int
    leases: int
    rate: Callable[[float], float]  # records a second of each lease, by time
    policy: ResponsePolicy | None = POLICY
    now: float = 1_000.0
    workers: dict[str, Worker] = field(default_factory=dict)
    backlog: dict[str, float] = field(default_factory=dict)
    changes: list[tuple[float, Event]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.history = registered(seen(partitions=self.leases))
        for number in range(1, self.members + 1):
            self.history.do(JoinMember(hello(member(number), capacity=0.0), SPEC))
        self.history.settle()
        if self.policy is not None:
            self.history.do(SetResponses((self.policy,)))
        self.workers = {id: Worker() for id in self.state.members}
        self.loads = GroupLoads(self.now)
        self.memory = ResponseMemory((LeaveSlowMembers(),), self.now)

    @property
    def state(self) -> Group:
        """The group."""
        return self.history.state

    def held(self, number: int) -> int:
        """How many leases a member holds."""
        return len(self.state.held_by(member(number)))

    @property
    def lag(self) -> float:
        """Seconds of arrivals in the largest backlog."""
        return max(self.backlog.values(), default=0.0) / max(self.rate(self.now), 1e-9)

    def pass_(self, seconds: float) -> None:
        """Lets time pass: members work and tell, the leader looks and decides."""
        for beat in range(round(seconds / BEAT)):
            self.now += BEAT
            for name in self.state.leases:
                self.backlog[name] = self.backlog.get(name, 0.0) + self.rate(self.now) * BEAT
            for id, worker in self.workers.items():
                self._work(id, worker)
            if beat % 2:
                self._look()
            if beat % 4 == 0 and self.loads.uneven(self.state, self.now):
                self._balance()

    def _work(self, id: str, worker: Worker) -> None:
        computes = RECORD_SECONDS * worker.slower
        takes = computes / (1 - worker.taken)
        held = self.state.held_by(id)
        waiting = sum(self.backlog[name] for name in held)
        part = min(HANDLERS * BEAT / takes / waiting, 1.0) if waiting else 0.0
        samples: list[Sample] = []
        for name in held:
            done = self.backlog[name] * part
            self.backlog[name] -= done
            sample = Sample(name, round(done), 0, round(done * takes * 1e6))
            if worker.taken:
                lost = done * (takes - computes)
                sample = sample._replace(cpu_micros=round(done * computes * 1e6), lost_micros=round(lost * 1e6))
            samples.append(worker.tells(sample))
        delay = sum(each.lost_micros for each in samples)
        self.loads.heard(self.state, id, self.now, samples, worker.work and worker.work._replace(delay_micros=delay))

    def _look(self) -> None:
        compared = self.loads.compare(self.state, self.now) if answers_slowness(self.state.responses) else {}
        facts = ResponseFacts((), members=member_facts(self.state, compared))
        change = self.memory.look(self.state.responses, facts, self.now)
        if change is None:
            return
        seen = self.state.responses
        command = TakeResponse(*change, seen) if isinstance(change, Take) else UndoResponse(*change, seen)
        self._note(self.history.do(command))
        self._balance()

    def _balance(self) -> None:
        self.history.now_ms = 100_000_000 + round(self.now * 1000)
        while True:
            events = self.history.do(Balance(tuple(self.state.members), self.loads.taken(self.state, self.now)))
            self._note(events)
            self.loads.moved(sum(len(each.leases) for each in events if isinstance(each, RevokesStarted)), self.now)
            if not self.history.settle_revokes() and not events:
                return

    def _note(self, events: list[Event]) -> None:
        self.changes += [(self.now, each) for each in events]

    def responses(self) -> list[tuple[float, str]]:
        """When responses were taken and undone."""
        names = {ResponseTaken: "taken", ResponseUndone: "undone"}
        return [(at, names[type(each)]) for at, each in self.changes if type(each) in names]

    def moves(self, since: float) -> int:
        """How many leases were asked back since a moment."""
        revokes = [each for at, each in self.changes if at >= since and isinstance(each, RevokesStarted)]
        return sum(len(each.leases) for each in revokes)
