"""`doctor`: each check turns red for what it looks for, and a whole mesh is examined."""

import asyncio
import json

import pytest

from braid.api.assigner.v1.group_pb2 import (
    FENCING_GENERATION,
    FENCING_NONE,
    Fencing,
    Group,
    GroupSpec,
    GroupStatus,
)
from braid.api.lagmon.v1.lag_pb2 import Lag
from braid.api.mesh.v1.endpoint_pb2 import PLAINTEXT_STORE
from braid.api.registry.v1.cluster_pb2 import CLUSTER_HEALTH_DOWN, CLUSTER_HEALTH_HEALTHY, Cluster, ClusterStatus
from braid.api.registry.v1.stream_pb2 import (
    CHANNEL_STATE_ACTIVE,
    CHANNEL_STATE_STANDBY,
    Channel,
    LaneSpec,
    Stream,
    StreamSpec,
    StreamStatus,
)
from braid.cli.doctor.cluster_findings import ClusterFacts, check_cluster, check_versions
from braid.cli.doctor.findings import Level, ReplicaFacts, check_clocks, check_lag, check_services, check_stream
from braid.cli.doctor.idle_groups import check_groups
from braid.kernel.errors import ClusterAccessDenied, Exhausted, Unavailable
from braid.kernel.ports import ClusterDescription
from tests.unit.cli.mesh import Shell, virtual

GOOD = ClusterDescription("id-1", 1, {1: "east:9092"}, False, 4096, 10_080)


def cluster(**status: object) -> Cluster:
    """A registered cluster; healthy unless said otherwise."""
    fields: dict[str, object] = {"health": CLUSTER_HEALTH_HEALTHY, "kafka_cluster_id": "id-1", **status}
    return Cluster(name="east", status=ClusterStatus(**fields))  # type: ignore[arg-type]


def replica(service: str, number: int, **facts: object) -> ReplicaFacts:
    """A replica that answers."""
    made = ReplicaFacts(service, f"{service}-{number}", "host:1", leader=number == 0)
    return made._replace(**facts)  # type: ignore[arg-type]


def checks(facts: ClusterFacts) -> dict[str, Level]:
    """The findings about a cluster."""
    return {each.check: each.level for each in check_cluster(facts)}


def test_a_good_cluster() -> None:
    assert checks(ClusterFacts(cluster(), GOOD)) == {"cluster": Level.OK}


@pytest.mark.parametrize(
    ("status", "description", "found"),
    [
        ({"health": CLUSTER_HEALTH_DOWN}, None, {"health": Level.FAIL}),
        ({}, None, {"health": Level.OK, "reachable": Level.FAIL}),
        ({"cordoned": True}, GOOD, {"health": Level.WARN}),
        ({"kafka_cluster_id": "other"}, GOOD, {"identity": Level.FAIL}),
        ({"foreign_mesh": "01J0000000000000000000THER"}, GOOD, {"mesh": Level.FAIL}),
        ({"orphans": 1, "orphan_topics": ["braid.logs.live.7"]}, GOOD, {"orphans": Level.WARN}),
        ({}, ClusterDescription("id-1", 1, {}, True, 4096, 10_080), {"auto-create": Level.FAIL}),
        ({}, ClusterDescription("id-1", 1, {}, False, 4096, 1_440), {"offsets-retention": Level.WARN}),
        ({}, ClusterDescription("id-1", 1, {}, False, 64, 10_080), {"commit-metadata": Level.WARN}),
        (
            {},
            ClusterDescription("id-1", 1, {}, False, 4096, 10_080, {"unclean.leader.election.enable": "true"}),
            {"unclean-election": Level.FAIL},
        ),
    ],
)
def test_what_is_wrong_with_a_cluster(
    status: dict[str, object], description: ClusterDescription | None, found: dict[str, Level]
) -> None:
    assert checks(ClusterFacts(cluster(**status), description, Unavailable("gone"))) == found


@pytest.mark.parametrize(
    ("access", "message"),
    [
        ("authentication", "not reachable from here: it refuses this client: why"),
        ("authorization", "not reachable from here: it refuses this client: why"),
        ("withheld", "not reachable from here: nothing was sent there: why"),
    ],
)
def test_denied_access_is_told_from_an_address_that_is_withheld(access: str, message: str) -> None:
    denied = ClusterAccessDenied("why", remedy="what to do", metadata={"access": access})
    found = {each.check: each for each in check_cluster(ClusterFacts(cluster(), None, denied))}
    assert (found["reachable"].message, found["reachable"].remedy) == (message, "what to do")


@pytest.mark.parametrize(
    ("brokers", "config", "found"),
    [
        (1, {"min.insync.replicas": "1", "offsets.topic.replication.factor": "1"}, {"cluster": Level.OK}),
        (1, {"min.insync.replicas": "2"}, {"in-sync": Level.FAIL}),
        (2, {"min.insync.replicas": "2"}, {"in-sync": Level.WARN}),
        (2, {"min.insync.replicas": "1"}, {"cluster": Level.OK}),
        (3, {"min.insync.replicas": "1"}, {"in-sync": Level.WARN}),
        (3, {"min.insync.replicas": "2", "offsets.topic.replication.factor": "3"}, {"cluster": Level.OK}),
        (3, {"min.insync.replicas": "2", "offsets.topic.replication.factor": "1"}, {"offsets-copies": Level.WARN}),
        (3, {}, {"cluster": Level.OK}),
    ],
)
def test_how_many_copies_a_cluster_keeps(brokers: int, config: dict[str, str], found: dict[str, Level]) -> None:
    named = {number: f"east-{number}:9092" for number in range(brokers)}
    description = ClusterDescription("id-1", 0, named, False, 4096, 10_080, config)
    assert checks(ClusterFacts(cluster(), description)) == found
    assert all(
        each.remedy for each in check_cluster(ClusterFacts(cluster(), description)) if each.level is not Level.OK
    )


DAY_MS = 86_400_000
NOW_MS = 100 * DAY_MS


@pytest.mark.parametrize(
    ("fencing", "idle_days", "expired", "found"),
    [
        (FENCING_NONE, 0.9, False, []),
        (FENCING_NONE, 1.1, False, [("progress", Level.WARN)]),
        (FENCING_NONE, 2.1, False, [("progress", Level.FAIL)]),
        (FENCING_GENERATION, 2.1, False, []),
        (FENCING_GENERATION, 3.6, False, [("idle", Level.WARN)]),
        (FENCING_GENERATION, 8.0, True, [("idle", Level.WARN)]),
        (FENCING_NONE, 8.0, True, [("progress", Level.FAIL), ("idle", Level.WARN)]),
    ],
)
def test_idle_groups_are_told_of_before_they_are_forgotten(
    fencing: Fencing.ValueType, idle_days: float, expired: bool, found: list[tuple[str, Level]]
) -> None:
    status = GroupStatus(idle_since_ms=int(NOW_MS - idle_days * DAY_MS), idle_expired=expired)
    group = Group(name="billing", spec=GroupSpec(fencing=fencing), status=status)
    two_days = ClusterDescription("id-1", 1, {}, False, 4096, 2 * 1_440)
    clusters = [
        ClusterFacts(cluster(), GOOD),
        ClusterFacts(Cluster(name="west"), two_days),
        ClusterFacts(cluster(), None),
    ]
    told = check_groups([group], clusters, NOW_MS)
    assert [(each.check, each.level) for each in told] == found
    assert all("braid delete group billing" in each.remedy for each in told)


def test_a_group_with_members_is_not_idle() -> None:
    group = Group(name="billing", spec=GroupSpec(fencing=FENCING_NONE), status=GroupStatus(members=1))
    assert check_groups([group], [ClusterFacts(cluster(), GOOD)], NOW_MS) == []


def test_what_is_told_of_an_idle_group() -> None:
    status = GroupStatus(idle_since_ms=NOW_MS - 5 * DAY_MS)
    group = Group(name="billing", spec=GroupSpec(fencing=FENCING_NONE), status=status)
    progress, idle = check_groups([group], [ClusterFacts(cluster(), GOOD)], NOW_MS)
    assert progress.message == "without members for 5d: cluster east forgets its progress in 2d"
    assert idle.message == "without members for 5d: drains stop waiting for it in 2d"


@pytest.mark.parametrize(
    ("alerted", "left_days", "told"),
    [
        (False, 4.0, None),
        (True, 3.0, "without members for 30d: drains stop waiting for it in 3d"),
        (True, 0.0, "without members for 30d: drains stop waiting for it in 0s"),
    ],
)
def test_an_idle_groups_waiting_time_comes_from_the_assigner(alerted: bool, left_days: float, told: str | None) -> None:
    status = GroupStatus(idle_since_ms=NOW_MS - 30 * DAY_MS, idle_alerted=alerted, idle_left_ms=int(left_days * DAY_MS))
    group = Group(name="billing", spec=GroupSpec(fencing=FENCING_GENERATION), status=status)
    found = check_groups([group], [], NOW_MS)
    assert [each.message for each in found] == ([told] if told else [])


def test_clocks_that_hold_every_wait_are_told_once() -> None:
    status = GroupStatus(
        idle_since_ms=NOW_MS - DAY_MS, idle_left_ms=6 * DAY_MS, idle_held="clocks disagree: a is ahead"
    )
    groups = [Group(name=name, spec=GroupSpec(fencing=FENCING_GENERATION), status=status) for name in ("a", "b")]
    (found,) = check_groups(groups, [], NOW_MS)
    assert (found.name, found.level) == ("assigner", Level.FAIL)
    assert found.message == "nothing that waits expires or is deleted: clocks disagree: a is ahead"


def test_every_problem_has_a_remedy() -> None:
    bad = ClusterDescription("other", 1, {}, True, 64, 60, {"unclean.leader.election.enable": "true"})
    found = [*check_cluster(ClusterFacts(cluster(cordoned=True), bad)), *check_services([])]
    assert len(found) == 10
    assert all(each.remedy for each in found)


def test_services() -> None:
    def levels(*replicas: ReplicaFacts) -> list[tuple[str, Level]]:
        others = [replica("assigner", 0), replica("assigner", 1), replica("lagmon", 0), replica("dlq", 0)]
        return [(each.name, each.level) for each in check_services([*replicas, *others])][:-3]

    dead = replica("registry", 1, error=Unavailable("refused"))
    assert levels(replica("registry", 0), replica("registry", 1)) == [("registry", Level.OK)]
    assert levels(replica("registry", 0)) == [("registry", Level.WARN)]
    assert levels(replica("registry", 0), dead) == [("registry-1", Level.FAIL), ("registry", Level.WARN)]
    assert levels(replica("registry", 1)) == [("registry", Level.FAIL)]
    assert levels() == [("registry", Level.FAIL)]


def test_what_is_lost_without_lagmon_or_dlq() -> None:
    def found(*replicas: ReplicaFacts) -> dict[str, tuple[Level, str]]:
        return {each.name: (each.level, each.message) for each in check_services(replicas)[2:]}

    whole = found(replica("lagmon", 0), replica("lagmon", 1), replica("dlq", 0))
    assert whole == {
        "lagmon": (Level.OK, "lagmon-0 leads, 1 could take over"),
        "dlq": (Level.OK, "dlq-0 leads, alone"),
    }
    dead = replica("lagmon", 0, error=Unavailable("refused"))
    assert {name: level for name, (level, _) in found(dead, replica("dlq", 1)).items()} == {
        "lagmon-0": Level.FAIL,
        "lagmon": Level.WARN,
        "dlq": Level.WARN,
    }
    assert "how far groups are behind is not known" in found()["lagmon"][1]
    assert "not listed or replayed" in found()["dlq"][1]


def test_lag_that_is_old_or_not_read_yet() -> None:
    fresh = Lag(group="a", cluster="west", as_of_ms=99_000)
    rows = [fresh, *(Lag(group=group, cluster="east", stale=True, as_of_ms=40_000) for group in "abb")]
    assert [each.level for each in check_lag([fresh], [], 100_000)] == [Level.OK]
    (stale,) = check_lag(rows, [], 100_000)
    assert (stale.level, stale.message) == (Level.WARN, "of 2 groups on cluster east as of 60s ago")
    (reading,) = check_lag([], ["west", "east"], 100_000)
    assert reading.message == "offsets of east, west are not read to their end yet: rows may be missing"
    assert stale.remedy and reading.remedy


def test_clocks_allow_for_the_way_there_and_back() -> None:
    far = replica("registry", 0, skew_seconds=1.5)
    slow = replica("registry", 1, skew_seconds=-1.5, doubt_seconds=0.6)
    silent = replica("registry", 2, error=Unavailable("refused"))
    assert [each.level for each in check_clocks([far, slow, silent])] == [Level.FAIL, Level.OK]
    assert "1.5 s ahead of" in check_clocks([far])[0].message


def test_versions() -> None:
    new = ClusterDescription("a", 1, {}, False, 4096, 10_080, {"group.share.enable": "true"})
    old = ClusterDescription("b", 1, {}, False, 4096, 10_080, {"process.roles": "broker"})
    assert check_versions([ClusterFacts(cluster(), new)]) == []
    other = Cluster(name="west")
    (found,) = check_versions([ClusterFacts(cluster(), new), ClusterFacts(other, old)])
    assert found.message == "of different versions: east Kafka 4, west Kafka 3"


def stream(*channels: Channel, blocked: str = "") -> Stream:
    """A stream with the lane `live`."""
    spec = StreamSpec(lanes={"live": LaneSpec(partitions=1)})
    return Stream(name="logs", spec=spec, status=StreamStatus(channels=channels, blocked_reason=blocked))


def test_streams() -> None:
    active = Channel(name="logs/live/1", lane="live", cluster="east", state=CHANNEL_STATE_ACTIVE)
    standby = Channel(name="logs/live/2", lane="live", cluster="west", state=CHANNEL_STATE_STANDBY)
    beside = Channel(name="logs/live/2", lane="live", cluster="east", state=CHANNEL_STATE_STANDBY)
    stranded = Channel(name="logs/live/0", lane="live", cluster="west", stranded=True)

    def found(*channels: Channel, blocked: str = "") -> list[tuple[str, Level]]:
        return [(each.check, each.level) for each in check_stream(stream(*channels, blocked=blocked))]

    assert found(active, standby) == [("stream", Level.OK)]
    assert found(active, beside) == [("standby", Level.WARN)]
    assert found(standby) == [("route", Level.FAIL)]
    assert found(active, standby, blocked="no cluster") == [("blocked", Level.FAIL)]
    assert found(active, standby, stranded) == [("stranded", Level.WARN)]
    cut = Channel(name="logs/live/1", state=CHANNEL_STATE_ACTIVE, lane="live", cluster="east")
    cut.lost.add(partition=0, first=7, last=9)
    assert found(cut, standby) == [("lost", Level.WARN)]
    assert "0:7-9" in check_stream(stream(cut, standby))[0].message


@virtual
async def test_a_whole_mesh() -> None:
    shell = await Shell().start("east", "west", registries=2, assigners=2)
    await shell.replica("lagmon-0")
    await shell.replica("dlq-0")
    await shell.braid("create", "stream", "logs", "--lane", "live=1")
    await asyncio.sleep(1.0)
    result = await shell.braid("doctor", "-o", "json")
    document = json.loads(result.out)
    assert (result.code, document["ok"]) == (0, True)
    worse = [(each["name"], each["check"]) for each in document["findings"] if each["level"] != "ok"]
    assert worse == [("services", "tls"), ("services", "access")]  # the twin's wire knows no TLS
    assert document["findings"][0].keys() == {"name", "check", "level", "message", "remedy"}


@virtual
async def test_plain_connections_that_a_replica_tells_are_found() -> None:
    shell = await Shell().start("east", registries=1, assigners=1)
    shell.replicas["registry-0"].plaintext = [PLAINTEXT_STORE]
    document = json.loads((await shell.braid("doctor", "-o", "json")).out)
    (found,) = [each["message"] for each in document["findings"] if each["check"] == "store"]
    assert found.startswith("registry-0 reach etcd on other machines in plain text")


@virtual
async def test_a_sick_mesh() -> None:
    shell = await Shell().start("east", "west")
    await shell.replica("assigner-1", skew_ms=90_000)
    await shell.braid("create", "stream", "logs", "--lane", "live=1")
    shell.kafka.named("east").kill()
    shell.kafka.named("west").kill()
    await asyncio.sleep(5.0)
    result = await shell.braid("doctor", terminal=True)
    assert result.code == 4
    lines = result.out.splitlines()
    failed = [line.split()[0] for line in lines if " FAIL " in line]
    assert failed == ["assigner-1", "cluster/east", "cluster/west", "stream/logs"]
    assert "its clock is 90.0 s ahead of this machine's" in result.out
    assert max(map(len, lines)) <= 80
    piped = (await shell.braid("doctor")).out.splitlines()
    assert len(piped) < len(lines)
    assert [line.split()[:2] for line in lines if line.startswith(("lagmon", "dlq"))] == [
        ["lagmon", "WARN"],
        ["dlq", "WARN"],
    ]


@virtual
async def test_stale_lag_is_found_and_unreadable_lag_too() -> None:
    shell = await Shell().start("east")
    await shell.replica("lagmon-0")
    await asyncio.sleep(1.0)
    shell.lagmon.rows = [Lag(group="a", cluster="east", stale=True, as_of_ms=1)]
    assert "as of" in (await shell.braid("doctor")).out
    shell.lagmon.refusal = Exhausted("too many rows", remedy="name a group")
    lines = (await shell.braid("doctor")).out
    assert "it cannot be read: too many rows" in lines


@virtual
async def test_a_replica_that_is_gone() -> None:
    shell = await Shell().start("east", registries=2)
    shell.kill(next(name for name, each in shell.replicas.items() if name[:8] == "registry" and not each.leading()))
    result = await shell.braid("doctor")
    assert result.code == 4
    assert "no answer at registry-" in result.out
