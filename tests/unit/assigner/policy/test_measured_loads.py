"""A term's load measurements: smoothing, fading peaks, settling, bounds; and the balance steps they lead to."""

import dataclasses

import pytest

from braid.kernel.limits.assigner.placement import LOAD_BUSY_PER_SECOND_MAX, LOAD_SETTLE_SECONDS
from services.assigner.model.commands import (
    Balance,
    Loads,
    Release,
    ReleaseLeases,
)
from services.assigner.model.events import (
    Event,
    RevokesStarted,
)
from services.assigner.model.group import Group, LeaseState
from services.assigner.policy.balance import balance
from services.assigner.policy.by_number import place
from services.assigner.policy.measured_loads import GroupLoads, Sample
from tests.unit.assigner.groups import History, context, joined, member, seen

BEAT = 0.5


class Measured:
    """A group whose members say each half second how busy their leases keep them."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.now = 100.0
        self.loads = GroupLoads(self.now)
        self.busy: dict[str, float] = {}  # seconds per second, by lease; of its holder, whoever that is

    @property
    def state(self) -> Group:
        return self.history.state

    def pass_(self, seconds: float) -> None:
        """Time passes, with heartbeats."""
        for _ in range(round(seconds / BEAT)):
            self.now += BEAT
            for id in self.state.members:
                held = self.state.held_by(id)
                samples = [Sample(name, 0, 0, round(self.busy.get(name, 0.0) * BEAT * 1e6)) for name in held]
                self.loads.heard(self.state, id, self.now, samples)

    def step(self) -> list[Event]:
        """A balance step as the leader makes it."""
        self.history.now_ms = 100_000_000 + round(self.now * 1000)  # nobody is a newcomer any more
        events = self.history.do(Balance(tuple(self.state.members), self.loads.taken(self.state, self.now)))
        asked_back = sum(len(event.leases) for event in events if isinstance(event, RevokesStarted))
        self.loads.moved(asked_back, self.now)
        return events

    def cost(self, lease: str) -> float:
        """The cost of a lease in a balance step; 0 for an idle lease."""
        return self.loads.taken(self.state, self.now).costs.get(lease, 0.0)


@pytest.fixture
def two() -> Measured:
    """Two members hold four partitions each."""
    return Measured(joined(2, seen(partitions=8)))


def of(measured: Measured, number: int) -> list[str]:
    """The leases of a member."""
    return sorted(measured.state.held_by(member(number)))


def test_a_cost_is_learnt_in_seconds_and_a_pause_hardly_shows(two: Measured) -> None:
    (lease, *_) = of(two, 1)
    two.busy[lease] = 0.4
    two.pass_(6)
    assert 0.2 < two.cost(lease) < 0.3
    two.pass_(24)
    assert two.cost(lease) == pytest.approx(0.4, rel=0.05)
    two.busy[lease] = 0.0
    two.pass_(10)
    assert two.cost(lease) > 0.3, "a pause moves nothing"
    two.pass_(290)
    assert two.cost(lease) == 0.0


def test_busy_handlers_follow_within_seconds(two: Measured) -> None:
    """Responses to lag are undone by them: a cost that fades for a minute would keep each for as long."""
    (lease, *_) = of(two, 1)
    two.busy[lease] = 3.0
    two.pass_(30)
    assert two.loads.taken(two.state, two.now).busy[lease] == pytest.approx(3.0, rel=0.05)
    two.busy[lease] = 0.0
    two.pass_(15)
    assert two.loads.taken(two.state, two.now).busy[lease] < 0.3
    assert two.cost(lease) > 2.0, "placement waits for longer"


def test_a_lease_that_is_not_named_any_more_is_idle(two: Measured) -> None:
    lease, other, *_ = of(two, 1)
    two.busy = {lease: 0.4, other: 0.4}
    two.pass_(30)
    for _ in range(480):
        two.now += BEAT
        two.loads.heard(two.state, member(1), two.now, [Sample(other, 0, 0, 200_000)])
    assert two.cost(lease) < 0.02 and two.cost(other) == pytest.approx(0.4, rel=0.05)
    two.loads.heard(two.state, member(1), two.now + BEAT, [Sample(lease, 0, 0, 200_000)])
    assert two.cost(lease) < 0.06, "one sample after a long silence is one sample"


def test_untimed_records_cost_the_least_that_records_cost(two: Measured) -> None:
    (lease, *_) = of(two, 1)
    for _ in range(100):
        two.now += BEAT
        two.loads.heard(two.state, member(1), two.now, [Sample(lease, 10_000, 10_000_000, 0)])
    assert two.cost(lease) == pytest.approx(0.44, rel=0.01)  # 20,000 records at 20 µs, 20 MB at 2 ns


def test_hostile_numbers_are_cut_and_others_leases_passed_over(two: Measured) -> None:
    (own, *_), (other, *_) = of(two, 1), of(two, 2)
    for _ in range(20):
        two.now += BEAT
        told = [Sample(own, 2**62, -5, 2**62), Sample(other, 0, 0, 10**6), Sample("logs/live/9/0", 1, 1, 10**9)]
        two.loads.heard(two.state, member(1), two.now, told)
        two.loads.heard(two.state, member(2), two.now, [Sample(other, -1, -1, -1)])
    loads = two.loads.taken(two.state, two.now)
    assert loads.costs.keys() == {own}
    assert loads.costs[own] <= LOAD_BUSY_PER_SECOND_MAX


def test_heartbeats_in_a_flood_make_no_partition_dear(two: Measured) -> None:
    (lease, *_) = of(two, 1)
    two.pass_(1)
    for _ in range(1_000):
        two.now += 1e-6
        two.loads.heard(two.state, member(1), two.now, [Sample(lease, 0, 0, 1)])
    assert two.cost(lease) == 0.0


def test_a_hog_loses_partitions_in_15_seconds_then_all_is_still(two: Measured) -> None:
    two.busy = {lease: 0.1 for lease in two.state.leases}
    two.pass_(20)
    assert two.step() == [] and not two.loads.uneven(two.state, two.now)
    two.busy |= dict.fromkeys(of(two, 1), 0.2)
    started = two.now
    events: list[Event] = []
    while not events:
        two.pass_(2)
        events = two.step() if two.loads.uneven(two.state, two.now) else []
    assert two.now - started < 12
    (revoked,) = events
    assert isinstance(revoked, RevokesStarted)
    assert [each.member for each in revoked.leases] == [member(1)]
    assert "balanced by load: web-1 bore 1.2" in revoked.reason and "meant for web-2 (0.8" in revoked.reason
    give_back(two)
    two.busy[revoked.leases[0].lease] = 0.1  # the other has no hog
    for _ in range(100):
        two.pass_(2)
        assert two.step() == []


def test_what_left_a_slow_host_is_not_sent_back(two: Measured) -> None:
    slow = member(1)
    two.busy = dict.fromkeys(two.state.leases, 0.2)
    two.pass_(20)
    released = []
    for _ in range(300):
        two.busy = {name: 0.6 if lease.holder == slow else 0.2 for name, lease in two.state.leases.items()}
        two.pass_(1)
        asked = [event for event in two.step() if isinstance(event, RevokesStarted)]
        released += [each.member for event in asked for each in event.leases]
        give_back(two)
    assert [len(of(two, number)) for number in (1, 2)] == [2, 6]
    assert released == [slow, slow]


def test_steady_load_moves_nothing_in_ten_minutes(two: Measured) -> None:
    two.busy = {lease: 0.05 * (1 + number % 3) for number, lease in enumerate(sorted(two.state.leases))}
    two.pass_(20)
    two.step()
    two.history.settle()
    moved = 0
    for _ in range(300):
        two.pass_(2)
        moved += len(two.step())
    assert moved == 0


def test_a_leader_change_moves_nothing(two: Measured) -> None:
    hot, *cold = of(two, 1)
    two.busy = {hot: 0.8} | dict.fromkeys(of(two, 2), 0.1)
    two.pass_(20)
    two.step()  # what is cold goes to the other
    give_back(two)
    assert len(of(two, 1)) < 4, "uneven in number, even in load"
    two.loads = GroupLoads(two.now)
    while not two.loads.settled(two.now):
        assert two.step() == []
        two.pass_(1)
    assert two.step() == []
    assert cold


def test_leases_that_wake_up_elsewhere_hold_no_move_up() -> None:
    """Idle leases tell nothing of a former holder, so nothing has to be measured anew for them."""
    measured = Measured(joined(2, seen(partitions=40)))
    sleepers = of(measured, 1)[:12]
    measured.busy = dict.fromkeys(sleepers, 0.02)
    measured.pass_(6)
    measured.busy = {}
    measured.pass_(300)
    for name in sleepers:
        lease = dataclasses.replace(measured.state.leases[name], holder=member(2))
        leases = {**measured.state.leases, name: lease}
        measured.history.state = dataclasses.replace(measured.state, leases=leases)
    hogs = of(measured, 1)[:4]
    measured.busy = dict.fromkeys(hogs, 0.5)
    events: list[Event] = []
    for name in sleepers:
        measured.busy[name] = 0.001
        measured.pass_(2)
        events += measured.step()
    assert events, "one that wakes up every two seconds keeps it from ever moving anything"


def test_a_leader_change_gives_nothing_to_long_empty_members(two: Measured) -> None:
    """Loads had decided that; only who came just now waits for a share."""
    for name in of(two, 2):
        lease = dataclasses.replace(two.state.leases[name], holder=member(1))
        two.history.state = dataclasses.replace(two.state, leases={**two.state.leases, name: lease})
    two.loads = GroupLoads(two.now)
    assert two.step() == []
    just_now = dataclasses.replace(two.state.members[member(2)], joined_at_ms=two.history.now_ms)
    two.history.state = dataclasses.replace(two.state, members={**two.state.members, member(2): just_now})
    assert len(two.step()) == 1


def give_back(measured: Measured) -> None:
    """Releases all revoked leases, and has them granted again by load."""
    for name, lease in list(measured.state.leases.items()):
        if lease.state is LeaseState.REVOKING:
            measured.history.do(ReleaseLeases(lease.holder, (Release(name, lease.epoch),)))
    measured.step()


def test_a_count_that_ignores_the_settling_is_noticed(two: Measured) -> None:
    """The control of the test above: counted at once, the same leader would move partitions."""
    hot, *_ = of(two, 1)
    two.busy = {hot: 0.8} | dict.fromkeys(of(two, 2), 0.1)
    two.pass_(20)
    two.step()
    give_back(two)
    members = sorted(two.state.members)
    assert balance(two.state, members, context(10**9), place, Loads(settled=True))
    assert not balance(two.state, members, context(10**9), place, Loads(settled=False))


def test_moves_of_a_minute_are_bounded(two: Measured) -> None:
    two.busy = dict.fromkeys(of(two, 1), 1.0)
    two.pass_(30)
    two.loads.moved(4, two.now)
    assert two.step() == [], "nothing more before it is known what came of that"
    two.pass_(LOAD_SETTLE_SECONDS)
    (revoked,) = two.step()
    assert isinstance(revoked, RevokesStarted)
    assert len(revoked.leases) == 1, "⌈8/2⌉ + 1 a minute, four of which are gone"
    assert two.loads.taken(two.state, two.now).moved == 5
    assert not two.loads.uneven(two.state, two.now)
    two.now += 60
    assert two.loads.taken(two.state, two.now).moved == 0


def test_a_newcomer_is_warmed_up(two: Measured) -> None:
    two.busy = {lease: 0.1 + 0.01 * number for number, lease in enumerate(sorted(two.state.leases))}
    two.pass_(20)
    two.step()
    newcomer = dataclasses.replace(two.state.members[member(2)], id=member(3), joined_at_ms=two.history.now_ms)
    two.history.state = dataclasses.replace(two.state, members={**two.state.members, member(3): newcomer})
    at_once = two.step()
    assert sum(len(event.leases) for event in at_once if isinstance(event, RevokesStarted)) == 1, "a part at first"


def test_before_it_settled_it_is_never_uneven() -> None:
    measured = Measured(joined(2, seen(partitions=8)))
    measured.busy = dict.fromkeys(of(measured, 1), 1.0)
    measured.pass_(LOAD_SETTLE_SECONDS - 1)
    assert not measured.loads.uneven(measured.state, measured.now)
    measured.pass_(1)
    assert measured.loads.uneven(measured.state, measured.now)
