"""The aggregate loop over the store in memory, on virtual time: every way a command can end, and following."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from braid.kernel.decider import Context
from braid.kernel.errors import BraidError, Conflict, CorruptHistory, Fenced, Invalid, NotLeader, OutcomeUnknown
from braid.kernel.limits.runtime import REQUESTS_REMEMBERED_MAX
from braid.kernel.limits.store import APPEND_EVENTS_MAX, SNAPSHOT_EVERY_EVENTS
from braid.kernel.ports import Endpoint, HistoryId, Host
from braid.runtime.histories.aggregates import Aggregates
from braid.runtime.histories.kinds import Asked, Change, Leadership, Reloaded
from braid.runtime.telemetry import make_metrics
from braid.stores.memory import Fate, MemoryStore
from braid.stores.memory_server import MemoryStoreServer
from tests.support.counters import COUNTERS, Add, Added, Counter, CounterService
from tests.support.virtual_time import VirtualProcess, run_virtual, running_loop

TOTAL = HistoryId("registry", "counter", "total")


@dataclass
class Office:
    """Says who leads, as a replica would."""

    host: Host
    leadership: Leadership | None = None
    reasons: list[str] = field(default_factory=list)

    def require_leader(self) -> Leadership:
        held = self.leadership
        if held is None or self.host.clock.elapsed() >= held.session.deadline():
            raise NotLeader("not here")
        return held

    def step_down(self, reason: str) -> None:
        self.leadership = None
        self.reasons.append(reason)


class Seat:
    """One replica's store client, authority and aggregates."""

    def __init__(self, name: str, server: MemoryStoreServer | None = None) -> None:
        self.process = VirtualProcess(running_loop(), name, 1)
        self.name = name
        self.host = self.process.host
        self.store = MemoryStore(self.host, server)
        self.office = Office(self.host)
        self.heard: list[Change | Reloaded] = []
        kinds = CounterService.kinds
        self.aggregates = Aggregates(
            self.store, kinds, self.host, "registry", self.office, make_metrics("registry", name)
        )
        self.aggregates.subscribe(self.heard.append)

    async def follow(self) -> "Seat":
        """Loads and follows."""
        self.host.tasks.spawn(self.aggregates.follow(), "follow")
        await self.aggregates.loaded()
        return self

    async def lead(self) -> "Seat":
        """Wins the election and catches up."""
        session = await self.store.open_session(3.0)
        leader = await self.store.campaign(Endpoint("registry", self.name, f"{self.name}:1"), session)
        await self.aggregates.catch_up()
        self.office.leadership = Leadership(leader, session, leader.fence.revision)
        return self

    async def lead_again(self) -> None:
        """Takes a session of its own age, as after a pause that outlasted the last one."""
        held = self.office.leadership
        if held is not None and self.host.clock.elapsed() >= held.session.deadline():
            await self.lead()

    async def add(self, amount: int, *, steps: int = 1, request_id: str = "") -> int:
        """Adds to the counter `total` and returns its value."""
        outcome = await self.aggregates.execute(
            COUNTERS, "total", Add(amount, steps), actor="tester", request_id=request_id
        )
        return outcome.state.value

    @property
    def total(self) -> int:
        """The counter's value as seen here."""
        return self.aggregates.state(COUNTERS, "total").value


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs a test on virtual time."""
    run_virtual(work)


async def _two() -> tuple[Seat, Seat]:
    first = await (await Seat("a").follow()).lead()
    second = await Seat("b", first.store.server).follow()
    return first, second


async def _settle(seat: Seat) -> None:
    await seat.host.clock.sleep(0.1)


def test_a_command_is_answered_with_the_state_after_its_events() -> None:
    async def scenario() -> None:
        leader, _ = await _two()
        outcome = await leader.aggregates.execute(COUNTERS, "total", Add(5), actor="alice", tenant="acme", cause="why")
        assert (outcome.state.value, outcome.sequence, outcome.repeated) == (5, 1, False)
        record = outcome.events[0]
        assert record.event == Added(5)
        assert record.context == Context(
            record.context.now_ms, "alice", "acme", "", "why", leader.office.require_leader().epoch
        )
        assert leader.aggregates.revision == outcome.revision == record.revision

    run(scenario())


def test_commands_executed_together_are_appended_once() -> None:
    async def scenario() -> None:
        leader, follower = await _two()
        before = leader.aggregates.revision
        asked = [Asked(Add(amount), f"web-{amount}", request_id=f"r{amount}") for amount in (1, -1, 2, 2)]
        first, refused, third, repeated = await leader.aggregates.execute_together(COUNTERS, "total", asked)
        assert isinstance(refused, Invalid), "it concerns no other"
        assert not isinstance(first, BraidError)
        assert not isinstance(third, BraidError)
        assert not isinstance(repeated, BraidError)
        assert [record.context.actor for record in (*first.events, *third.events)] == ["web-1", "web-2"]
        assert {record.revision for record in (*first.events, *third.events)} == {before + 1}, "one append"
        assert first.state == third.state == Counter("total", leader.total, 2)
        assert (leader.total, repeated.repeated, repeated.events) == (3, True, ())
        (again,) = await leader.aggregates.execute_together(COUNTERS, "total", asked[:1])
        assert not isinstance(again, BraidError)
        assert again.repeated
        await _settle(follower)
        assert follower.total == 3

    run(scenario())


def test_a_decision_cut_off_midway_among_others_is_made_again() -> None:
    """The last of its appends alone tells that it is done, wherever those of the others lie."""

    async def scenario() -> None:
        leader, _ = await _two()
        asked = [
            Asked(Add(1, steps=APPEND_EVENTS_MAX - 1), "x", request_id="first"),
            Asked(Add(1, steps=5), "x", request_id="second"),
        ]
        await leader.aggregates.execute_together(COUNTERS, "total", asked)
        contexts = [record.context.request_id for record in await leader.aggregates.events(TOTAL)]
        assert contexts == ["first"] * (APPEND_EVENTS_MAX - 1) + ["second#part"] + ["second"] * 4

    run(scenario())


def test_a_refused_command_changes_nothing() -> None:
    async def scenario() -> None:
        leader, _ = await _two()
        with pytest.raises(Invalid):
            await leader.add(-1)
        assert (await leader.store.load(TOTAL)).sequence == 0
        assert leader.heard == [Reloaded(leader.heard[0].revision)]

    run(scenario())


def test_nothing_to_do_appends_nothing() -> None:
    async def scenario() -> None:
        leader, _ = await _two()
        outcome = await leader.aggregates.execute(COUNTERS, "total", Add(0), actor="alice", request_id="r")
        assert (outcome.state.value, outcome.sequence, list(outcome.events), outcome.repeated) == (0, 0, [], False)
        assert leader.aggregates.histories() == []

    run(scenario())


def test_only_a_leader_decides() -> None:
    async def scenario() -> None:
        _, follower = await _two()
        with pytest.raises(NotLeader):
            await follower.add(1)

    run(scenario())


def test_followers_see_changes_in_order_of_revision() -> None:
    async def scenario() -> None:
        leader, follower = await _two()
        await asyncio.gather(*(leader.add(amount) for amount in range(1, 20)))
        await leader.aggregates.execute(COUNTERS, "other", Add(1), actor="x")
        await _settle(follower)
        for seat in (leader, follower):
            changes = [change for change in seat.heard if isinstance(change, Change)]
            assert [change.revision for change in changes] == sorted({change.revision for change in changes})
            assert [record.sequence for change in changes[:-1] for record in change.events] == list(range(1, 20))
            assert changes[-1].history.id == "other"
        assert follower.total == leader.total == sum(range(1, 20))
        assert follower.aggregates.revision == leader.aggregates.revision
        assert follower.aggregates.state_hash(COUNTERS, "total") == leader.aggregates.state_hash(COUNTERS, "total")
        assert list(follower.aggregates.states(COUNTERS)) == ["other", "total"]

    run(scenario())


def test_another_leader_does_not_decide_a_repeated_request_again() -> None:
    async def scenario() -> None:
        leader, follower = await _two()
        assert await leader.add(5, request_id="r1") == 5
        again = await leader.aggregates.execute(COUNTERS, "total", Add(5), actor="x", request_id="r1")
        assert (again.state.value, again.repeated, again.events) == (5, True, ())
        other = await leader.aggregates.execute(COUNTERS, "total", Add(5), actor="x", tenant="acme", request_id="r1")
        assert (other.state.value, other.repeated) == (10, False)
        await leader.store.resign(leader.office.require_leader().leader)
        await follower.lead()
        later = await follower.aggregates.execute(COUNTERS, "total", Add(5), actor="x", request_id="r1")
        assert (later.state.value, later.repeated) == (10, True)

    run(scenario())


def test_remembered_requests_are_bounded() -> None:
    async def scenario() -> None:
        leader, _ = await _two()
        for number in range(REQUESTS_REMEMBERED_MAX + 1):
            await leader.add(1, request_id=str(number))
        assert await leader.add(1, request_id="1") == REQUESTS_REMEMBERED_MAX + 1
        assert await leader.add(1, request_id="0") == REQUESTS_REMEMBERED_MAX + 2

    run(scenario())


def test_an_unknown_outcome_that_happened_is_read_and_recognised() -> None:
    async def scenario() -> None:
        leader, follower = await _two()
        await leader.add(1)
        leader.store.fate = lambda operation: Fate.ANSWER_LOST if operation == "append" else Fate.ANSWERED
        with pytest.raises(OutcomeUnknown):
            await leader.add(5, request_id="r1")
        leader.store.fate = lambda operation: Fate.ANSWERED
        await leader.lead_again()
        assert await leader.add(5, request_id="r1") == 6
        await _settle(follower)
        assert follower.total == 6
        told = [record.sequence for change in leader.heard if isinstance(change, Change) for record in change.events]
        assert told == [1, 2]

    run(scenario())


def test_an_unknown_outcome_that_did_not_happen_is_decided_again() -> None:
    async def scenario() -> None:
        leader, _ = await _two()
        leader.store.fate = lambda operation: Fate.REQUEST_LOST if operation == "append" else Fate.ANSWERED
        with pytest.raises(OutcomeUnknown):
            await leader.add(5, request_id="r1")
        leader.store.fate = lambda operation: Fate.ANSWERED
        await leader.lead_again()
        assert await leader.add(5, request_id="r1") == 5

    run(scenario())


def test_an_unknown_outcome_is_read_back_before_the_watch_tells() -> None:
    async def scenario() -> None:
        leader, _ = await _two()
        leader.store.latency = lambda operation: 60.0 if operation == "watch" else 0.0
        leader.store.fate = lambda operation: Fate.ANSWER_LOST if operation == "append" else Fate.ANSWERED
        with pytest.raises(OutcomeUnknown):
            await leader.add(5)
        leader.store.fate = lambda operation: Fate.ANSWERED
        assert leader.total == 0
        asked: list[str] = []

        def latency(operation: str) -> float:
            asked.append(operation)
            return 60.0 if operation == "watch" else 0.0

        leader.store.latency = latency
        assert await leader.add(1) == 6
        assert asked.index("load") < asked.index("append")

    run(scenario())


def test_a_caller_that_goes_away_leaves_no_stale_state() -> None:
    async def scenario() -> None:
        leader, _ = await _two()
        leader.store.latency = lambda operation: 0.5 if operation == "append" else 0.0
        call = asyncio.create_task(leader.add(5))
        await asyncio.sleep(0.7)  # virtual: the append happened, its answer is on the way
        call.cancel()
        await asyncio.wait([call])
        leader.store.latency = lambda operation: 0.0
        assert await leader.add(1) == 6

    run(scenario())


def test_a_conflict_reloads_and_decides_again() -> None:
    async def scenario() -> None:
        leader, _ = await _two()
        await leader.add(1)
        fence = leader.office.require_leader().leader.fence
        data = COUNTERS.codec.encode(Added(10), Context(0, "elsewhere"))
        call = asyncio.create_task(leader.add(2))
        leader.store.server.append(TOTAL, [data], 1, fence)
        assert await call == 13

    run(scenario())


def test_endless_conflicts_are_refused() -> None:
    async def scenario() -> None:
        leader, _ = await _two()

        async def conflict(*_: object) -> None:
            raise Conflict("again")

        leader.store.append = conflict  # type: ignore[method-assign, assignment]
        with pytest.raises(Conflict, match="under 8 decisions"):
            await leader.add(1)

    run(scenario())


def test_no_answer_once_authority_ended_during_the_append() -> None:
    async def scenario() -> None:
        leader, follower = await _two()
        leader.store.latency = lambda operation: 2.0 if operation == "append" else 0.0
        leader.store.fate = lambda operation: Fate.REQUEST_LOST if operation == "renew" else Fate.ANSWERED
        session = leader.office.require_leader().session
        with pytest.raises(NotLeader):
            await leader.add(5, request_id="r1")
        assert leader.host.clock.elapsed() >= session.deadline()
        await _settle(follower)
        assert follower.total == 5  # it happened; a repeat at the next leader finds it
        await follower.lead()
        again = await follower.aggregates.execute(COUNTERS, "total", Add(5), actor="x", request_id="r1")
        assert (again.state.value, again.repeated) == (5, True)

    run(scenario())


def test_a_fenced_leader_steps_down_and_says_not_leader() -> None:
    async def scenario() -> None:
        leader, follower = await _two()
        await leader.store.resign(leader.office.require_leader().leader)
        await follower.lead()
        await follower.add(1)
        with pytest.raises(NotLeader) as error:
            await leader.add(5)
        assert isinstance(error.value.__cause__, Fenced)
        assert leader.office.reasons == ["the store refused an append by its fence"]
        assert follower.total == 1

    run(scenario())


def test_a_large_decision_is_split_and_a_cut_off_one_made_again() -> None:
    async def scenario() -> None:
        leader, _ = await _two()
        steps = 2 * APPEND_EVENTS_MAX + 5
        outcome = await leader.aggregates.execute(COUNTERS, "total", Add(1, steps), actor="x", request_id="big")
        assert outcome.state.value == outcome.sequence == steps
        ids = [record.context.request_id for record in outcome.events]
        assert ids == ["big#part"] * (2 * APPEND_EVENTS_MAX) + ["big"] * 5
        calls = 0

        def second_lost(operation: str) -> Fate:
            nonlocal calls
            calls += operation == "append"
            return Fate.REQUEST_LOST if operation == "append" and calls == 2 else Fate.ANSWERED

        leader.store.fate = second_lost
        with pytest.raises(OutcomeUnknown):
            await leader.add(1, steps=steps, request_id="cut")
        await leader.lead_again()
        assert await leader.add(1, steps=steps, request_id="cut") == 2 * steps + APPEND_EVENTS_MAX

    run(scenario())


def test_snapshots_bound_a_load_and_keep_recent_events() -> None:
    async def scenario() -> None:
        leader, follower = await _two()
        for number in range(3 * SNAPSHOT_EVERY_EVENTS):
            await leader.add(1, request_id=str(number))
        await _settle(leader)
        loaded = await leader.store.load(TOTAL)
        assert loaded.snapshot is not None
        assert loaded.snapshot.sequence == 2 * SNAPSHOT_EVERY_EVENTS
        assert SNAPSHOT_EVERY_EVENTS <= len(loaded.events) < 2 * SNAPSHOT_EVERY_EVENTS
        fresh = await Seat("c", leader.store.server).follow()
        digest = leader.aggregates.state_hash(COUNTERS, "total")
        assert fresh.aggregates.state_hash(COUNTERS, "total") == digest
        assert follower.aggregates.state_hash(COUNTERS, "total") == digest
        await leader.store.resign(leader.office.require_leader().leader)
        await fresh.lead()
        before_the_snapshot = str(2 * SNAPSHOT_EVERY_EVENTS - 1)
        again = await fresh.aggregates.execute(COUNTERS, "total", Add(1), actor="x", request_id=before_the_snapshot)
        assert again.repeated

    run(scenario())


def test_a_follower_behind_compaction_reads_everything_again() -> None:
    async def scenario() -> None:
        leader, follower = await _two()
        await leader.add(1)
        await _settle(follower)
        follower.store.disconnect()
        for _ in range(3):
            await leader.add(1)
        leader.store.server.compact()
        follower.heard.clear()
        follower.store.reconnect()
        await follower.host.clock.sleep(5.0)
        assert follower.total == 4
        assert [type(change) for change in follower.heard] == [Reloaded]
        await leader.add(1)
        await _settle(follower)
        assert follower.total == 5

    run(scenario())


def test_a_leader_of_a_restored_store_steps_down() -> None:
    async def scenario() -> None:
        leader, _ = await _two()
        await leader.add(1)
        backup = leader.store.server.backup()
        await leader.add(1)
        leader.store.server.restore(backup)
        await leader.host.clock.sleep(5.0)
        assert leader.office.reasons == ["the store was restored from a backup"]
        assert leader.total == 1

    run(scenario())


@pytest.mark.parametrize("garbage", [b"not json", b"{}"])
def test_an_event_that_does_not_decode_ends_deciding(garbage: bytes) -> None:
    async def scenario() -> None:
        leader, follower = await _two()
        await leader.add(1)
        fence = leader.office.require_leader().leader.fence
        leader.store.server.append(TOTAL, [garbage], 1, fence)
        await _settle(leader)
        for seat in (leader, follower):
            assert seat.aggregates.corrupt is not None
            assert seat.aggregates.corrupt.metadata == {"history": "registry/counter/total", "sequence": "2"}
            assert seat.total == 1
        assert len(leader.office.reasons) == 1
        with pytest.raises(CorruptHistory):
            await leader.add(1)
        fresh = await Seat("c", leader.store.server).follow()
        assert fresh.aggregates.corrupt is not None
        with pytest.raises(CorruptHistory):
            await fresh.aggregates.catch_up()

    run(scenario())


def test_a_history_of_an_unknown_kind_ends_deciding() -> None:
    async def scenario() -> None:
        leader, follower = await _two()
        fence = leader.office.require_leader().leader.fence
        leader.store.server.append(HistoryId("registry", "novelty", "x"), [b"{}"], 0, fence)
        await _settle(follower)
        assert follower.aggregates.corrupt is not None
        assert "unknown kind" in follower.aggregates.corrupt.message

    run(scenario())


def test_events_are_listed_and_watched_under_a_prefix() -> None:
    async def scenario() -> None:
        leader, follower = await _two()
        await leader.add(1)
        await leader.add(2)
        listed = await follower.aggregates.events(TOTAL, 2)
        assert [(record.sequence, record.event) for record in listed] == [(2, Added(2))]
        watch = follower.aggregates.watch_events("counter/total", leader.aggregates.revision)
        await leader.aggregates.execute(COUNTERS, "other", Add(1), actor="x")
        await leader.add(3)
        record = await anext(watch)
        assert (record.sequence, record.event, record.revision) == (3, Added(3), leader.aggregates.revision)

    run(scenario())
