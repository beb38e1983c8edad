"""A group that is late asks for members: lagmon is asked, the leader decides, KEDA is told by any replica."""

import asyncio
from collections.abc import AsyncIterator, Mapping

import pytest

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2, scaling_pb2
from braid.api.keda import externalscaler_pb2 as keda
from braid.api.lagmon.v1 import lag_history_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as lagmon
from braid.kernel.errors import BraidError, Invalid, NotFound, Refused, Unavailable
from braid.kernel.limits.assigner.scaling import SCALER_STREAMS_SECONDS
from braid.kernel.ports import Caller, CallOptions, RpcService
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.methods import method_path, unary
from braid.runtime.histories.kinds import AnyKind
from braid.runtime.replica import Replica
from braid.stores.memory import MemoryStore
from services.assigner.model.lag.scaling_events import CapacityDesired
from services.assigner.peers import read_lane
from tests.support.virtual_time import run_virtual
from tests.unit.assigner.mesh import Mesh, Participant

LATE = {"lag_seconds": 90.0, "lag_records": 9_000, "produced_per_s": 100.0, "done_per_s": 80.0}
CALM = {"lag_seconds": 0.0, "lag_records": 0, "produced_per_s": 100.0, "done_per_s": 100.0}
AUTOMATIC = scaling_pb2.ScalingPolicy(
    mode=scaling_pb2.SCALING_MODE_AUTOMATIC, max_members=8, cooldown_seconds=15, window_seconds=300
)


class ToldLagmon:
    """A lagmon that says what the test wants."""

    name = "lagmon"
    kinds: Mapping[str, AnyKind] = {}

    def __init__(self) -> None:
        self.lag: dict[str, float] = dict(LATE)
        self.silent = self.stale = False
        self.asked = 0

    def rpc(self, replica: Replica) -> RpcService:
        """See `Service`."""

        async def history(request: lagmon.ListLagHistoryRequest, caller: Caller) -> lagmon.ListLagHistoryResponse:
            self.asked += 1
            if self.silent:
                raise Unavailable("not now")
            now_ms = replica.host.clock.now_ms()
            ends = range(now_ms - now_ms % 10_000 - 60_000, now_ms, 10_000)
            steps = [lag_history_pb2.LagStep(time_ms=at, stale=self.stale, **self.lag) for at in ends]  # type: ignore[arg-type]
            told = lag_history_pb2.LagHistory(group=request.filter.group, stream="logs", lane="live", steps=steps)
            return lagmon.ListLagHistoryResponse(histories=[told], time_ms=now_ms, step_ms=10_000)

        path = method_path(self.name, "ListLagHistory")
        return RpcService(self.name, {path: unary(lagmon.ListLagHistoryRequest, history)}, {}, {})

    async def lead(self, replica: Replica) -> None:
        """Nothing to decide."""

    async def follow(self, replica: Replica) -> None:
        """Nothing to follow."""


class ScaledMesh(Mesh):
    """Assigners, a registry with a lag target, and a lagmon."""

    def __init__(self) -> None:
        super().__init__()
        self.lagmon = ToldLagmon()
        self.registry.lag_targets = {"live": "10s"}

    async def begin(self, assigners: int = 1, policy: scaling_pb2.ScalingPolicy = AUTOMATIC) -> "ScaledMesh":
        """Starts all, with two members and a policy."""
        process = self._process("lagmon-0")
        store, transport = MemoryStore(process.host, self.server), MemoryTransport(self.network, "lagmon-0")
        replica = Replica(self.lagmon, process.host, store, transport, address="lagmon-0:1", instance="lagmon-0")
        process.tasks.spawn(replica.run(), "run")
        await replica.ready()
        await self.start(assigners)
        await self.joined(2, lease_ms=60_000)  # with few heartbeats, which cost time
        await self.set(policy)
        return self

    async def set(self, policy: scaling_pb2.ScalingPolicy, group: str = "indexer") -> group_pb2.Group:
        """Sets the policy."""
        request = api.SetScalingRequest(group=group, policy=policy)
        return await self.client("cli").unary("SetScaling", request, group_pb2.Group, timeout_seconds=8)

    @property
    def desired(self) -> int:
        """The number of members that is desired."""
        desired = self.state().scaling.desired
        return desired.members if desired else 0

    async def numbers(self) -> list[int]:
        """All numbers in the history."""
        return [each.members for each in await self.events() if isinstance(each, CapacityDesired)]

    async def scaler(self, method: str, metadata: Mapping[str, str], replica: str = "assigner-0") -> object:
        """Asks a replica as KEDA does."""
        channel = MemoryTransport(self.network, "keda").channel(f"{replica}:1")
        ref = keda.ScaledObjectRef(name="indexer", namespace="apps", scalerMetadata=metadata)
        path, options = f"/externalscaler.ExternalScaler/{method}", CallOptions(5.0)
        if method == "GetMetrics":
            request = keda.GetMetricsRequest(scaledObjectRef=ref, metricName=metadata.get("metric", "desired-members"))
            return await channel.unary(path, request, keda.GetMetricsResponse, options)
        answer = keda.IsActiveResponse if method == "IsActive" else keda.GetMetricSpecResponse
        return await channel.unary(path, ref, answer, options)

    async def metric(self, replica: str = "assigner-0") -> int:
        """The metric that KEDA reads."""
        told = await self.scaler("GetMetrics", {"group": "indexer"}, replica)
        assert isinstance(told, keda.GetMetricsResponse)
        (value,) = told.metricValues
        assert value.metricValue == value.metricValueFloat
        return value.metricValue


def test_a_late_group_asks_for_members_and_says_why() -> None:
    async def scenario() -> None:
        mesh = await ScaledMesh().begin()
        assert mesh.desired == 2
        await mesh.until(lambda: mesh.desired == 4, 120)
        told = await mesh.client("cli").unary(
            "GetGroup", api.GetGroupRequest(name="indexer"), group_pb2.Group, timeout_seconds=8
        )
        assert told.scaling.desired.reason.startswith(
            "logs/live is 90 s behind, beyond its target of 10 s; 100 records"
        )
        assert told.scaling.desired.members == 4 and told.status.members == 2
        assert await mesh.metric() == 4
        await mesh.host.clock.sleep(120)
        assert await mesh.numbers() == [2, 4], "those that were asked for are waited for"

    run_virtual(scenario())


def test_stale_or_unknown_lag_changes_nothing() -> None:
    async def scenario() -> None:
        mesh = ScaledMesh()
        mesh.lagmon.silent = True
        await mesh.begin()
        await mesh.host.clock.sleep(70)
        mesh.lagmon.silent, mesh.lagmon.stale, mesh.registry.lag_targets = False, True, {}
        await mesh.host.clock.sleep(70)  # a target that was read counts for a minute
        mesh.lagmon.stale = False
        await mesh.host.clock.sleep(70)
        assert mesh.lagmon.asked > 10 and await mesh.numbers() == [2]

    run_virtual(scenario())


def test_a_group_without_a_policy_costs_no_call() -> None:
    async def scenario() -> None:
        mesh = await ScaledMesh().begin(policy=scaling_pb2.ScalingPolicy(mode=scaling_pb2.SCALING_MODE_OFF))
        await mesh.host.clock.sleep(100)
        assert mesh.lagmon.asked == 0 and await mesh.numbers() == []

    run_virtual(scenario())


def test_a_calm_group_gives_members_back_after_its_window() -> None:
    async def scenario() -> None:
        mesh = ScaledMesh()
        mesh.lagmon.lag = dict(CALM)
        await mesh.begin()
        await mesh.host.clock.sleep(299)
        assert mesh.desired == 2
        await mesh.until(lambda: mesh.desired == 1, 30)
        assert "lag kept its target for 5 min" in (mesh.state().scaling.desired or pytest.fail("none")).reason

    run_virtual(scenario())


def test_a_new_leader_keeps_the_number_and_tells_it() -> None:
    async def scenario() -> None:
        mesh = await ScaledMesh().begin(assigners=2)
        await mesh.until(lambda: mesh.desired == 4, 120)
        leader = (await mesh.leader()).instance
        other = "assigner-1" if leader == "assigner-0" else "assigner-0"
        mesh.processes[leader].kill()
        assert await mesh.metric(other) == 4, "while nobody leads"
        await mesh.leader()
        await mesh.host.clock.sleep(60)
        assert await mesh.metric(other) == 4 and await mesh.numbers() == [2, 4]

    run_virtual(scenario())


def test_a_scaler_reads_one_number_while_the_leader_changes() -> None:
    """KEDA asks any replica that lives, before, while and after another takes the lead: no answer differs or fails."""

    async def scenario() -> None:
        mesh = await ScaledMesh().begin(assigners=3)
        await mesh.until(lambda: mesh.desired == 4, 120)
        told: list[int] = []
        alive = ["assigner-0", "assigner-1", "assigner-2"]

        async def ask(seconds: float) -> None:
            end = mesh.host.clock.elapsed() + seconds
            while mesh.host.clock.elapsed() < end:
                told.extend([await mesh.metric(each) for each in alive])
                assert await mesh.scaler("IsActive", {"group": "indexer"}, alive[0]) == keda.IsActiveResponse(
                    result=True
                )
                await mesh.host.clock.sleep(0.1)

        for _ in range(2):
            await ask(1.0)
            leader = (await mesh.leader()).instance
            alive.remove(leader)
            mesh.processes[leader].kill()
            await ask(10.0)
            assert (await mesh.leader()).instance in alive
        assert len(told) > 300 and set(told) == {4}
        assert await mesh.numbers() == [2, 4]

    run_virtual(scenario())


def test_a_restored_store_sends_no_member_away() -> None:
    async def scenario() -> None:
        mesh = await ScaledMesh().begin()
        backup = mesh.server.backup()
        for number in (3, 4, 5):
            Participant(mesh, f"web-{number}", lease_ms=60_000)
        await mesh.settled(5, 4)
        mesh.server.restore(backup)
        await mesh.host.clock.sleep(10)
        with pytest.raises((Refused, Unavailable)):
            await mesh.metric()
        await mesh.host.clock.sleep(90)
        assert (await mesh.metric(), mesh.desired) == (5, 5)
        desired = mesh.state().scaling.desired
        assert desired is not None and "where 2 were desired; 5 members are here" in desired.reason

    run_virtual(scenario())


def test_keda_is_refused_by_what_it_did_wrong() -> None:
    async def scenario() -> None:
        mesh = await ScaledMesh().begin(
            policy=scaling_pb2.ScalingPolicy(mode=scaling_pb2.SCALING_MODE_PROPOSE, max_members=8)
        )
        cases: list[tuple[str, dict[str, str], type[BraidError]]] = [
            ("IsActive", {}, Invalid),
            ("GetMetricSpec", {"group": "nobody"}, NotFound),
            ("GetMetrics", {"group": "indexer"}, Refused),
        ]
        for method, metadata, error in cases:
            with pytest.raises(error) as refused:
                await mesh.scaler(method, metadata)
            assert refused.value.remedy
        await mesh.until(lambda: mesh.desired == 4, 120)
        await mesh.set(AUTOMATIC)
        assert await mesh.scaler("IsActive", {"group": "indexer"}) == keda.IsActiveResponse(result=True)
        spec = keda.MetricSpec(metricName="desired-members", targetSize=1, targetSizeFloat=1)
        assert await mesh.scaler("GetMetricSpec", {"group": "indexer"}) == keda.GetMetricSpecResponse(
            metricSpecs=[spec]
        )
        assert await mesh.metric() == 4
        with pytest.raises(Invalid, match="there is no metric 'lag'"):
            await mesh.scaler("GetMetrics", {"group": "indexer", "metric": "lag"})

    run_virtual(scenario())


def test_a_stream_tells_each_change_and_that_it_lives() -> None:
    async def scenario() -> None:
        mesh = await ScaledMesh().begin()
        channel = MemoryTransport(mesh.network, "keda").channel("assigner-0:1")
        ref = keda.ScaledObjectRef(scalerMetadata={"group": "indexer"})
        path = "/externalscaler.ExternalScaler/StreamIsActive"
        told: AsyncIterator[object] = channel.server_stream(path, ref, keda.IsActiveResponse, CallOptions(600.0))
        before = mesh.host.clock.elapsed()
        assert await anext(told) == keda.IsActiveResponse(result=True)
        await anext(told)
        assert mesh.host.clock.elapsed() - before == pytest.approx(SCALER_STREAMS_SECONDS, abs=0.5)
        listening = asyncio.ensure_future(anext(told))
        await mesh.until(lambda: mesh.desired == 4, 120)
        await asyncio.wait_for(listening, SCALER_STREAMS_SECONDS)
        await mesh.set(scaling_pb2.ScalingPolicy(mode=scaling_pb2.SCALING_MODE_OFF))
        with pytest.raises(Refused):
            while True:
                await anext(told)

    run_virtual(scenario())


def test_the_request_names_the_field_at_fault() -> None:
    async def scenario() -> None:
        mesh = await ScaledMesh().begin()
        for policy, field in (
            (scaling_pb2.ScalingPolicy(max_members=3), "policy.mode"),
            (scaling_pb2.ScalingPolicy(mode=scaling_pb2.SCALING_MODE_PROPOSE), "policy.max_members"),
            (scaling_pb2.ScalingPolicy(mode=scaling_pb2.SCALING_MODE_PROPOSE, min_members=0), "policy.min_members"),
        ):
            with pytest.raises(Invalid) as refused:
                await mesh.set(policy)
            assert refused.value.field == field
        with pytest.raises(NotFound):
            await mesh.set(AUTOMATIC, "nobody")

    run_virtual(scenario())


# --- lag as it is read


def steps(*lags: dict[str, float], flags: Mapping[str, bool] | None = None) -> list[lag_history_pb2.LagStep]:
    made = [lag_history_pb2.LagStep(time_ms=1_000_000 + 10_000 * at, **lag) for at, lag in enumerate(lags)]  # type: ignore[arg-type]
    for name, value in (flags or {}).items():
        setattr(made[-1], name, value)
    return made


def test_rates_are_means_and_lag_is_the_last() -> None:
    found = read_lane(steps(LATE, CALM), 1_020_000)
    assert found == (0.0, 0, 100.0, 90.0)
    assert read_lane(steps(LATE, LATE), 1_020_000) == (90.0, 9_000, 100.0, 80.0)


@pytest.mark.parametrize("flag", ["stale", "unknown", "unattended"])
def test_a_flag_makes_the_lag_unknown(flag: str) -> None:
    assert read_lane(steps(LATE, LATE, flags={flag: True}), 1_020_000) is None


def test_old_or_missing_lag_is_unknown() -> None:
    assert read_lane([], 1_000_000) is None
    assert read_lane(steps(LATE), 1_060_000) is None
    assert read_lane(steps({"lag_seconds": 1.0, "lag_records": 1}), 1_000_000) is None
    assert read_lane(steps({"produced_per_s": 1.0, "done_per_s": 1.0}), 1_000_000) is None
