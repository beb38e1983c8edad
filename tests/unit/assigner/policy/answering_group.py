"""A model of a group that answers lag: two lanes, their backlogs, and handlers that the lanes share and lend."""

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from braid.kernel.decider import Context
from braid.kernel.limits.assigner.placement import LOAD_RISE_SECONDS
from braid.kernel.limits.assigner.responses import RESPONSE_LOOK_SECONDS
from services.assigner.domain import responses
from services.assigner.model.backlog_splits import SplitAsked
from services.assigner.model.group import Group, GroupSpec
from services.assigner.model.lag.response_events import (
    ResponseCommand,
    ResponseTaken,
    ResponseUndone,
    SetResponses,
    TakeResponse,
    UndoResponse,
)
from services.assigner.model.lag.responses import ResponseKey, ResponseKind, ResponseMode, ResponsePolicy, Responses
from services.assigner.policy.responses.answering import ResponseMemory, Take
from services.assigner.policy.responses.facts import LaneFacts, ResponseFacts
from services.assigner.policy.responses.kinds import KINDS

HOUR = 3_600.0
Arrivals = Callable[[float], float]
SHIFT = ResponsePolicy(ResponseKind.SHIFT_SHARES, mode=ResponseMode.AUTOMATIC, reach=0.8)
RAISE = ResponsePolicy(ResponseKind.RAISE_CONCURRENCY, mode=ResponseMode.AUTOMATIC, reach=2.0)
OWN: Mapping[str, int] = {"bulk": 3, "live": 1}


class Change(NamedTuple):
    """A response that was taken (True) or undone."""

    at: float
    taken: bool
    key: ResponseKey


class Backlog:
    """A lane's records that wait, with the times at which they came."""

    def __init__(self) -> None:
        self.records = 0.0
        self._waiting: deque[tuple[float, float]] = deque()

    def come(self, now: float, count: float) -> None:
        """Adds records."""
        self._waiting.append((now, count))
        self.records += count

    def done(self, count: float) -> None:
        """Takes the oldest records away."""
        self.records = max(self.records - count, 0.0)
        while self._waiting and count > 1e-9:
            at, some = self._waiting.popleft()
            if some > count:
                self._waiting.appendleft((at, some - count))
            count -= min(some, count)

    def seconds(self, now: float) -> float:
        """Age of the oldest record."""
        return now - self._waiting[0][0] if self._waiting and self.records > 1e-6 else 0.0


@dataclass
class AnsweringGroup:
    """A group that time passes for.

    Attributes:
        live: Records a second of lane live, by seconds since the start.
        bulk: Likewise of lane bulk.
        handlers: How many there are.
        rate: Records a second that a handler does.
        answers: Whether the responses change anything.
        tells_busy: Whether members say how many handlers each lane keeps busy.
    """

    live: Arrivals
    bulk: Arrivals
    policies: tuple[ResponsePolicy, ...] = (SHIFT, RAISE)
    handlers: int = 16
    rate: float = 5.0
    target: float = 5.0
    bulk_target: float | None = None
    answers: bool = True
    tells_busy: bool = True
    now: float = 0.0
    changes: list[Change] = field(default_factory=list)
    late: list[float] = field(default_factory=list)  # moments at which lane live was beyond its target
    drained_at: float = 0.0  # when backlogs were last more than a moment's work

    def __post_init__(self) -> None:
        self.state = Group("indexer", GroupSpec(("logs",), tuple(OWN.items())))
        self.lanes = {lane: Backlog() for lane in OWN}
        self.busy_lanes = dict.fromkeys(OWN, 0.0)
        self.new_leader()
        self.do(SetResponses(self.policies))

    @property
    def responses(self) -> Responses:
        """The policies and responses."""
        return self.state.responses

    def new_leader(self) -> None:
        """Another leader goes on: it knows the history, and nothing else."""
        self._memory = ResponseMemory(KINDS, self.now)

    def run(self, seconds: float) -> "AnsweringGroup":
        """Lets time pass."""
        end = self.now + seconds
        while self.now < end:
            self.step()
        return self

    def step(self, *, known: bool = True) -> None:
        """One look's time."""
        self.now += RESPONSE_LOOK_SECONDS
        self._work()
        facts = self.facts()
        if self.lanes["live"].seconds(self.now) > self.target:
            self.late.append(self.now)
        change = self._memory.look(self.responses, facts if known else None, self.now)
        if isinstance(change, Take):
            self.do(TakeResponse(*change, self.responses))
        elif change is not None:
            self.do(UndoResponse(*change, self.responses))

    def facts(self) -> ResponseFacts:
        """Measures the group as a leader does."""
        targets = {"live": self.target, "bulk": self.bulk_target}
        lanes = [
            LaneFacts(
                "logs",
                lane,
                backlog.seconds(self.now),
                round(backlog.records),
                targets.get(lane),
                busy_per_s=self.busy_lanes[lane] if self.tells_busy else 0.0,
            )
            for lane, backlog in self.lanes.items()
        ]
        most = 2 * self.handlers
        return ResponseFacts(
            lanes,
            own=OWN,
            dividable=2,
            handlers=self.handlers,
            handlers_max=most,
            busy_per_s=sum(self.busy_lanes.values()),
        )

    def do(self, command: ResponseCommand) -> None:
        """Decides on a command, and applies the events."""
        here = Context(round(self.now * 1000), "assigner-0")
        for event in responses.decide(self.state, command):
            assert not isinstance(event, SplitAsked)
            self.state = responses.evolve(self.state, event, here)
            if isinstance(event, ResponseTaken | ResponseUndone):
                self.changes.append(Change(self.now, isinstance(event, ResponseTaken), event.key))

    def _work(self) -> None:
        """Handlers work for their own lane first, and lend what is left."""
        for lane, arrivals in (("live", self.live), ("bulk", self.bulk)):
            self.lanes[lane].come(self.now, max(arrivals(self.now), 0.0) * RESPONSE_LOOK_SECONDS)
        division = self.responses.division(OWN)
        shares = dict(division.shares or OWN) if self.answers else dict(OWN)
        handlers = self.handlers * max(division.concurrency if self.answers else 1.0, 1.0)
        whole = sum(shares.values())
        wanted = {lane: backlog.records / self.rate for lane, backlog in self.lanes.items()}
        given = {lane: min(wanted[lane], handlers * shares[lane] / whole) for lane in self.lanes}
        for lane in self.lanes:
            given[lane] = min(wanted[lane], handlers - sum(given[other] for other in given if other != lane))
        for lane, backlog in self.lanes.items():
            backlog.done(given[lane] * self.rate)
        gain = -math.expm1(-RESPONSE_LOOK_SECONDS / LOAD_RISE_SECONDS)
        for lane, busy in given.items():
            self.busy_lanes[lane] += (busy - self.busy_lanes[lane]) * gain
        if sum(each.records for each in self.lanes.values()) > 2 * self.handlers * self.rate:
            self.drained_at = self.now


def returned(changes: Sequence[Change], seconds: float) -> list[Change]:
    """Finds responses that were taken again so soon after they had been undone."""
    undone: dict[ResponseKey, float] = {}
    found = []
    for each in changes:
        if each.taken and each.at - undone.get(each.key, -seconds) < seconds:
            found.append(each)
        if not each.taken:
            undone[each.key] = each.at
    return found
