"""`doctor` says which outlets take no alerts."""

from braid.api.lagmon.v1.alert_pb2 import AlertOutlet
from braid.cli.doctor.findings import Level
from braid.cli.doctor.outlet_findings import check_outlets

NOW = 1_770_000_000_000


def test_an_outlet_that_fails_is_a_failure_with_its_reason() -> None:
    failing = AlertOutlet(
        name="pager", kind="webhook", trouble="it answered 500", trouble_since_ms=NOW - 120_000, waiting=3
    )
    found, fine = check_outlets([failing, AlertOutlet(name="am-0", kind="alertmanager")], NOW)
    assert (found.name, found.level, fine.level) == ("outlet/pager", Level.FAIL, Level.OK)
    assert found.message == "the webhook has taken no alerts for 2m: it answered 500; 3 notifications wait"
    assert "alert_outlets" in found.remedy


def test_a_mesh_without_outlets_has_no_finding() -> None:
    assert check_outlets([], NOW) == []
