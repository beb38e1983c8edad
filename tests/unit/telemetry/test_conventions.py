"""Names of messaging attributes: those of 1.45, and with the operator's wish the earlier ones beside them."""

import pytest

from braid.telemetry.conventions import CLUSTER_ID, OFFSET, SYSTEM, messaging_attributes


@pytest.mark.parametrize("opted_in", ["", "messaging", "http/dup"])
def test_new_names_stand_alone_by_default(monkeypatch: pytest.MonkeyPatch, opted_in: str) -> None:
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", opted_in)
    assert messaging_attributes({SYSTEM: "kafka"}) == {"messaging.system.name": "kafka"}


def test_both_names_are_there_for_whoever_asks_for_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "http, messaging/dup,messaging")
    assert messaging_attributes({SYSTEM: "kafka", OFFSET: "7", CLUSTER_ID: "x", "other": "y"}) == {
        "messaging.system.name": "kafka",
        "kafka.offset": "7",
        "kafka.cluster.id": "x",
        "other": "y",
        "messaging.system": "kafka",
        "messaging.kafka.offset": "7",
        "messaging.kafka.cluster.id": "x",
    }
