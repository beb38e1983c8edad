"""Advice that lowers durability is recognised: no outage may lead to it."""

import pytest

from tests.integration.several_brokers.outages import lowers_durability


@pytest.mark.parametrize(
    "advice",
    [
        "set min.insync.replicas=1 on topic t",
        "declare a smaller min.insync.replicas in topic_config",
        "let producers use acks=1",
        "unclean.leader.election.enable=true brings a leader back",
    ],
)
def test_advice_that_lowers_durability_is_found(advice: str) -> None:
    assert lowers_durability(advice)


@pytest.mark.parametrize("advice", ["bring broker 2 back", "set min.insync.replicas=2", "min.insync.replicas=10"])
def test_other_advice_is_not(advice: str) -> None:
    assert not lowers_durability(advice)
