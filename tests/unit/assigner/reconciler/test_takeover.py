"""A new leader's way through many groups: in slices; no member loses a lease before its group's turn."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Final, cast

import pytest
from prometheus_client import generate_latest

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2
from braid.host.system import SystemTasks
from braid.kernel.limits.assigner.leases import DEADLINE_BEAT_SECONDS, JOIN_TURN_SECONDS, LEADER_GRACE_SECONDS
from braid.kernel.limits.runtime import SLICE_SECONDS
from braid.runtime.replica import Replica
from services.assigner.liveness.member_deadlines import MemberDeadlines, grace_seconds
from services.assigner.model.group import Group
from services.assigner.reconciler.group_loop import GROUPS
from services.assigner.reconciler.group_queue import GroupQueue
from services.assigner.reconciler.takeover import Takeover
from tests.support.metered_clock import MeteredClock
from tests.unit.assigner.groups import joined, member
from tests.unit.assigner.mesh import Mesh, Participant
from tests.unit.assigner.reconciler.terms import check, run

STEP_SECONDS: Final = 0.0004
COUNT: Final = 1_000


@dataclass
class Histories:
    """Groups with one member each, as a replica has them, and what a takeover does with them."""

    clock: MeteredClock = field(default_factory=MeteredClock)
    groups: dict[str, Group] = field(default_factory=dict)
    queued: list[str] = field(default_factory=list)
    followed: list[Group] = field(default_factory=list)

    def __post_init__(self) -> None:
        state = joined(1).state
        self.groups = {name: replace(state, name=name) for name in (f"g{number:04d}" for number in range(COUNT))}
        self.deadlines = MemberDeadlines(self.clock.elapsed())

    def takeover(self) -> Takeover:
        """Returns a takeover of these groups."""
        aggregates = SimpleNamespace(
            states=lambda kind: dict(self.groups), state=lambda kind, name: self.groups.get(name, Group(name))
        )
        host = SimpleNamespace(clock=self.clock, tasks=SystemTasks(None))
        replica = SimpleNamespace(aggregates=aggregates, host=host, instance="assigner-0")
        queue = SimpleNamespace(add=lambda names, cause: self.queued.extend(names))
        return Takeover(cast("Replica", replica), self.deadlines, cast("GroupQueue", queue), self._follow)

    def _follow(self, state: Group) -> None:
        self.clock.work(STEP_SECONDS)
        self.followed.append(state)


async def over(takeover: Takeover) -> None:
    """Waits until every group had its turn."""
    for _ in range(COUNT):
        await asyncio.sleep(0)
    assert takeover.over


def test_a_thousand_groups_are_taken_over_in_slices() -> None:
    async def scenario() -> None:
        histories = Histories()
        takeover = histories.takeover()
        takeover.begin()
        await over(takeover)
        assert histories.queued == [*histories.groups]
        assert histories.followed == [*histories.groups.values()]
        assert histories.clock.longest <= SLICE_SECONDS + STEP_SECONDS

    asyncio.run(scenario())


def test_a_group_is_taken_over_as_it_is_when_its_turn_comes() -> None:
    async def scenario() -> None:
        histories, name = Histories(), f"g{COUNT - 1:04d}"
        takeover = histories.takeover()
        takeover.begin()
        await asyncio.sleep(0)
        assert not takeover.over and name not in histories.queued
        empty = histories.groups[name] = histories.groups[name].without_members(member(1))
        await over(takeover)
        assert histories.followed[-1] is empty
        found = missed(histories)
        assert name not in found and "g0000" in found

    asyncio.run(scenario())


def test_members_have_their_time_from_their_groups_turn_on() -> None:
    async def scenario() -> None:
        histories = Histories()
        began = histories.clock.elapsed()
        takeover = histories.takeover()
        takeover.begin()
        await over(takeover)
        grace = grace_seconds(histories.groups["g0000"], max(LEADER_GRACE_SECONDS, COUNT * JOIN_TURN_SECONDS))
        found = missed(histories)
        first, last = found["g0000"], found[f"g{COUNT - 1:04d}"]
        assert first >= began + grace
        assert last - first == pytest.approx((COUNT - 1) * STEP_SECONDS, abs=3 * DEADLINE_BEAT_SECONDS)

    asyncio.run(scenario())


def missed(histories: Histories) -> dict[str, float]:
    """When the deadline of each group's member is missed; looks at every beat for a while."""
    found, now = dict[str, float](), histories.clock.elapsed()
    for beat in range(round(10.0 / DEADLINE_BEAT_SECONDS)):
        at = now + beat * DEADLINE_BEAT_SECONDS
        found |= {key.group: at for key in histories.deadlines.missed_members(at)}
    return found


def test_a_way_that_begins_anew_leaves_the_old_one() -> None:
    async def scenario() -> None:
        histories = Histories()
        takeover = histories.takeover()
        takeover.begin()
        await asyncio.sleep(0)
        begun = list(histories.queued)
        takeover.begin()
        await over(takeover)
        assert histories.queued == [*begun, *histories.groups]
        takeover.stop()
        assert takeover.over

    asyncio.run(scenario())


# --- whole assigners


async def create(mesh: Mesh, name: str, *streams: str) -> None:
    """A group without members."""
    request = api.CreateGroupRequest(name=name, spec=group_pb2.GroupSpec(streams=streams))
    await mesh.client("asker").unary("CreateGroup", request, group_pb2.Group)


def decisions(replica: Replica) -> int:
    """How often this replica decided on a group."""
    lines = generate_latest(replica.metrics.registry).decode().splitlines()
    (found,) = [line for line in lines if line.startswith("braid_decide_seconds_count") and 'kind="group"' in line]
    return int(float(found.rpartition(" ")[2]))


def test_a_changed_channel_wakes_the_groups_that_read_its_stream() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start(channels=["logs/live/1", "carts/live/1"])
        for number in range(20):
            await create(mesh, f"of-carts-{number}", "carts")
        one = Participant(mesh, "web-1")
        await mesh.settled(1, 4)
        leader = await mesh.leader()
        await mesh.host.clock.sleep(1.0)
        before = decisions(leader)
        mesh.channel("logs/live/2")
        assert await mesh.until(lambda: len(one.holds) == 8) < 0.1
        await mesh.host.clock.sleep(1.0)
        assert 1 <= decisions(leader) - before <= 5, "one group had something to decide"
        await check(mesh)

    run(scenario())


@pytest.mark.parametrize("told", [(), ("carts/live/1",)])
def test_a_cluster_elsewhere_wakes_every_group(told: Sequence[str]) -> None:
    async def scenario() -> None:
        mesh = await Mesh().start(channels=["logs/live/1", "carts/live/1"])
        for number in range(20):
            await create(mesh, f"of-logs-{number}", "logs")
        leader = await mesh.leader()
        await mesh.host.clock.sleep(1.0)
        before = decisions(leader)
        mesh.registry.bootstraps["west"] = "west:9093"
        mesh.registry.set(told[0] if told else "other/live/1")
        await mesh.host.clock.sleep(1.0)
        assert decisions(leader) - before >= 20
        await check(mesh)

    run(scenario())


def test_a_new_leader_takes_all_groups_over_and_decides_in_each() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start(assigners=2)
        for number in range(50):
            await create(mesh, f"of-logs-{number}", "logs")
        members = await mesh.joined(2)
        first = await mesh.leader()
        mesh.processes[first.instance].kill()
        second = await mesh.leader()
        await mesh.settled(2)
        await mesh.host.clock.sleep(1.0)
        assert decisions(second) >= 51
        members[0].kill()
        assert await mesh.settled(1) < 0.05
        assert len(second.aggregates.states(GROUPS)) == 51
        await check(mesh)

    run(scenario())
