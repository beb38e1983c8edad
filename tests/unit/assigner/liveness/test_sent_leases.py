"""Leases a member was sent, by cluster and epoch."""

from typing import cast

import pytest

from services.assigner.liveness.sent_leases import SentLeases


def test_a_lease_sent_again_counts_once_under_its_new_epoch() -> None:
    sent = SentLeases()
    sent.add("logs/live/1/0", 5, "east")
    sent.add("logs/live/1/0", 7, "west")
    assert sent.clusters == {"west"}
    assert sent.on("east") == {} and sent.on("west") == {"logs/live/1/0": 7}


def test_a_lease_is_dropped_under_its_own_epoch_only() -> None:
    sent = SentLeases()
    sent.add("logs/live/1/0", 7, "east")
    assert not sent.drop("logs/live/1/0", 5)
    assert sent.on("east") == {"logs/live/1/0": 7}
    assert sent.drop("logs/live/1/0", 7)
    assert not sent.clusters


def test_who_looks_at_the_leases_of_a_cluster_cannot_change_them() -> None:
    sent = SentLeases()
    sent.add("logs/live/1/0", 7, "east")
    with pytest.raises(TypeError):
        cast("dict[str, int]", sent.on("east"))["logs/live/1/0"] = 8
    assert sent.on("east") == {"logs/live/1/0": 7}
