"""Alerts of whole lag monitors on virtual time: recorded once, in time, also across leaders."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from braid.api.lagmon.v1 import alert_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.api.registry.v1.stream_pb2 import StreamSpec
from braid.kernel.errors import BraidError, Invalid, NotFound
from braid.kernel.ports import CallOptions
from braid.kernel.progress.fields import EnvelopeFields
from braid.rpc.methods import method_path
from services.lagmon.alerts.codec import ALERTS, MESH
from services.lagmon.alerts.decisions.events import AlertFired, AlertResolved
from services.lagmon.kept.files import MemoryFiles
from services.lagmon.servicer.service import Lagmon
from tests.support.virtual_time import run_virtual
from tests.unit.lagmon.mesh import Mesh

Scene = Callable[[Mesh], Coroutine[Any, Any, None]]
FIRING, PENDING = alert_pb2.ALERT_STATE_FIRING, alert_pb2.ALERT_STATE_PENDING
UNATTENDED = "stream/logs/group-unattended/live/g"
PAGE = "stream/logs/lag-page/live/g"


def play(
    scene: Scene, *, clusters: Sequence[str] = ("east",), lagmons: int = 2, files: MemoryFiles | None = None
) -> None:
    async def run() -> None:
        mesh = Mesh(clusters)
        mesh.registry.streams["logs"] = StreamSpec(lag_target={"live": "2s"}, retention_hours=24)
        mesh.channel(partitions=1)
        mesh.assigner.groups = {"g": ["live"]}
        await scene(await mesh.start(lagmons, files))

    run_virtual(run())


async def call(mesh: Mesh, method: str, request: Any, response: Any, instance: str = "lagmon-0") -> Any:
    channel = mesh.transport.channel(f"{instance}:1")
    return await channel.unary(method_path("lagmon", method), request, response, CallOptions(5.0, request_id="r"))


async def alerts(mesh: Mesh, instance: str = "lagmon-0", *, resolved: bool = False) -> dict[str, alert_pb2.Alert]:
    request = api.ListAlertsRequest(include_resolved=resolved)
    return {
        each.name: each for each in (await call(mesh, "ListAlerts", request, api.ListAlertsResponse, instance)).alerts
    }


async def until(mesh: Mesh, name: str, state: int, seconds: float, instance: str = "lagmon-0") -> float:
    """Waits until an alert is in a state; returns how long that took, to a hundredth of the time that it may take."""
    began = mesh.clock.elapsed()
    while (found := (await alerts(mesh, instance, resolved=True)).get(name)) is None or found.state != state:
        assert mesh.clock.elapsed() - began < seconds, found
        await mesh.clock.sleep(max(0.1, seconds / 100))
    return mesh.clock.elapsed() - began


async def told(mesh: Mesh, instance: str = "lagmon-0") -> list[tuple[str, str]]:
    """Reads from the history which alerts fired and were resolved, in order."""
    history = await mesh.replicas[instance].aggregates.events(
        next(iter(mesh.replicas[instance].aggregates.histories()))
    )
    found = []
    for each in history:
        if isinstance(each.event, AlertFired):
            found.append(("fired", each.event.key.name))
        elif isinstance(each.event, AlertResolved):
            found.append(("resolved", each.event.alert))
    return found


def leader(mesh: Mesh) -> str:
    return next(name for name, each in mesh.replicas.items() if name.startswith("lagmon") and each.leading())


async def settled(mesh: Mesh) -> str:
    """Waits until a lag monitor leads, and returns its name."""
    await mesh.clock.sleep(5)
    return leader(mesh)


def test_a_group_without_members_fires_and_is_resolved_once() -> None:
    async def scene(mesh: Mesh) -> None:
        first = await settled(mesh)
        mesh.produce(5)
        await until(mesh, UNATTENDED, PENDING, 2 + 2, first)  # two seconds behind, and two more
        assert 8 < await until(mesh, UNATTENDED, FIRING, 10 + 2, first) < 12
        for instance in ("lagmon-0", "lagmon-1"):
            assert set(await alerts(mesh, instance)) == {UNATTENDED}  # every replica tells of it
        mesh.commit("g", EnvelopeFields(base=5))
        await until(mesh, UNATTENDED, alert_pb2.ALERT_STATE_RESOLVED, 10, first)
        assert await alerts(mesh) == {}
        assert await told(mesh) == [("fired", UNATTENDED), ("resolved", UNATTENDED)]

    play(scene)


def test_a_burnt_budget_pages_at_its_threshold() -> None:
    async def scene(mesh: Mesh) -> None:
        mesh.assigner.members["g"] = 1
        first = await settled(mesh)
        mesh.produce(5)
        await mesh.clock.sleep(2)  # from now on it misses its target; 51.84 s of an hour burn 14.4 budgets
        assert await until(mesh, PAGE, FIRING, 51.84 + 2, first) > 50

    play(scene)


@pytest.mark.parametrize("kept", [True, False])
def test_a_restart_in_a_breach_pages_as_if_it_had_not_been(kept: bool) -> None:
    files = MemoryFiles()

    async def scene(mesh: Mesh) -> None:
        mesh.assigner.members["g"] = 1
        await settled(mesh)
        mesh.produce(5)
        await mesh.clock.sleep(2 + 45)
        mesh.processes["lagmon-0"].kill()
        await mesh.serve("lagmon-2", Lagmon(mesh.kafka.process(), files if kept else MemoryFiles()))
        seconds = await until(mesh, PAGE, FIRING, 70, "lagmon-2")
        assert (seconds < 35) == kept  # 51.84 s of an hour, less what was kept of the 45

    play(scene, lagmons=1, files=files)


def test_a_new_leader_fires_nothing_again_and_resolves() -> None:
    async def scene(mesh: Mesh) -> None:
        first = await settled(mesh)
        mesh.produce(5)
        await until(mesh, UNATTENDED, FIRING, 20, first)
        mesh.processes[first].kill()
        other = next(name for name in ("lagmon-0", "lagmon-1") if name != first)
        del mesh.replicas[first]
        await mesh.clock.sleep(40)
        assert await told(mesh, other) == [("fired", UNATTENDED)]
        mesh.commit("g", EnvelopeFields(base=5))
        await until(mesh, UNATTENDED, alert_pb2.ALERT_STATE_RESOLVED, 10, other)
        assert await told(mesh, other) == [("fired", UNATTENDED), ("resolved", UNATTENDED)]

    play(scene)


def test_a_replica_that_hears_nobody_resolves_nothing() -> None:
    async def scene(mesh: Mesh) -> None:
        first = await settled(mesh)
        mesh.produce(5)
        await until(mesh, UNATTENDED, FIRING, 20, first)
        for instance in ("lagmon-0", "lagmon-1", "registry-0", "assigner-0"):
            mesh.processes[instance].kill()
        await mesh.serve("lagmon-2", Lagmon(mesh.kafka.process()))
        await mesh.clock.sleep(120)
        assert mesh.replicas["lagmon-2"].leading()
        assert set(await alerts(mesh, "lagmon-2")) == {UNATTENDED}

    play(scene)


@pytest.mark.parametrize("registry_dies", [False, True])
def test_a_drain_is_held_only_as_far_as_the_registry_says(registry_dies: bool) -> None:
    async def scene(mesh: Mesh) -> None:
        first = await settled(mesh)
        mesh.channel(partitions=1, state="DRAINING")
        mesh.registry.channels["logs/live/1"].state_since_ms = mesh.clock.now_ms() - 3_595_000
        await mesh.clock.sleep(3)
        if registry_dies:
            mesh.processes["registry-0"].kill()
        await mesh.clock.sleep(120)
        assert set(await alerts(mesh, first)) == (set() if registry_dies else {"stream/logs/drain-held/live"})

    play(scene)


def test_a_cluster_that_is_down_is_one_alert() -> None:
    async def scene(mesh: Mesh) -> None:
        await settled(mesh)
        mesh.registry.health["east"] = "DOWN"
        mesh.produce(5)
        await mesh.clock.sleep(120)
        assert set(await alerts(mesh, leader(mesh))) == {"cluster/east/cluster-down"}
        mesh.registry.health.clear()
        mesh.commit("g", EnvelopeFields(base=5))
        await until(mesh, "cluster/east/cluster-down", alert_pb2.ALERT_STATE_RESOLVED, 10)
        assert await alerts(mesh, leader(mesh)) == {}

    play(scene)


def test_pages_of_alerts_have_each_once() -> None:
    async def scene(mesh: Mesh) -> None:
        first = await settled(mesh)
        mesh.assigner.groups = {f"g{number}": ["live"] for number in range(5)}
        mesh.produce(5)
        await until(mesh, "stream/logs/group-unattended/live/g4", FIRING, 30, first)
        mesh.commit("g0", EnvelopeFields(base=5))
        await until(mesh, "stream/logs/group-unattended/live/g0", alert_pb2.ALERT_STATE_RESOLVED, 15, first)
        names: list[str] = []
        token = ""
        while not names or token:
            request = api.ListAlertsRequest(page_size=2, page_token=token, include_resolved=True)
            page = await call(mesh, "ListAlerts", request, api.ListAlertsResponse, first)
            names += [each.name.rpartition("/")[2] for each in page.alerts]
            token = page.next_page_token
        assert names == ["g1", "g2", "g3", "g4", "g0"]

    play(scene)


def test_a_silenced_alert_still_fires_and_says_so() -> None:
    async def scene(mesh: Mesh) -> None:
        first = await settled(mesh)
        request = api.CreateSilenceRequest(alert=UNATTENDED, lasting_ms=60_000, reason="ticket 17")
        silence = await call(mesh, "CreateSilence", request, alert_pb2.Silence, first)
        assert silence.expire_time_ms - silence.create_time_ms == 60_000
        mesh.produce(5)
        await until(mesh, UNATTENDED, FIRING, 20, first)
        assert (await alerts(mesh, first))[UNATTENDED].silence.reason == "ticket 17"
        await mesh.clock.sleep(60)
        assert not (await alerts(mesh, first))[UNATTENDED].HasField("silence")
        assert mesh.replicas[first].aggregates.state(ALERTS, MESH).silences == {}

    play(scene)


@pytest.mark.parametrize(
    ("method", "request_", "error"),
    [
        ("GetAlert", api.GetAlertRequest(name=UNATTENDED), NotFound),
        ("GetAlert", api.GetAlertRequest(name="x"), Invalid),
        ("ListAlerts", api.ListAlertsRequest(page_size=-1), Invalid),
        ("ListAlerts", api.ListAlertsRequest(page_token="x"), Invalid),
        ("ListAlerts", api.ListAlertsRequest(page_token="[1,2]"), Invalid),
        ("CreateSilence", api.CreateSilenceRequest(alert=UNATTENDED, reason="x"), Invalid),
        ("DeleteSilence", api.DeleteSilenceRequest(alert=UNATTENDED), NotFound),
        ("DeleteSilence", api.DeleteSilenceRequest(alert="x"), Invalid),
    ],
)
def test_a_wrong_request_is_refused_by_its_field(method: str, request_: Any, error: type[BraidError]) -> None:
    async def scene(mesh: Mesh) -> None:
        await settled(mesh)
        with pytest.raises(error) as caught:
            await call(mesh, method, request_, api.ListAlertsResponse, leader(mesh))
        assert caught.value.field and caught.value.remedy

    play(scene, lagmons=1)


def test_conditions_and_targets_are_metrics_while_they_hold() -> None:
    async def scene(mesh: Mesh) -> None:
        mesh.registry.streams["logs"].lag_target["live/reports"] = "10m"
        first = await settled(mesh)
        mesh.produce(5)
        await until(mesh, UNATTENDED, PENDING, 10, first)
        await mesh.clock.sleep(1.2)
        condition = ("group-unattended", "page", "logs", "live", "g", "", "")
        for instance in ("lagmon-0", "lagmon-1"):  # each as it sees it, leading or not
            shown = gauges(mesh, instance)
            assert shown["braid_alert_condition"] == {condition: 1.0}
            assert shown["braid_lag_target_seconds"] == {("logs", "live", ""): 2.0, ("logs", "live", "reports"): 600.0}
            assert {name: round(each, 6) for (name,), each in shown["braid_lag_target_budget"].items()} == {
                "logs": 0.001
            }
        await until(mesh, UNATTENDED, FIRING, 20, first)
        mesh.commit("g", EnvelopeFields(base=5))
        await until(mesh, UNATTENDED, alert_pb2.ALERT_STATE_RESOLVED, 10, first)
        await mesh.clock.sleep(1.2)
        assert gauges(mesh, first)["braid_alert_condition"] == {}

    play(scene)


def gauges(mesh: Mesh, instance: str) -> dict[str, dict[tuple[str, ...], float]]:
    """Every metric's samples by labels, as one replica has them."""
    families = mesh.replicas[instance].metrics.registry.collect()
    return {each.name: {tuple(row.labels.values()): row.value for row in each.samples} for each in families}
