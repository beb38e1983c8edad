"""Clusters' loads on the command line."""

import asyncio

import pytest

from braid.api.registry.v1.cluster_pb2 import CLUSTER_HEALTH_HEALTHY, Cluster, ClusterLoad, ClusterStatus
from braid.cli.doctor.cluster_findings import ClusterFacts, check_cluster
from braid.cli.resources.clusters.loads import bytes_text, load_lines
from braid.kernel.ports import ClusterDescription
from tests.unit.cli.mesh import Shell, virtual

GIB = 1 << 30


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 KiB"),
        (76.4, "76 B"),
        (150 * 1_024, "150 KiB"),
        (1_023 * 1_024, "1.0 MiB"),
        (1.5 * GIB, "1.5 GiB"),
        (1 << 60, "1024 PiB"),
    ],
)
def test_bytes_are_told_in_three_figures(count: float, text: str) -> None:
    assert bytes_text(count) == text


def test_a_load_in_full_in_part_and_not_at_all() -> None:
    load = ClusterLoad(measured_ms=90_000, broker=2, free_bytes=30 * GIB, total_bytes=100 * GIB, bytes_per_s=2_097_152)
    assert load_lines(load, 100_000) == [
        "Load:",
        "  fullest disk:           30.0 GiB of 100 GiB free (30%), of broker 2",
        "  taken:                  2.0 MiB/s over the last minute, copies not counted",
        "  measured:               10s ago",
    ]
    load.silent_brokers.extend([1, 3])
    load.unmeasured = "no answer"
    assert load_lines(load, 100_000)[-2:] == [
        "  did not tell:           broker 1, 3",
        "  last look:              no answer",
    ]
    assert load_lines(ClusterLoad(unmeasured="no answer"), 100_000) == [
        "Load:",
        "  not measured:           no answer",
    ]


@pytest.mark.parametrize(("free", "found"), [(10, ["cluster"]), (9, ["disk"]), (0, ["disk"])])
def test_a_disk_that_is_nearly_full_is_a_finding(free: int, found: list[str]) -> None:
    load = ClusterLoad(measured_ms=1, broker=2, free_bytes=free * GIB, total_bytes=100 * GIB)
    status = ClusterStatus(health=CLUSTER_HEALTH_HEALTHY, load=load)
    told = ClusterDescription("id-1", 1, {1: "east:9092"}, False, 4096, 10_080)
    (finding,) = check_cluster(ClusterFacts(Cluster(name="east", status=status), told))
    assert [finding.check] == found
    if free == 9:
        assert finding.message == "the fullest disk, of broker 2, has 9.0 GiB left (9%)" and finding.remedy


@virtual
async def test_a_cluster_shows_its_load() -> None:
    shell = await Shell().start("east", "west")
    east = shell.kafka.named("east")
    east.disk_bytes, east.filled_bytes = 100 * GIB, {1: 80 * GIB}
    await asyncio.sleep(20.0)
    described = (await shell.braid("describe", "cluster", "east")).out
    assert "20.0 GiB of 100 GiB free (20%), of broker 1" in described
    assert max(map(len, described.splitlines())) <= 100
    header, first, second = (await shell.braid("get", "clusters", "-o", "wide")).out.splitlines()
    assert "DISK FREE" in header and "TAKES" in header
    assert " 20% " in first and " 100% " in second
    assert first[header.index("TAKES") :].split()[1] == "B/s"
