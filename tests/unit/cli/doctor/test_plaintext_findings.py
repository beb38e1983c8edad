"""`doctor` says when services can be called by anybody."""

import pytest

from braid.api.mesh.v1.endpoint_pb2 import PLAINTEXT_METRICS, PLAINTEXT_STORE, Plaintext
from braid.cli.doctor.findings import Level, ReplicaFacts
from braid.cli.doctor.plaintext_findings import check_plain_connections, check_plaintext
from braid.rpc.directory import KnownEndpoint


def replica(address: str, tls_address: str = "", instance: str = "registry-0") -> KnownEndpoint:
    return KnownEndpoint("registry", instance, address, True, tls_address)


@pytest.mark.parametrize(
    ("replicas", "level", "said", "remedy"),
    [
        ([replica("10.0.0.1:7401", "10.0.0.1:7401")], Level.OK, "mutual TLS alone", ""),
        ([replica("127.0.0.1:7401")], Level.WARN, "every user and program of this machine", "braid dev --detach"),
        ([replica("localhost:7401")], Level.WARN, "every user and program of this machine", "braid dev --detach"),
        ([replica("[::1]:7401")], Level.WARN, "every user and program of this machine", "braid dev --detach"),
        ([replica("127.0.0.1:7401", "127.0.0.1:7501")], Level.WARN, "beside mutual TLS", "BRAID_TLS_MODE=required"),
        ([replica("10.0.0.1:7401")], Level.WARN, "registry-0 serve plain text: every program that", "certificates.md"),
        ([replica("registry:7401")], Level.WARN, "registry-0 serve plain text: every program that", "certificates.md"),
        ([replica("10.0.0.1:7401", "10.0.0.1:7501")], Level.WARN, "beside mutual TLS", "BRAID_TLS_MODE=required"),
        (
            [replica("10.0.0.1:7401", "10.0.0.1:7401"), replica("10.0.0.2:7401", instance="registry-1")],
            Level.WARN,
            "registry-1 serve plain text",
            "certificates.md",
        ),
    ],
)
def test_one_finding_tells_of_all_replicas(replicas: list[KnownEndpoint], level: Level, said: str, remedy: str) -> None:
    (finding,) = check_plaintext(replicas)
    assert (finding.name, finding.check, finding.level) == ("services", "tls", level)
    assert said in finding.message
    assert remedy in finding.remedy


def test_no_replica_is_no_finding_of_tls() -> None:
    assert check_plaintext([]) == []


def told(instance: str, *plaintext: "Plaintext.ValueType") -> ReplicaFacts:
    return ReplicaFacts("registry", instance, "10.0.0.1:7401", True, plaintext=plaintext)


def test_plain_stores_and_metrics_are_findings_with_remedies() -> None:
    replicas = [told("registry-1", PLAINTEXT_STORE, PLAINTEXT_METRICS), told("registry-0", PLAINTEXT_STORE), told("a")]
    store, metrics = check_plain_connections(replicas)
    assert (store.name, store.check, store.level) == ("services", "store", Level.WARN)
    assert store.message.startswith("registry-0, registry-1 reach etcd on other machines in plain text")
    assert "etcd+tls://" in store.remedy
    assert (metrics.name, metrics.check, metrics.level) == ("services", "metrics", Level.WARN)
    assert metrics.message.startswith("registry-1 serve metrics to other machines in plain text")
    assert "BRAID_METRICS_TLS=server" in metrics.remedy


def test_replicas_that_name_nothing_plain_are_no_finding() -> None:
    assert check_plain_connections([told("registry-0"), told("registry-1")]) == []
