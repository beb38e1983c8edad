"""The aggregate loop over the store in memory, on virtual time: every way a command can end, and following."""

import asyncio

import pytest

from braid.kernel.decider import Context
from braid.kernel.errors import BraidError, Conflict, Fenced, Invalid, NotLeader, OutcomeUnknown
from braid.kernel.limits.runtime import REQUESTS_REMEMBERED_MAX
from braid.kernel.limits.store import APPEND_EVENTS_MAX
from braid.runtime.histories.kinds import Asked, Change, Reloaded
from braid.stores.memory import Fate
from tests.support.counters import COUNTERS, Add, Added, Counter
from tests.unit.runtime.histories.seats import TOTAL, run, settle, two_seats


def test_a_command_is_answered_with_the_state_after_its_events() -> None:
    async def scenario() -> None:
        leader, _ = await two_seats()
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
        leader, follower = await two_seats()
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
        await settle(follower)
        assert follower.total == 3

    run(scenario())


def test_a_decision_cut_off_midway_among_others_is_made_again() -> None:
    """The last of its appends alone tells that it is done, wherever those of the others lie."""

    async def scenario() -> None:
        leader, _ = await two_seats()
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
        leader, _ = await two_seats()
        with pytest.raises(Invalid):
            await leader.add(-1)
        assert (await leader.store.load(TOTAL)).sequence == 0
        assert leader.heard == [Reloaded(leader.heard[0].revision)]

    run(scenario())


def test_nothing_to_do_appends_nothing() -> None:
    async def scenario() -> None:
        leader, _ = await two_seats()
        outcome = await leader.aggregates.execute(COUNTERS, "total", Add(0), actor="alice", request_id="r")
        assert (outcome.state.value, outcome.sequence, list(outcome.events), outcome.repeated) == (0, 0, [], False)
        assert leader.aggregates.histories() == []

    run(scenario())


def test_only_a_leader_decides() -> None:
    async def scenario() -> None:
        _, follower = await two_seats()
        with pytest.raises(NotLeader):
            await follower.add(1)

    run(scenario())


def test_another_leader_does_not_decide_a_repeated_request_again() -> None:
    async def scenario() -> None:
        leader, follower = await two_seats()
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
        leader, _ = await two_seats()
        for number in range(REQUESTS_REMEMBERED_MAX + 1):
            await leader.add(1, request_id=str(number))
        assert await leader.add(1, request_id="1") == REQUESTS_REMEMBERED_MAX + 1
        assert await leader.add(1, request_id="0") == REQUESTS_REMEMBERED_MAX + 2

    run(scenario())


def test_an_unknown_outcome_that_happened_is_read_and_recognised() -> None:
    async def scenario() -> None:
        leader, follower = await two_seats()
        await leader.add(1)
        leader.store.fate = lambda operation: Fate.ANSWER_LOST if operation == "append" else Fate.ANSWERED
        with pytest.raises(OutcomeUnknown):
            await leader.add(5, request_id="r1")
        leader.store.fate = lambda operation: Fate.ANSWERED
        await leader.lead_again()
        assert await leader.add(5, request_id="r1") == 6
        await settle(follower)
        assert follower.total == 6
        told = [record.sequence for change in leader.heard if isinstance(change, Change) for record in change.events]
        assert told == [1, 2]

    run(scenario())


def test_an_unknown_outcome_that_did_not_happen_is_decided_again() -> None:
    async def scenario() -> None:
        leader, _ = await two_seats()
        leader.store.fate = lambda operation: Fate.REQUEST_LOST if operation == "append" else Fate.ANSWERED
        with pytest.raises(OutcomeUnknown):
            await leader.add(5, request_id="r1")
        leader.store.fate = lambda operation: Fate.ANSWERED
        await leader.lead_again()
        assert await leader.add(5, request_id="r1") == 5

    run(scenario())


def test_an_unknown_outcome_is_read_back_before_the_watch_tells() -> None:
    async def scenario() -> None:
        leader, _ = await two_seats()
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
        leader, _ = await two_seats()
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
        leader, _ = await two_seats()
        await leader.add(1)
        fence = leader.office.require_leader().leader.fence
        data = COUNTERS.codec.encode(Added(10), Context(0, "elsewhere"))
        call = asyncio.create_task(leader.add(2))
        leader.store.server.append(TOTAL, [data], 1, fence)
        assert await call == 13

    run(scenario())


def test_endless_conflicts_are_refused() -> None:
    async def scenario() -> None:
        leader, _ = await two_seats()

        async def conflict(*_: object) -> None:
            raise Conflict("again")

        leader.store.append = conflict  # type: ignore[method-assign, assignment]
        with pytest.raises(Conflict, match="under 8 decisions"):
            await leader.add(1)

    run(scenario())


def test_no_answer_once_authority_ended_during_the_append() -> None:
    async def scenario() -> None:
        leader, follower = await two_seats()
        leader.store.latency = lambda operation: 2.0 if operation == "append" else 0.0
        leader.store.fate = lambda operation: Fate.REQUEST_LOST if operation == "renew" else Fate.ANSWERED
        session = leader.office.require_leader().session
        with pytest.raises(NotLeader):
            await leader.add(5, request_id="r1")
        assert leader.host.clock.elapsed() >= session.deadline()
        await settle(follower)
        assert follower.total == 5  # it happened; a repeat at the next leader finds it
        await follower.lead()
        again = await follower.aggregates.execute(COUNTERS, "total", Add(5), actor="x", request_id="r1")
        assert (again.state.value, again.repeated) == (5, True)

    run(scenario())


def test_a_fenced_leader_steps_down_and_says_not_leader() -> None:
    async def scenario() -> None:
        leader, follower = await two_seats()
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
        leader, _ = await two_seats()
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


def test_a_leader_of_a_restored_store_steps_down() -> None:
    async def scenario() -> None:
        leader, _ = await two_seats()
        await leader.add(1)
        backup = leader.store.server.backup()
        await leader.add(1)
        leader.store.server.restore(backup)
        await leader.host.clock.sleep(5.0)
        assert leader.office.reasons == ["the store was restored from a backup"]
        assert leader.total == 1

    run(scenario())
