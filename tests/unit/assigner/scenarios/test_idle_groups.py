"""Idle groups: how long they are waited for, by a clock that no step of a wall clock moves, and what is told before."""

import base64
import json
from pathlib import Path

import pytest

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import events_pb2 as pb
from braid.api.assigner.v1 import group_pb2
from braid.kernel.decider import Context
from braid.kernel.limits.assigner.leases import IDLE_CHECK_SECONDS
from braid.kernel.ports import Clock
from braid.kernel.timing.slices import Slices
from braid.runtime.clocks import led_time
from braid.runtime.clocks import waits as runtime_waits
from services.assigner.codec import snapshots
from services.assigner.codec.events import GroupCodec
from services.assigner.domain.idle_wait import IdleWait
from services.assigner.model.commands import (
    JoinMember,
    LookAtIdle,
)
from services.assigner.model.events import (
    Event,
    GroupIdleAlerted,
    GroupIdleExpired,
    GroupUpdated,
)
from services.assigner.model.group import Group
from services.assigner.reconciler import takeover
from tests.unit.assigner.groups import SPEC, hello, member, registered
from tests.unit.assigner.mesh import Mesh, Participant
from tests.unit.assigner.reconciler.terms import run

DAY_MS = 86_400_000
WHOLE = 7 * DAY_MS
GOLDEN = Path("tests/golden/later_events/assigner/group_idle_alerted.json")
CONTEXT = Context(1_722_500_000_123, "assigner-0", "default", "r1", "idle", (3 << 40) | 17)
ALERTED = GroupIdleAlerted(SPEC, 3 * DAY_MS)


# --- on replicas


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts and comparisons come more often than in days."""
    monkeypatch.setattr(runtime_waits, "LED_COUNT_SECONDS", 5.0)
    monkeypatch.setattr(runtime_waits, "CLOCKS_COMPARE_SECONDS", 3.0)
    monkeypatch.setattr(led_time, "LED_GAP_SECONDS", 6.0)


def step(mesh: Mesh, days: float, *names: str) -> None:
    for name in names or mesh.processes:
        mesh.processes[name].clock.skew_ms += round(days * DAY_MS)


async def idle_group(mesh: Mesh, assigners: int = 1, **settings: float) -> None:
    """Group `indexer`, of which the last member is gone."""
    mesh.channel("logs/live/1")
    await mesh.replica("registry-0")
    for number in range(assigners):
        await mesh.replica(f"assigner-{number}", **settings)
    await mesh.leader()
    (one,) = await mesh.joined(1)
    one.kill()
    await mesh.until(lambda: not mesh.state().members)


async def told(mesh: Mesh) -> group_pb2.GroupStatus:
    found = await mesh.client("asker").unary("GetGroup", api.GetGroupRequest(name="indexer"), group_pb2.Group)
    return found.status


async def kinds(mesh: Mesh) -> list[type[Event]]:
    return [type(event) for event in await mesh.events()]


@pytest.mark.parametrize("days", [8.0, -8.0, 1 / 24])
def test_a_step_of_the_leaders_wall_clock_expires_no_group(days: float) -> None:
    async def scenario() -> None:
        mesh = Mesh()
        await idle_group(mesh)
        step(mesh, days)  # all alike: nobody could tell
        await mesh.host.clock.sleep(60)
        assert not mesh.state().idle_expired
        assert not {GroupIdleAlerted, GroupIdleExpired} & {*await kinds(mesh)}

    run(scenario())


def test_a_member_takes_back_an_idle_warning_and_a_give_up() -> None:
    async def scenario() -> None:
        mesh = Mesh()
        await idle_group(mesh, group_idle_expiry_seconds=120.0)
        await mesh.host.clock.sleep(45)
        status = await told(mesh)
        assert not status.idle_alerted and 60_000 <= status.idle_left_ms <= 90_000
        alerted = await mesh.until(lambda: mesh.state().idle_alerted, 45)
        assert not mesh.state().idle_expired
        assert (await told(mesh)).idle_alerted
        gauge = "braid_groups_idle_alerted"
        leader = await mesh.leader()
        expired = await mesh.until(lambda: mesh.state().idle_expired, 90)
        assert alerted < expired and expired >= 60 - 1
        assert (await kinds(mesh))[-1] is GroupIdleExpired
        await mesh.host.clock.sleep(11)
        assert leader.metrics.registry.get_sample_value(gauge) == 1
        again = Participant(mesh, "web-9")
        await mesh.until(lambda: len(again.holds) == 4)
        assert not (mesh.state().idle_expired or mesh.state().idle_alerted)

    run(scenario())


def test_a_wait_survives_its_leader_whatever_the_next_clock_says() -> None:
    async def scenario() -> None:
        mesh = Mesh()
        await idle_group(mesh, 2, group_idle_expiry_seconds=120.0)
        await mesh.host.clock.sleep(50)
        first = await mesh.leader()
        mesh.processes[first.instance].kill()
        (second,) = [name for name in ("assigner-0", "assigner-1") if name != first.instance]
        step(mesh, 8.0, second, "registry-0")
        await mesh.leader()
        await mesh.host.clock.sleep(40)
        assert not mesh.state().idle_expired
        await mesh.until(lambda: mesh.state().idle_expired, 90)  # it was not begun anew

    run(scenario())


class SlowTurns(Slices):
    """Slices after each of which others take longer than a check of idle groups lets pass."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._slow = clock

    async def turn(self) -> None:
        await self._slow.sleep(1.5 * IDLE_CHECK_SECONDS)


def test_a_wait_survives_a_leader_that_comes_to_its_group_late(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        mesh = Mesh()
        await idle_group(mesh, 2, group_idle_expiry_seconds=120.0)
        earlier = api.CreateGroupRequest(name="a-first", spec=group_pb2.GroupSpec(streams=["logs"]))
        await mesh.client("asker").unary("CreateGroup", earlier, group_pb2.Group)
        await mesh.host.clock.sleep(50)
        monkeypatch.setattr(takeover, "Slices", SlowTurns)
        first = await mesh.leader()
        mesh.processes[first.instance].kill()
        await mesh.leader()
        await mesh.until(lambda: mesh.state().idle_expired, 110)  # it was not begun anew

    run(scenario())


def test_while_clocks_disagree_every_group_stays_and_why_is_said() -> None:
    async def scenario() -> None:
        mesh = Mesh()
        await idle_group(mesh, 2, group_idle_expiry_seconds=60.0)
        leader = await mesh.leader()
        step(mesh, 8.0, leader.instance)
        await mesh.host.clock.sleep(300)
        assert not (mesh.state().idle_expired or mesh.state().idle_alerted)
        assert "clocks disagree: " in (await told(mesh)).idle_held
        step(mesh, -8.0, leader.instance)
        await mesh.until(lambda: mesh.state().idle_expired, 90)

    run(scenario())


# --- the rules


def look(state: Group, waited_days: float, alerted_days: float = 0.0) -> LookAtIdle:
    return LookAtIdle(state.idle_since_ms, WHOLE, round(waited_days * DAY_MS), round(alerted_days * DAY_MS))


def test_an_unwarned_group_is_not_given_up_however_long_away() -> None:
    history = registered()
    assert history.do(look(history.state, 3.4)) == []
    assert history.do(look(history.state, 100.0)) == [GroupIdleAlerted(SPEC, round(3.5 * DAY_MS))]
    assert history.do(look(history.state, 100.0, 3.4)) == []
    assert history.do(look(history.state, 6.9, 3.6)) == []
    assert history.do(look(history.state, 100.0, 3.5)) == [GroupIdleExpired()]
    assert history.do(look(history.state, 200.0, 9.9)) == [], "told twice"


def test_looks_at_earlier_waits_or_busy_groups_change_nothing() -> None:
    history = registered()
    late = look(history.state, 100.0, 9.0)
    history.do(JoinMember(hello(member(1)), SPEC))
    assert history.do(late) == []
    other = registered()
    other.state = other.state.idle_from(5_000)
    assert other.do(late) == []


def test_at_least_half_of_the_wait_is_left_after_the_alert() -> None:
    assert IdleWait(WHOLE, 0).left_ms == WHOLE
    assert IdleWait(WHOLE, 6 * DAY_MS).left_ms == 3.5 * DAY_MS
    assert IdleWait(WHOLE, 6 * DAY_MS, 3 * DAY_MS).left_ms == DAY_MS
    assert IdleWait(WHOLE, 9 * DAY_MS, 4 * DAY_MS).left_ms == 0


# --- at rest


def test_the_first_release_folds_an_alert_as_no_change() -> None:
    history = registered()
    data = GroupCodec().encode(ALERTED, CONTEXT)
    message = pb.AssignerEvent.FromString(data)
    message.ClearField("group_idle_alerted")  # which that release passes over
    event, context = GroupCodec().decode(message.SerializeToString())
    assert (event, context) == (GroupUpdated(SPEC), CONTEXT)
    before, after = history.state, history.decider.evolve(history.state, event, context)
    assert (after.spec, after.idle_since_ms, after.idle_expired) == (before.spec, before.idle_since_ms, False)
    told = history.decider.evolve(history.state, ALERTED, context)
    assert told.idle_alerted and told.spec_changes == after.spec_changes


def test_an_alert_round_trips_and_its_golden_file_still_reads() -> None:
    assert GroupCodec().decode(GroupCodec().encode(ALERTED, CONTEXT)) == (ALERTED, CONTEXT)
    golden = json.loads(GOLDEN.read_text())
    assert GroupCodec().decode(base64.b64decode(golden["data"])) == (ALERTED, CONTEXT)
    assert repr(ALERTED) == golden["event"]


def test_an_unknown_fact_is_folded_as_the_event_carrying_it() -> None:
    beside = GroupCodec().encode(GroupUpdated(SPEC), CONTEXT)
    assert GroupCodec().decode(beside + b"\xfa\x7f\x00") == (GroupUpdated(SPEC), CONTEXT), "field 2047, to come"


def test_a_snapshot_keeps_that_it_was_told() -> None:
    history = registered()
    history.do(look(history.state, 4.0))
    assert snapshots.decode(snapshots.encode(history.state)) == history.state
    assert history.state.idle_alerted
