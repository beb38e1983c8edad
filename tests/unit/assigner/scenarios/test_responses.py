"""A group answers lag: lagmon is asked, the leader decides, members that can are told; others are not."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from prometheus_client import generate_latest

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2, join_pb2, responses_pb2
from braid.api.lagmon.v1 import lag_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as lagmon
from braid.kernel.errors import Unavailable
from braid.kernel.ids import LeaseId
from braid.kernel.ports import Caller, RpcService
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.methods import method_path, unary
from braid.runtime.histories.kinds import AnyKind
from braid.runtime.replica import Replica
from braid.stores.memory import MemoryStore
from services.assigner.domain.explain import explain
from services.assigner.model.backlog_splits import SplitAsked
from services.assigner.model.events import Event
from services.assigner.model.group import Group
from services.assigner.model.lag.response_events import ResponseTaken, ResponseUndone
from services.assigner.model.lag.responses import ResponseKind, ResponseState
from services.assigner.policy.responses import answering
from tests.support.virtual_time import run_virtual
from tests.unit.assigner.groups import context
from tests.unit.assigner.mesh import Mesh, Participant

KINDS = responses_pb2.ResponseKind
LATE: Mapping[str, tuple[float, int]] = {"live": (30.0, 3_000), "bulk": (60.0, 9_000)}
CALM: Mapping[str, tuple[float, int]] = {"live": (0.0, 0), "bulk": (0.0, 0)}


def policy(kind: "KINDS.ValueType", **given: float) -> responses_pb2.ResponsePolicy:
    return responses_pb2.ResponsePolicy(kind=kind, mode=responses_pb2.RESPONSE_MODE_AUTOMATIC, **given)  # type: ignore[arg-type]


SHIFT = policy(responses_pb2.RESPONSE_KIND_SHIFT_SHARES)


class ToldLagmon:
    """A lagmon that says what the test wants of a group at this moment."""

    name = "lagmon"
    kinds: Mapping[str, AnyKind] = {}

    def __init__(self) -> None:
        self.lanes = dict(LATE)
        self.silent = self.stale = False

    def rpc(self, replica: Replica) -> RpcService:
        """See `Service`."""

        async def lag(request: lagmon.ListLagRequest, caller: Caller) -> lagmon.ListLagResponse:
            if self.silent:
                raise Unavailable("not now")
            partitions = range(4) if request.detail == lag_pb2.LAG_DETAIL_PARTITION else [-1]
            rows = [
                lag_pb2.Lag(
                    group=request.filter.group,
                    stream="logs",
                    lane=lane,
                    topic=f"braid.logs.{lane}.1",
                    partition=partition,
                    lag_seconds=seconds,
                    lag_records=records,
                    stale=self.stale,
                )
                for lane, (seconds, records) in self.lanes.items()
                for partition in partitions
            ]
            return lagmon.ListLagResponse(lags=rows)

        return RpcService(self.name, {method_path(self.name, "ListLag"): unary(lagmon.ListLagRequest, lag)}, {}, {})

    async def lead(self, replica: Replica) -> None:
        """Nothing to decide."""

    async def follow(self, replica: Replica) -> None:
        """Nothing to follow."""


class AnsweringMesh(Mesh):
    """Assigners, a registry with a lag target, a lagmon, and two members: one divides its work as it is told."""

    def __init__(self, participant: type[Participant] = Participant) -> None:
        super().__init__()
        self.participant = participant
        self.lagmon = ToldLagmon()
        self.registry.lag_targets = {"live": "10s"}

    async def begin(self, *policies: responses_pb2.ResponsePolicy, assigners: int = 1) -> "AnsweringMesh":
        """Starts all."""
        process = self._process("lagmon-0")
        store, transport = MemoryStore(process.host, self.server), MemoryTransport(self.network, "lagmon-0")
        replica = Replica(self.lagmon, process.host, store, transport, address="lagmon-0:1", instance="lagmon-0")
        process.tasks.spawn(replica.run(), "run")
        await replica.ready()
        await self.start(assigners, ("logs/live/1", "logs/bulk/1"))
        self.modern = self.participant(self, "web-1", lease_ms=60_000, handlers=(8, 12))
        self.older = self.participant(self, "web-2", lease_ms=60_000)
        await self.settled(2)
        await self.set(*policies)
        return self

    async def set(self, *policies: responses_pb2.ResponsePolicy) -> group_pb2.Group:
        """Sets policies."""
        request = api.SetResponsesRequest(group="indexer", policies=policies)
        return await self.client("cli").unary("SetResponses", request, group_pb2.Group, timeout_seconds=8)

    async def answers(self) -> Sequence[Event]:
        """The responses in the history."""
        return [each for each in await self.events() if isinstance(each, ResponseTaken | ResponseUndone)]

    @property
    def shares(self) -> Mapping[str, int]:
        """The shares that the modern member was told last."""
        return dict(self.modern.divisions[-1].shares)


def rows(replica: Replica) -> Mapping[str, float]:
    """The metrics about responses that a replica exports."""
    lines = generate_latest(replica.metrics.registry).decode().splitlines()
    found = [line.rpartition(" ") for line in lines if line.startswith("braid_group_")]
    return {name.removeprefix("braid_group_"): float(figure) for name, _, figure in found}


class Refusing(Participant):
    """A member that splits no lease, as a planner of a Spark query."""

    def split(self, asked: join_pb2.SplitBacklog) -> None:
        """See `LeaseListener`."""
        refused = join_pb2.SplitLease(lease=asked.lease, epoch=asked.epoch, at=-1, refused="it keeps an order")
        self.process.tasks.spawn(self.session.divided([refused]), "refused")


def test_the_leader_alone_exports_what_is_in_force() -> None:
    """The wiring of the term: rows follow the histories, counters the changes, and a new leader shows the same."""

    async def scenario() -> None:
        mesh = await AnsweringMesh().begin(SHIFT, assigners=2)
        await mesh.until(lambda: bool(mesh.shares), 20.0)
        await mesh.host.clock.sleep(5.0)
        leader = await mesh.leader()
        other = mesh.replicas["assigner-1" if leader.instance == "assigner-0" else "assigner-0"]
        applied = 'responses{group="indexer",kind="shift-shares",state="applied"}'
        counted = 'response_changes_total{group="indexer",kind="shift-shares",outcome="applied"}'
        assert rows(leader) == {applied: 1.0, counted: 1.0}
        assert not rows(other)
        mesh.processes[leader.instance].kill()
        assert await mesh.leader() is other
        await mesh.host.clock.sleep(5.0)
        assert rows(other) == {applied: 1.0}, "it counts the changes that it made itself"
        mesh.lagmon.lanes = dict(CALM)
        await mesh.until(lambda: mesh.shares == {}, 90.0)
        await mesh.host.clock.sleep(5.0)
        assert rows(other) == {counted.replace("applied", "undone"): 1.0}

    run_virtual(scenario())


def test_a_late_lane_gets_shares_until_it_has_healed() -> None:
    async def scenario() -> None:
        mesh = await AnsweringMesh().begin(SHIFT)
        assert mesh.shares == {}
        await mesh.until(lambda: bool(mesh.shares), 20.0)
        assert mesh.shares == {"live": 4, "bulk": 1}
        assert [dict(each.shares) for each in mesh.older.divisions] == [{}], "the welcome's; it cannot be told"
        mesh.lagmon.lanes = dict(CALM)
        await mesh.until(lambda: mesh.shares == {}, 60.0)
        taken, undone = await mesh.answers()
        assert isinstance(taken, ResponseTaken) and isinstance(undone, ResponseUndone)
        assert (
            "logs/live is 30 s behind, beyond its target of 10 s, beside logs/bulk with 9,000 records" in taken.reason
        )
        told = explain(
            LeaseId.parse("logs/live/1/0"), [(1, taken, context()), (2, undone, context())], Group("indexer")
        )
        assert [each.text.partition(":")[0] for each in told] == [
            "The group's response 'shift shares' was applied",
            "The group's response 'shift shares' was undone",
        ]
        mesh.lagmon.lanes = dict(LATE)
        await asyncio.sleep(1_000.0)
        assert len(await mesh.answers()) == 2, "nothing undone is done again within an hour"

    run_virtual(scenario())


def test_a_new_leader_tells_the_shares_with_its_welcome() -> None:
    async def scenario() -> None:
        mesh = await AnsweringMesh().begin(SHIFT, assigners=2)
        await mesh.until(lambda: bool(mesh.shares), 20.0)
        leader = (await mesh.leader()).instance
        told = len(mesh.modern.divisions)
        mesh.processes[leader].kill()
        await mesh.until(lambda: len(mesh.modern.divisions) > told, 30.0)
        assert mesh.shares == {"live": 4, "bulk": 1}
        await asyncio.sleep(50.0)
        assert len(await mesh.answers()) == 1, "the new leader changed nothing by itself"

    run_virtual(scenario())


def test_lag_that_is_not_known_changes_nothing() -> None:
    async def scenario() -> None:
        mesh = AnsweringMesh()
        mesh.lagmon.stale = True
        await mesh.begin(SHIFT)
        await asyncio.sleep(60.0)
        mesh.lagmon.stale, mesh.lagmon.silent = False, True
        await asyncio.sleep(60.0)
        assert not await mesh.answers()

    run_virtual(scenario())


def test_backlogs_are_split_within_the_budget() -> None:
    async def scenario() -> None:
        mesh = await AnsweringMesh().begin(policy(responses_pb2.RESPONSE_KIND_SPLIT_BACKLOG, budget=2))
        await mesh.until(lambda: len(mesh.state().splits) == 2, 60.0)
        taken = [each for each in await mesh.answers() if isinstance(each, ResponseTaken)]
        assert {each.kind for each in taken} == {ResponseKind.SPLIT_BACKLOG}
        asked = [each.lease for each in await mesh.events() if isinstance(each, SplitAsked)]
        assert asked == [each.subject for each in taken]

    run_virtual(scenario())


def test_a_refused_split_is_told_once_and_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(answering, "RESPONSE_AGAIN_SECONDS", 0.0)  # it must hold for longer than the hour
        mesh = AnsweringMesh(Refusing)
        await mesh.begin(policy(responses_pb2.RESPONSE_KIND_SPLIT_BACKLOG, budget=4))
        await asyncio.sleep(200.0)
        taken, undone = await mesh.answers()
        assert isinstance(taken, ResponseTaken) and isinstance(undone, ResponseUndone)
        assert (undone.key, undone.reason) == (taken.key, "its holder did not split it: it keeps an order")
        asked = [each.lease for each in await mesh.events() if isinstance(each, SplitAsked)]
        assert asked == [taken.subject], "no other lease of the lane was asked for, nor this one again"

    run_virtual(scenario())


def test_handlers_are_asked_for_within_what_members_declare() -> None:
    async def scenario() -> None:
        mesh = await AnsweringMesh().begin(policy(responses_pb2.RESPONSE_KIND_RAISE_CONCURRENCY, reach=1.5))
        await asyncio.sleep(60.0)
        assert not await mesh.answers(), "handlers are idle: more of them would not help"
        mesh.modern.loads = [
            join_pb2.LeaseLoad(lease=str(lease), records=100, busy_micros=4_000_000) for lease in mesh.modern.holds
        ]
        await mesh.until(lambda: mesh.modern.divisions[-1].concurrency == 1.5, 120.0)
        (taken,) = await mesh.answers()
        assert isinstance(taken, ResponseTaken) and taken.state is ResponseState.APPLIED

    run_virtual(scenario())
