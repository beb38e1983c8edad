"""A cluster's thresholds and present evidence on the command line."""

import asyncio
import json
from pathlib import Path

import pytest

from braid.api.registry.v1.cluster_pb2 import (
    HEALTH_VERDICT_HALF_DEAD,
    Cluster,
    ClusterHealth,
    ClusterStatus,
    HealthEvidence,
    HealthThresholds,
)
from braid.cli.doctor.cluster_findings import ClusterFacts, check_cluster
from braid.cli.doctor.findings import Level
from braid.cli.resources.clusters.health import change_thresholds, evidence_lines
from braid.kernel.errors import Invalid
from braid.kernel.ports import ClusterDescription
from tests.unit.cli.mesh import Shell, virtual

GOOD = ClusterDescription("id-1", 1, {1: "east:9092"}, False, 4096, 10_080)


@virtual
async def test_thresholds_are_declared_changed_and_taken_back() -> None:
    shell = await Shell().start("east")
    shell.kafka.add_cluster("north")
    made = await shell.braid(
        *[
            "create",
            "cluster",
            "north",
            "--bootstrap",
            "north:9092",
            "--health",
            "slow_factor=20",
            "--health",
            "flap_falls=0",
        ]
    )
    assert made.code == 0, made
    document = json.loads((await shell.braid("get", "cluster", "north", "-o", "json")).out)
    assert document["spec"]["health"] == {"slow_factor": 20.0, "flap_falls": 0.0}
    changed = await shell.braid(*["set", "health", "north", "slow_factor=default", "down_after_seconds=3"])
    assert changed.out == "cluster/north health: down_after_seconds=3, flap_falls=0\n"
    back = await shell.braid(*["set", "health", "north", "down_after_seconds=default", "flap_falls=default"])
    assert back.out == "cluster/north health: judged by Braid's own numbers\n"
    assert "health" not in json.loads((await shell.braid("get", "cluster", "north", "-o", "json")).out)["spec"]


def test_thresholds_are_part_of_a_manifest(tmp_path: Path) -> None:
    @virtual
    async def scenario() -> None:
        shell = await Shell().start()
        shell.kafka.add_cluster("east")
        path = tmp_path / "east.yaml"

        def declare(health: str) -> str:
            path.write_text(
                "apiVersion: braid/v1\nkind: Cluster\nmetadata: {name: east}\n"
                f"spec: {{bootstrap: 'east:9092'{health}}}\n"
            )
            return str(path)

        assert (
            await shell.braid("apply", "-f", declare(", health: {slow_factor: 20}"))
        ).out == "cluster/east created\n"
        assert "unchanged" in (await shell.braid("apply", "-f", str(path))).out
        path.write_text((await shell.braid("get", "cluster", "east", "-o", "yaml")).out)
        assert "unchanged" in (await shell.braid("apply", "-f", str(path))).out
        refused = await shell.braid("apply", "-f", declare(", health: {gone_share: 2}"))
        assert refused.code == 2 and "spec.health.gone_share: 2 is out of bounds" in refused.err
        assert "slow_factor" in (await shell.braid("diff", "-f", declare(""))).out
        assert (await shell.braid("apply", "-f", str(path))).out == "cluster/east changed\n"

    scenario()


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("set health east slowness=3", 2, "'slowness=3' sets no threshold"),
        ("set health east slow_factor", 2, "'slow_factor' sets no threshold"),
        ("set health east slow_factor=fast", 2, "'fast' is no number"),
        ("set health east slow_factor=0.1", 2, "spec.health.slow_factor: 0.1 is out of bounds"),
        ("set health moon slow_factor=3", 4, "there is no cluster moon"),
        ("create cluster west --bootstrap west:9092 --health x=1", 2, "--health: 'x=1' sets no threshold"),
    ],
)
def test_what_nobody_can_mean_is_refused(line: str, code: int, told: str) -> None:
    @virtual
    async def scenario() -> None:
        shell = await Shell().start("east")
        result = await shell.braid(*line.split())
        assert (result.code, told in result.err) == (code, True), result

    scenario()


@virtual
async def test_describe_shows_the_present_evidence() -> None:
    shell = await Shell().start("east", "west")
    await asyncio.sleep(1)
    found = await shell.braid("describe", "cluster", "east")
    for text in ("verdict:", "Evidence:", "all went well", "slow beyond 500 ms", "falls within 5 min:"):
        assert text in found.out, found.out
    shell.kafka.named("east").kill()
    await shell.braid("get", "clusters", "-w", seconds=4.0)
    down = await shell.braid("describe", "cluster", "east")
    assert "metadata: cluster east refuses to connect" in down.out and "verdict:" in down.out
    assert "DOWN" in (await shell.braid("get", "clusters")).out
    told = json.loads((await shell.braid("describe", "cluster", "east", "-o", "json")).out)
    assert told["status"]["verdict"] == "dead" and told["status"]["evidence"]["falls"] == 1


def test_evidence_names_what_is_gone_and_who_was_asked() -> None:
    lines = evidence_lines(
        HealthEvidence(
            append_seconds=0.01,
            brokers=2,
            missing_brokers=[3],
            silent_brokers=[2, 3],
            partitions=9,
            gone_partitions=1,
            gone=["t/1"],
            under_replicated_partitions=4,
            hosts=5,
            hosts_reaching=1,
            hosts_failing=3,
            no_topics="not authorized",
        ),
        HealthThresholds(slow_factor=20.0),
    )
    assert [line.split(":", 1)[1].strip() for line in lines[3:]] == [
        "2, missing: 3, silent: 2, 3",
        "9, 1 gone: t/1, 4 lack copies in step",
        "0",
        "not authorized",
        "slow_factor=20",
        "1 reach it, 3 do not, of 5",
    ]


def test_a_threshold_that_is_set_twice_is_what_was_said_last() -> None:
    thresholds = HealthThresholds()
    change_thresholds(thresholds, ["slow_factor=3", "slow_factor=4"], "x")
    assert thresholds == HealthThresholds(slow_factor=4.0)
    with pytest.raises(Invalid, match="no number"):
        change_thresholds(thresholds, ["slow_factor="], "x")


def test_doctor_tells_half_dead_from_dead_and_names_lost_copies() -> None:
    half = ClusterStatus(
        health=ClusterHealth.CLUSTER_HEALTH_HALF_DEAD, verdict=HEALTH_VERDICT_HALF_DEAD, kafka_cluster_id="id-1"
    )
    [finding] = check_cluster(ClusterFacts(Cluster(name="east", status=half), GOOD))
    assert (finding.level, finding.check) == (Level.WARN, "health") and "keyed" in finding.remedy
    thin = ClusterStatus(
        health=ClusterHealth.CLUSTER_HEALTH_HEALTHY,
        kafka_cluster_id="id-1",
        evidence=HealthEvidence(partitions=9, under_replicated_partitions=2, missing_brokers=[3]),
    )
    [finding] = check_cluster(ClusterFacts(Cluster(name="east", status=thin), GOOD))
    assert (finding.check, finding.level) == ("copies", Level.WARN)
    assert finding.message == "2 of 9 partitions lack copies in step; brokers missing: 3"


@pytest.mark.parametrize(
    ("silent", "remedy"),
    [([], ""), ([3], ""), ([2, 3], "start one of brokers 2, 3, then"), ([1, 2, 3], "start 2 of brokers 1, 2, 3, then")],
)
def test_doctor_reports_a_lost_quorum_and_the_brokers_to_return(silent: list[int], remedy: str) -> None:
    evidence = HealthEvidence(brokers=3, silent_brokers=silent)
    status = ClusterStatus(
        health=ClusterHealth.CLUSTER_HEALTH_HALF_DEAD, verdict=HEALTH_VERDICT_HALF_DEAD, kafka_cluster_id="id-1"
    )
    status.evidence.CopyFrom(evidence)
    status.usual_brokers.extend([1, 2, 3])
    findings = {each.check: each for each in check_cluster(ClusterFacts(Cluster(name="east", status=status), GOOD))}
    assert ("quorum" in findings) == bool(remedy)
    if remedy:
        assert findings["quorum"].level is Level.FAIL and findings["quorum"].remedy.startswith(remedy)
