"""Tenants' quotas at Kafka come to what was declared last, although leaders die between record, write and answer."""

import pytest

from testbed.checkers.quotas import OwnQuotas
from tests.simulation.plan import Plan
from tests.simulation.run import run

pytestmark = pytest.mark.slow

CLUSTERS_AWAY = ("pause-service", "cut-services", "kill-cluster", "pause-cluster", "cut-cluster", "lose-answers")


@pytest.mark.parametrize("faults", [(), CLUSTERS_AWAY], ids=["leaders die", "clusters are away too"])
def test_quotas_at_kafka_follow_tenants_while_leaders_die(faults: tuple[str, ...]) -> None:
    result = run(Plan(1, 20.0, settle_seconds=150.0, faults=faults, quotas=True))
    assert result.green, "\n".join([*result.trace[-60:], result.message])
    checker = next(each for each in result.checkers if isinstance(each, OwnQuotas))
    assert checker.changed > 10, "else it proves less than it says"
    dead = [line for line in result.trace if "SCRIPT" in line]
    for what in ("recorded a quota", "set a quota"):
        assert sum(what in line for line in dead) >= 2, dead
