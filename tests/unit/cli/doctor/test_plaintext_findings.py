"""`doctor` says when services can be called by anybody."""

import pytest

from braid.cli.doctor.findings import Level
from braid.cli.doctor.plaintext_findings import check_plaintext
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
        ([replica("10.0.0.1:7401")], Level.WARN, "registry-0 serve plain text: whoever", "certificates.md"),
        ([replica("registry:7401")], Level.WARN, "registry-0 serve plain text: whoever", "certificates.md"),
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
