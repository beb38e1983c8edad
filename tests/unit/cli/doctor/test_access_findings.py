"""`doctor` says when replicas refuse nothing."""

import pytest

from braid.api.mesh.v1.endpoint_pb2 import (
    ACCESS_MODE_ENFORCED,
    ACCESS_MODE_OPEN,
    ACCESS_MODE_UNSPECIFIED,
    AccessMode,
)
from braid.cli.doctor.access_findings import check_access
from braid.cli.doctor.findings import Level, ReplicaFacts


def replica(access: "AccessMode.ValueType", instance: str = "registry-0") -> ReplicaFacts:
    return ReplicaFacts("registry", instance, "10.0.0.1:7401", True, access=access)


def test_one_replica_with_open_access_is_named() -> None:
    replicas = [replica(ACCESS_MODE_ENFORCED), replica(ACCESS_MODE_OPEN, "dlq-0"), replica(ACCESS_MODE_OPEN, "dlq-1")]
    (finding,) = check_access(replicas)
    assert (finding.name, finding.check, finding.level) == ("services", "access", Level.WARN)
    assert finding.message.startswith("dlq-0, dlq-1: access is open")
    assert "BRAID_ACCESS=enforced" in finding.remedy


def test_rights_that_are_enforced_are_well() -> None:
    (finding,) = check_access([replica(ACCESS_MODE_ENFORCED), replica(ACCESS_MODE_UNSPECIFIED, "dlq-0")])
    assert (finding.level, finding.remedy) == (Level.OK, "")


@pytest.mark.parametrize("replicas", [[], [replica(ACCESS_MODE_UNSPECIFIED)]])
def test_replicas_that_do_not_say_are_no_finding(replicas: list[ReplicaFacts]) -> None:
    assert check_access(replicas) == []
