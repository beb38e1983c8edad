"""`doctor` asks every broker, and for settings of Braid's own topics: each check turns red for what it looks for."""

import asyncio
import json
from collections.abc import Mapping
from typing import Final

import pytest

from braid.api.registry.v1.cluster_pb2 import CLUSTER_HEALTH_HEALTHY, Cluster, ClusterStatus
from braid.cli.doctor.broker_findings import BrokerFacts, TopicFacts, check_topics
from braid.cli.doctor.cluster_findings import ClusterFacts, check_cluster, check_versions
from braid.cli.doctor.findings import Finding, Level
from braid.cli.doctor.releases import release_text, version_text
from braid.kafka.memory.cluster import MemoryCluster
from braid.kernel.errors import Unavailable
from braid.kernel.ports import BrokerDescription, ClusterDescription
from tests.unit.cli.mesh import Shell, virtual

SOUND: Final[Mapping[str, str]] = {
    "auto.create.topics.enable": "false",
    "min.insync.replicas": "2",
    "offset.metadata.max.bytes": "4096",
    "offsets.retention.minutes": "10080",
    "offsets.topic.replication.factor": "3",
}
THREE = ClusterDescription.configured("id-1", 1, {number: f"h:{number}" for number in (1, 2, 3)}, SOUND)
EAST = Cluster(name="east", status=ClusterStatus(health=CLUSTER_HEALTH_HEALTHY, kafka_cluster_id="id-1"))


def broker(number: int, finalized: int = 30, supported: int = 30, odd: Mapping[str, str] = SOUND) -> BrokerFacts:
    """A broker that answers, and is set up soundly but for what is odd."""
    levels = {"metadata.version": finalized}, {"metadata.version": supported}
    return BrokerFacts(number, BrokerDescription({**SOUND, **odd}, *levels))


def found(*brokers: BrokerFacts) -> dict[str, Finding]:
    """The findings about a cluster with these brokers."""
    return {each.check: each for each in check_cluster(ClusterFacts(EAST, THREE, brokers=brokers))}


def test_brokers_alike_are_one_line_that_tells_the_agreed_level() -> None:
    (fine,) = found(broker(1), broker(2), broker(3)).values()
    assert (fine.level, fine.message) == (Level.OK, "3 brokers, Kafka 4.3 (metadata.version 30)")
    (behind,) = found(broker(1, 27), broker(2, 27), broker(3, 27)).values()
    assert behind.message.startswith("brokers are Kafka 4.3, features are those of Kafka 4.1")


@pytest.mark.parametrize(
    ("setting", "value", "check", "level"),
    [
        ("auto.create.topics.enable", "true", "auto-create", Level.FAIL),
        ("unclean.leader.election.enable", "true", "unclean-election", Level.FAIL),
        ("min.insync.replicas", "1", "in-sync", Level.WARN),
        ("offset.metadata.max.bytes", "64", "commit-metadata", Level.WARN),
        ("offsets.retention.minutes", "1440", "offsets-retention", Level.WARN),
        ("offsets.topic.replication.factor", "1", "offsets-copies", Level.WARN),
    ],
)
def test_a_setting_of_any_broker_is_found_and_the_broker_named(
    setting: str, value: str, check: str, level: Level
) -> None:
    for odd in (1, 2, 3):
        findings = found(*(broker(each, odd={setting: value} if each == odd else {}) for each in (1, 2, 3)))
        assert findings[check].level is level and findings[check].message.endswith(f"(broker {odd})")
        if setting != "unclean.leader.election.enable":  # which the others do not tell
            assert f"{setting} is {value} on broker {odd}" in findings["differences"].message
        assert all(each.remedy for each in findings.values())
    everywhere = found(*(broker(each, odd={setting: value}) for each in (1, 2, 3)))
    assert list(everywhere) == [check] and "(broker" not in everywhere[check].message


def test_differences_name_who_says_what_the_fewest_first() -> None:
    sizes = {1: "5", 2: "9", 3: "9"}
    findings = found(*(broker(each, odd={"message.max.bytes": size}) for each, size in sizes.items()))
    assert findings["differences"].message == "brokers differ: message.max.bytes is 5 on broker 1, 9 on brokers 2, 3"
    assert list(findings) == ["differences"]


def test_an_upgrade_under_way_and_a_broker_that_lags() -> None:
    upgrade = found(broker(1, 27, 27), broker(2, 27, 30), broker(3, 27, 30))
    assert upgrade["releases"].message == "brokers differ: Kafka 4.1 on broker 1, Kafka 4.3 on brokers 2, 3"
    lags = found(broker(1), broker(2, 27), broker(3))
    assert "metadata.version 27 on broker 2, metadata.version 30 on brokers 1, 3" in lags["levels"].message


def test_a_broker_that_does_not_answer_here() -> None:
    findings = found(broker(1), BrokerFacts(2, None, Unavailable("refused")), broker(3))
    assert findings["broker"].level is Level.FAIL
    assert "broker 2 does not answer here: refused" in findings["broker"].message
    silent = [BrokerFacts(each, None) for each in (1, 2, 3)]
    assert [each.check for each in check_cluster(ClusterFacts(EAST, THREE, brokers=silent))] == ["broker"] * 3


@pytest.mark.parametrize(
    ("copies", "in_sync", "unclean", "written", "expected"),
    [
        (3, "2", "false", True, []),
        (3, "2", "true", True, [("topic-unclean", Level.FAIL)]),
        (3, "2", "true", False, [("topic-unclean", Level.FAIL)]),
        (3, "1", "false", True, [("topic-in-sync", Level.WARN)]),
        (3, "1", "false", False, []),
        (2, "1", "false", True, []),
        (2, "2", "false", True, [("topic-in-sync", Level.WARN)]),
        (3, "4", "false", True, [("topic-in-sync", Level.FAIL)]),
        (1, "1", "false", True, []),
        (1, "2", "false", True, [("topic-in-sync", Level.FAIL)]),
    ],
)
def test_topics_of_channels(
    copies: int, in_sync: str, unclean: str, written: bool, expected: list[tuple[str, Level]]
) -> None:
    config = {"min.insync.replicas": in_sync, "unclean.leader.election.enable": unclean}
    findings = check_topics("cluster/east", 3, [TopicFacts("braid.logs.live.1", written, copies, config)])
    assert [(each.check, each.level) for each in findings] == expected
    assert all("braid.logs.live.1" in each.message and each.remedy for each in findings)


@pytest.mark.parametrize("away", [(1,), (2, 3), (3,)])
@pytest.mark.parametrize("in_sync", ["1", "2", "3"])
@pytest.mark.parametrize("copies", [1, 2, 3])
def test_no_advice_lowers_durability_during_an_outage(away: tuple[int, ...], in_sync: str, copies: int) -> None:
    left = {number: address for number, address in THREE.brokers.items() if number not in away}
    told = ClusterDescription.configured("id-1", min(left), left, {**SOUND, "min.insync.replicas": in_sync})
    east = Cluster(name="east", status=ClusterStatus(health=CLUSTER_HEALTH_HEALTHY, kafka_cluster_id="id-1"))
    east.status.usual_brokers.extend([1, 2, 3])
    topic = TopicFacts("t", True, copies, {"min.insync.replicas": in_sync})
    findings = check_cluster(ClusterFacts(east, told, brokers=[broker(each) for each in left], topics=[topic]))
    remedies = [each.remedy for each in findings]
    assert not any("min.insync.replicas=1" in each or "a smaller min.insync.replicas in" in each for each in remedies)
    assert f"brokers {'is' if len(away) == 1 else 'are'} away: {', '.join(map(str, away))}" in "; ".join(
        each.message for each in findings
    )


def test_brokers_that_are_away_are_why_nothing_is_acknowledged() -> None:
    alone = ClusterDescription.configured("id-1", 1, {1: "h:1"}, SOUND)
    east = Cluster(name="east", status=ClusterStatus(health=CLUSTER_HEALTH_HEALTHY, kafka_cluster_id="id-1"))
    east.status.usual_brokers.extend([1, 2, 3])
    topic = TopicFacts("t", True, 3, {"min.insync.replicas": "2"})
    findings = {each.check: each for each in check_cluster(ClusterFacts(east, alone, brokers=(), topics=[topic]))}
    assert findings["in-sync"].message == "a record needs 2 copies, 2 of 3 brokers are away: nothing is acknowledged"
    assert findings["topic-in-sync"].message == "topic t: 2 of 3 brokers are away, nothing is acknowledged"
    assert findings["in-sync"].level is findings["topic-in-sync"].level is Level.FAIL
    assert findings["brokers-away"].message == "2 of 3 brokers are away: 2, 3"
    assert all("bring" in each.remedy for each in findings.values())


def test_many_topics_are_named_in_part() -> None:
    topics = [TopicFacts(f"t{number}", True, 3, {"min.insync.replicas": "1"}) for number in range(9)]
    (finding,) = check_topics("cluster/east", 3, topics)
    assert finding.message.startswith("topics t0, t1, t2 and 6 more: ")


def test_settings_of_topics_that_cannot_be_read_are_said_so() -> None:
    facts = ClusterFacts(EAST, THREE, brokers=[broker(1)], unread=Unavailable("no answer", remedy="wait"))
    (finding,) = check_cluster(facts)
    assert (finding.check, finding.level, finding.remedy) == ("topics", Level.WARN, "wait")


def test_releases_and_clusters_of_different_ones() -> None:
    told = [release_text(level) for level in (0, 1, 7, 8, 19, 21, 22, 25, 27, 29, 30, 33, 34)]
    assert told == [
        *("older than Kafka 3.0", "Kafka 3.0", "Kafka 3.3", "Kafka 3.4", "Kafka 3.7", "Kafka 3.9", "Kafka 4.0"),
        *("Kafka 4.0", "Kafka 4.1", "Kafka 4.2", "Kafka 4.3", "Kafka 4.4", "newer than Kafka 4.4"),
    ]
    assert version_text({}, {"process.roles": "broker"}) == "Kafka 3"
    west = Cluster(name="west")
    clusters = [ClusterFacts(EAST, THREE, brokers=[broker(1)]), ClusterFacts(west, THREE, brokers=[broker(1, 26)])]
    (finding,) = check_versions(clusters)
    assert finding.message.endswith("east Kafka 4.3 (metadata.version 30), west Kafka 4.1 (metadata.version 26)")
    assert check_versions([clusters[0], ClusterFacts(west, None)]) == []


@virtual
async def test_a_mesh_whose_brokers_and_topics_are_odd() -> None:
    shell = await Shell().start("east")
    north = shell.kafka.add_cluster("north", brokers=3)
    assert (await shell.braid("create", "cluster", "north", "--bootstrap", "north:9092")).code == 0
    made = await shell.braid("create", "stream", "logs", "--lane", "live=1", "--clusters", "north,east")
    assert made.code == 0, made
    await asyncio.sleep(1.0)
    north.set_on = {2: {"unclean.leader.election.enable": "true"}, 3: {"offsets.retention.minutes": "60"}}
    north.alter_topic_config("braid.logs.live.1", {"unclean.leader.election.enable": "true"})
    north.alter_topic_config("braid.logs.dlq.1", {"min.insync.replicas": "1"})
    findings = await _findings(shell)
    assert findings["cluster/east"] == [("cluster", "1 broker, Kafka 4.3 (metadata.version 30)")]
    assert [(check, message[-11:]) for check, message in findings["cluster/north"]][:2] == [
        ("unclean-election", " (broker 2)"),
        ("offsets-retention", " (broker 3)"),
    ]
    told = dict(findings["cluster/north"])
    assert "offsets.retention.minutes is 60 on broker 3, 10080 on brokers 1, 2" in told["differences"]
    assert "braid.logs.live.1" in told["topic-unclean"] and "braid.logs.dlq.1" in told["topic-in-sync"]


async def _findings(shell: Shell) -> dict[str, list[tuple[str, str]]]:
    """By what they are of: checks and messages."""
    told: dict[str, list[tuple[str, str]]] = {}
    for each in json.loads((await shell.braid("doctor", "-o", "json")).out)["findings"]:
        told.setdefault(each["name"], []).append((each["check"], each["message"]))
    return told


@virtual
async def test_parts_that_hang_hold_up_nobody() -> None:
    shell = await Shell().start("east")
    await shell.braid("create", "stream", "logs", "--lane", "live=1")
    await asyncio.sleep(1.0)

    def refuse(self: MemoryCluster, *args: object) -> object:
        raise Unavailable("not now")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryCluster, "describe_broker", refuse)
        patch.setattr(MemoryCluster, "topic_configs", refuse)
        findings = dict((await _findings(shell))["cluster/east"])
    assert findings.keys() == {"broker", "topics"}


@pytest.mark.parametrize(("copies", "settled", "warned"), [(2, 3, True), (3, 3, False), (4, 3, False), (2, 0, False)])
def test_topics_with_fewer_copies_than_once_provided_are_named(copies: int, settled: int, warned: bool) -> None:
    sound = {"min.insync.replicas": "1" if copies == 2 else "2"}
    found = check_topics("cluster/east", 3, [TopicFacts("braid.logs.live.1", True, copies, sound, settled)])
    assert [each.check for each in found] == (["topic-copies"] if warned else [])
