"""A broker of several dies: appends hang until Kafka elects leaders. Traffic leaves at once, or waits for that."""

import asyncio
from dataclasses import replace

import pytest

from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.kernel.errors import Invalid
from braid.kernel.limits.registry.health import DOWN_AFTER_SECONDS
from braid.kernel.ports import Survey, TopicDescription, TopicPartition
from services.registry.health.evidence import Evidence, Look, LookPart
from services.registry.health.gaps import Gaps
from services.registry.health.judge import Judgement, judge
from services.registry.health.observed import Observed
from services.registry.liveness.witnesses import SILENCE, ClusterReports, ReportCounts
from services.registry.model.clusters.health import (
    Health,
    HealthVerdict,
)
from services.registry.model.clusters.thresholds import Thresholds
from services.registry.model.streams import StreamSpec, check_stream_spec
from tests.unit.registry.histories import cluster
from tests.unit.registry.mesh import DRAINING, Mesh
from tests.unit.registry.scenarios.test_requests import play

CANARY = "braid.canary.registry"
ELECTED_SECONDS = 9.0  # Kafka's broker.session.timeout.ms
PATIENT = Thresholds(ride_out_seconds=12.0)


def hanging(since: float, until: float) -> Evidence:
    return Evidence(since, until, False, "append: no answer", HealthVerdict.DEAD, hanging_since=0.0)


def after(seconds: float, thresholds: Thresholds) -> Judgement:
    """The judgement on a cluster one of whose brokers has been dead for this long."""
    judgement = Judgement(Health.HEALTHY)
    for step in range(round(seconds * 4)):
        judgement = judge(judgement, hanging(step / 4, (step + 1) / 4), thresholds)
    return judgement


@pytest.mark.parametrize(
    ("seconds", "thresholds", "health"),
    [
        (1.0, Thresholds(), Health.SUSPECT),
        (2.0, Thresholds(), Health.HALF_DEAD),
        (11.0, PATIENT, Health.SUSPECT),
        (12.5, PATIENT, Health.HALF_DEAD),
    ],
)
def test_what_others_lead_goes_on_so_it_is_never_down(seconds: float, thresholds: Thresholds, health: Health) -> None:
    found = after(seconds, thresholds)
    assert (found.health, found.verdict) == (health, HealthVerdict.HALF_DEAD)


def test_evidence_against_the_whole_cluster_keeps_its_own_time() -> None:
    judgement = Judgement(Health.HEALTHY)
    for step in range(8):
        judgement = judge(judgement, replace(hanging(step / 4, (step + 1) / 4), hanging_since=None), PATIENT)
    assert judgement.health is Health.DOWN


def test_topics_without_a_copy_on_what_hangs_go_on() -> None:
    gaps = Gaps(CANARY)
    ring = tuple((number, number % 5 + 1) for number in range(1, 6))  # partition p is on brokers p+1 and its neighbour
    gaps.see_topics({CANARY: TopicDescription(CANARY, b"", [1, 2, 3, 4, 5], replicas=ring)}, 0.0)
    for name, held in (("hit", (2, 4)), ("well", (4, 5))):
        gaps.see_topics({name: TopicDescription(name, b"", [held[0]], replicas=(held,))}, 0.0)
    gaps.hangs(TopicPartition(CANARY, 1), 1.0)  # on brokers 2 and 3
    assert gaps.hanging_seconds(3.0).keys() == {CANARY, "hit"}
    gaps.answers(TopicPartition(CANARY, 2))  # on brokers 3 and 4: so it is broker 2
    gaps.hangs(TopicPartition(CANARY, 0), 2.0)
    assert gaps.hanging_seconds(3.0)["hit"] == 2.0 and "well" not in gaps.hanging_seconds(3.0)
    gaps.answers(TopicPartition(CANARY, 0))
    gaps.answers(TopicPartition(CANARY, 1))
    assert gaps.hanging_seconds(9.0) == {}


@pytest.mark.parametrize("seconds", [-1.0, 3_601.0, float("nan")])
def test_a_time_nobody_can_mean_is_refused(seconds: float) -> None:
    with pytest.raises(Invalid) as refused:
        check_stream_spec(StreamSpec({"live": 1}, ride_out_seconds=seconds))
    assert refused.value.field == "spec.ride_out_seconds"


async def _two_clusters(mesh: Mesh, ride_out_seconds: float) -> None:
    await mesh.start_registry("registry-0")
    await mesh.start_assigner()
    for name in ("east", "west"):
        thresholds = cluster_pb2.HealthThresholds(ride_out_seconds=ride_out_seconds)
        await mesh.create_cluster(name, brokers=3, health=thresholds)


def test_without_riding_out_the_stream_moves_and_it_is_half_dead() -> None:
    async def scene(mesh: Mesh) -> None:
        await _two_clusters(mesh, 0.0)
        await mesh.create_stream(lanes=2, clusters=["east", "west"])
        await asyncio.sleep(2)
        mesh.kafka.named("east").silence_broker(2)
        moved = await mesh.until_channel("logs/live/1", lambda each: each.state == DRAINING, DOWN_AFTER_SECONDS + 1.0)
        assert not moved.stranded
        found = await mesh.cluster("east")
        assert found.status.health == cluster_pb2.CLUSTER_HEALTH_HALF_DEAD
        assert mesh.active(await mesh.stream()) == ["west"]

    play(scene)


def test_a_stream_that_rides_out_stays_until_kafka_elects() -> None:
    async def scene(mesh: Mesh) -> None:
        await _two_clusters(mesh, 12.0)
        await mesh.create_stream(lanes=2, clusters=["east", "west"])
        await asyncio.sleep(2)
        before, east = await mesh.stream(), mesh.kafka.named("east")
        east.silence_broker(2)
        await asyncio.sleep(ELECTED_SECONDS)
        east.notice_broker(2)
        await asyncio.sleep(20)
        assert (await mesh.stream()).status.route_revision == before.status.route_revision
        assert (await mesh.cluster("east")).status.health == cluster_pb2.CLUSTER_HEALTH_HEALTHY

    play(scene)


def test_what_lasts_longer_than_is_ridden_out_is_left() -> None:
    async def scene(mesh: Mesh) -> None:
        await _two_clusters(mesh, 12.0)
        await mesh.create_stream(lanes=2, clusters=["east", "west"])
        await asyncio.sleep(2)
        mesh.kafka.named("east").silence_broker(2)
        await asyncio.sleep(10)
        assert mesh.active(await mesh.stream()) == ["east"]
        await asyncio.sleep(5)
        assert mesh.active(await mesh.stream()) == ["west"]

    play(scene)


@pytest.mark.parametrize(("seconds", "carrier"), [(3.0, "east"), (8.0, "west")])
def test_short_hangs_with_all_brokers_answering_are_hand_overs(seconds: float, carrier: str) -> None:
    """A rolling restart hands leaders over; a follower whose first fetch fails waits a second before the next."""

    async def scene(mesh: Mesh) -> None:
        await _two_clusters(mesh, 0.0)
        await mesh.create_stream(lanes=2, clusters=["east", "west"])
        await asyncio.sleep(2)
        mesh.kafka.named("east").full = True
        await asyncio.sleep(seconds)
        mesh.kafka.named("east").full = False
        await asyncio.sleep(5)
        assert mesh.active(await mesh.stream()) == [carrier]

    play(scene)


@pytest.mark.parametrize(
    ("silent", "told"),
    [
        ([2], "broker 2 of 3 does not answer; append: "),
        (
            [2, 3],
            "brokers 2, 3 of 3 do not answer: if they are its controllers too, there is no quorum, and no leader is "
            "elected; append: ",
        ),
    ],
)
def test_silent_brokers_are_named_and_a_lost_quorum_is_reported(silent: list[int], told: str) -> None:
    """A probe fails at the one broker it reached: an operator who reads only that would start the wrong one."""

    async def scene(mesh: Mesh) -> None:
        await _two_clusters(mesh, 0.0)
        await asyncio.sleep(2)
        for broker in silent:
            mesh.kafka.named("east").silence_broker(broker)
        found = await mesh.until_health("east", "HALF_DEAD", 5)
        assert found.status.health_reason.startswith(told), found.status.health_reason
        assert list(found.status.evidence.silent_brokers) == silent
        for broker in silent:
            mesh.kafka.named("east").notice_broker(broker)
            mesh.kafka.named("east").start_broker(broker)
        well = await mesh.until_health("east", "HEALTHY", 30)
        assert not well.status.evidence.silent_brokers

    play(scene)


def test_a_stream_declares_a_time_of_its_own() -> None:
    async def scene(mesh: Mesh) -> None:
        await _two_clusters(mesh, 12.0)
        await mesh.create_stream("hasty", clusters=["east", "west"], ride_out_seconds=0.0)
        await mesh.create_stream("usual", clusters=["east", "west"])
        await asyncio.sleep(2)
        mesh.kafka.named("east").silence_broker(2)
        await asyncio.sleep(4)
        assert mesh.active(await mesh.stream("hasty")) == ["west"]
        assert mesh.active(await mesh.stream("usual")) == ["east"]
        states = {each.state for each in (await mesh.stream("hasty")).status.channels}
        assert stream_pb2.CHANNEL_STATE_DRAINING in states

    play(scene)


@pytest.mark.parametrize(("held", "health"), [((1, 2, 3), Health.SUSPECT), ((1, 3), Health.HALF_DEAD)])
def test_acknowledged_hosts_show_that_not_everything_hangs(held: tuple[int, ...], health: Health) -> None:
    """Broker 2 was too late to answer; other topics may go on without it, unless all have a copy there."""
    observed = Observed(cluster("east"), Thresholds())
    canary = TopicDescription(CANARY, b"", [1, 2, 3], replicas=((1, 2, 3),) * 3)
    logs = TopicDescription("braid.logs.live.1", b"", [1], replicas=(held,))
    for step in range(12):
        now = step * 0.25
        observed.see_canary(Survey(1, [1, 2, 3], {CANARY: canary}), now)
        observed.see_topics([logs.name], Survey(1, [1, 2, 3], {logs.name: logs}), now)
        observed.gaps.see_silent([2])
        reached = ReportCounts(hosts=1, reaching=1, reached_at=now + 0.2)
        failed = Look(now, now + 0.25, LookPart.APPEND, "no answer")
        judged = observed.see_look(
            cluster("east"), failed, TopicPartition(CANARY, 1), ClusterReports(reached, reached), step * 250
        )
    assert judged.health is health
    assert bool(observed.channels_hanging(cluster("east"), 3.0, {CANARY: None})) == (health is Health.HALF_DEAD)


def test_one_leader_that_refuses_to_connect_is_not_every_broker() -> None:
    """Two of three died and producers complain: the third still answers for metadata, so the cluster is not DOWN."""
    observed = Observed(cluster("east"), Thresholds())
    canary = TopicDescription(CANARY, b"", [1, 2, 3], replicas=((1, 2, 3),) * 3)
    failing = ReportCounts(hosts=1, failing=1, failing_since=0.0, complaining_since=0.0)
    found = set[Health]()
    for step in range(12):
        now = step * 0.25
        observed.see_canary(Survey(1, [1, 2, 3], {CANARY: canary}), now)
        observed.gaps.see_silent([2, 3])
        refused = Look(now, now + 0.01, LookPart.APPEND, "broker h:2 does not answer: refused", refused=True)
        judged = observed.see_look(
            cluster("east"), refused, TopicPartition(CANARY, 1), ClusterReports(failing, failing), step * 250
        )
        found.add(judged.health)
    assert found == {Health.SUSPECT, Health.HALF_DEAD}


def test_an_append_that_the_registry_is_refused_hangs_nothing() -> None:
    observed = Observed(cluster("east"), Thresholds())
    replicas = ((1, 2, 3), (2, 3, 1), (3, 1, 2))
    canary = TopicDescription(CANARY, b"", [1, 2, 3], replicas=replicas)
    logs = TopicDescription("braid.logs.live.1", b"", [1], replicas=((1, 2, 3),))
    for second in range(10):
        now = float(second)
        observed.see_canary(Survey(1, [1, 2, 3], {CANARY: canary}), now)
        observed.see_topics([logs.name], Survey(1, [1, 2, 3], {logs.name: logs}), now)
        refused = Look(now, now + 0.1, LookPart.APPEND, "no permission to write", denied=True)
        judged = observed.see_look(
            cluster("east"), refused, TopicPartition(CANARY, second % 3), SILENCE, second * 1_000
        )
        assert judged.health is Health.HEALTHY
        assert observed.channels_hanging(cluster("east"), now, {logs.name: None}) == {}
    assert observed.gaps.gone(10.0, 0.0) == []
